"""Row dnfs/trajectory (Figure 17): from noise to data and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs import pretrained_ebm
from ebmtut.experiments.dnfs.captions import means_of
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.plotting import panel_size
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

METHODS = ("DNFS", "untrained")
#: What we ask at every time: the mass in the wrong place.
MISPLACED = 0.1

_ROWS = {"path": "there", "wanted": "exact", "back": "back"}


def draw_trajectory(result: Result) -> Figure:
    """Draw laws at five times: of the flow, of the path, and of the way back."""
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


def trajectory_table(result: Result) -> Table:
    """Tabulate the largest total variation distance over time, of flow and baseline."""
    cells = [
        (f"{method}, {density}", cell)
        for density in result.scalars["energy from data"]
        for method in METHODS
        for cell in [result.scalars["table"][method][density]]
    ]
    columns: dict[str, list[Cell]] = {"flow": [name for name, _ in cells]}
    for head, key in (("there", "worst TV"), ("back", "worst TV back")):
        columns[head] = [mean_and_stderr(cell[key]) for _, cell in cells]
    return Table(
        columns,
        caption=f"Mass in the wrong place, at the worst of 33 times.{means_of(result)}",
        kinds=["null" if name.startswith("untrained") else "" for name, _ in cells],
        digits=2,
    )


def check_trajectory(result: Result) -> list[Verdict]:
    """At its worst time the flow's law is the path's, there and back."""
    verdicts = []
    for density, cell in result.scalars["table"]["DNFS"].items():
        for words, key in (("", "worst TV"), (" on the way back", "worst TV back")):
            mean, stderr = mean_and_stderr(cell[key])
            of: dict[str, Any] = {"stderr": stderr, "n_seeds": len(cell[key])}
            name = f"{density}: largest misplaced mass at any time{words}"
            verdicts.append(claim(name, mean, "at most", MISPLACED, **of))
    return verdicts


_BASE = pretrained_ebm.EXPERIMENT
EXPERIMENT = replace(
    _BASE,
    id="dnfs/trajectory",
    title="From noise to data and back",
    presets={k: replace(v, methods=METHODS) for k, v in _BASE.presets.items()},
    figure=draw_trajectory,
    check=check_trajectory,
)
