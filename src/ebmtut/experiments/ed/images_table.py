"""Experiment ed/images-table (Table 2): likelihoods of energies of binary images."""

from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.ed import images
from ebmtut.experiments.ed.images import DISCREPANCIES, METHODS
from ebmtut.experiments.verdicts import Verdicts, claim, mean_and_stderr
from ebmtut.plotting import COLORS, figure_size
from ebmtut.results import Result

SETTLED = 1.0  # nats between log Z by a walk and by one of a quarter of its steps


def mean_of(
    cell: dict[str, Any], metric: str, error: str = ""
) -> tuple[float, float | None]:
    """Return the mean over the seeds, and an error that holds that of the runs."""
    values = cell.get(metric, [None])
    return mean_and_stderr(values, cell.get(error, [None] * len(values)))


def draw_table(result: Result) -> Figure:
    """Draw the NLL of every run, with those of the mixture and of independent bits."""
    scalars = result.scalars
    table, sets = scalars["table"], list(scalars["null"])
    figure, ax = plt.subplots(figsize=figure_size("wide"))
    at = np.arange(len(sets))
    mixture = [scalars["mixture"][name] for name in sets]
    bits = [baseline["nll"] for baseline in scalars["null"].values()]
    ax.hlines(bits, at - 0.4, at + 0.4, COLORS["null"], label="independent bits")
    ax.hlines(mixture, at - 0.4, at + 0.4, COLORS["exact"], "--", label="mixture")
    for x, method in zip(np.linspace(-0.3, 0.3, len(table)), table, strict=True):
        nlls = [mean_of(table[method][name], "nll")[0] for name in sets]
        color = COLORS[method.removeprefix("PCD, ")]
        ax.plot(at + x, nlls, "o", color=color, label=method)
    ax.set_xticks(at, sets)
    ax.set(ylabel="held-out NLL [nats]")
    figure.legend(ncols=4, loc="outside lower center", fontsize=9)
    return figure


def check_table(result: Result) -> Verdicts:
    """Ask energy discrepancy for more than a mixture, and the walks to settle."""
    for method, row in result.scalars["table"].items():
        for name, cell in row.items():
            nll, stderr = mean_of(cell, "nll", "nll_se")
            of: dict[str, Any] = {"stderr": stderr, "n_seeds": result.config["n_seeds"]}
            if method in DISCREPANCIES:
                label = f"{method}, {name}: NLL minus that of the mixture"
                beside = result.scalars["mixture"][name]
                yield claim(label, nll - beside, "at most", 0.0, **of)
            if "settled" in cell:
                label = f"{method}, {name}: change of log Z in the last three quarters"
                moved = abs(mean_of(cell, "settled")[0])
                yield claim(label, moved, "at most", SETTLED, sanity=True)


_PRESETS = images.EXPERIMENT.presets

EXPERIMENT = replace(
    images.EXPERIMENT,
    id="ed/images-table",
    title="Test NLL of binary image models",
    presets={**_PRESETS, "quick": replace(_PRESETS["quick"], methods=METHODS)},
    figure=draw_table,
    check=check_table,
)
