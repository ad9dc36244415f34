"""Row dnfs/trajectory (Figure 17): from noise to data and back."""

from dataclasses import replace

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs import pretrained_ebm
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.plotting import panel_size
from ebmtut.results import Result

METHODS = ("DNFS", "untrained")
#: Claimed at every time: the total variation distance.
MAX_TV = 0.1

_ROWS = {"path": "there", "wanted": "exact", "back": "back"}


def draw_trajectory(result: Result) -> Figure:
    """Draw distributions at five times: of the flow, the path and the reversed flow."""
    density = next(iter(result.scalars["energy from data"]))
    figure, axes = plt.subplots(3, 5, figsize=panel_size(3, 5, title=0.1))
    for (key, label), line in zip(_ROWS.items(), axes, strict=True):
        distributions = result.arrays[f"{key}/DNFS/{density}"]
        wanted = result.arrays[f"wanted/DNFS/{density}"]
        line[0].set_ylabel(label)
        for k, ax in enumerate(line):
            ax.imshow(distributions[k], origin="lower", vmin=0, vmax=wanted[k].max())
            ax.set(xticks=[], yticks=[])
            if key == "path":
                ax.set_title(f"t = {k / 4:g}", fontsize=8)
    return figure


def check_trajectory(result: Result) -> Verdicts:
    """At its worst time the flow has the path's distribution, as has its reversal."""
    for density, cell in result.scalars["table"]["DNFS"].items():
        keys = {"": "worst TV", " of the reversed flow": "worst TV back"}
        for words, key in keys.items():
            name = f"{density}: largest total variation at any time{words}"
            yield claim(name, cell[key], "at most", MAX_TV)


_BASE = pretrained_ebm.EXPERIMENT
EXPERIMENT = replace(
    _BASE,
    id="dnfs/trajectory",
    title="From noise to data and back",
    presets={k: replace(v, methods=METHODS) for k, v in _BASE.presets.items()},
    figure=draw_trajectory,
    check=check_trajectory,
)
