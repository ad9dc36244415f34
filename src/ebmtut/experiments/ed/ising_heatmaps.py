"""Experiment ed/ising-heatmaps (Figure 2): couplings learned and true, side by side."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.ed import ising_rmse
from ebmtut.experiments.ed.couplings import IsingConfig
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.plotting import COLORS, heatmap, panel_size
from ebmtut.results import Result


def draw_heatmaps(result: Result) -> Figure:
    """Draw true and learned couplings of the first lattice, two beside each other."""
    table = result.scalars["table"]
    column = next(iter(next(iter(table.values()))))
    names = ["truth", *table]
    n_rows = -(-len(names) // 2)
    figure, grid = plt.subplots(n_rows, 2, figsize=panel_size(n_rows, 2), squeeze=False)
    axes = grid.ravel()
    for ax in axes[len(names) :]:
        ax.set_visible(False)
    limit = float(np.abs(result.arrays[f"truth/{column}"]).max())
    for ax, name in zip(axes, names, strict=False):
        image = heatmap(ax, result.arrays[f"{name}/{column}"], limit=limit)
        ax.set_title(name, color=COLORS.get(name, "black"))
        if name != "truth":
            rmse = np.exp(-table[name][column]["nlr"][0])
            ax.set_xlabel(f"RMSE {rmse:.4f}")
    figure.colorbar(image, ax=axes, shrink=0.5, label="coupling")
    return figure


def check_heatmaps(result: Result) -> Verdicts:
    """The true edges are the largest learned couplings."""
    for method in ("ED-Bern", "ED-Grid"):
        for column, cell in result.scalars["table"].get(method, {}).items():
            name = f"{method}, {column}: precision of the edges"
            precision = float(np.mean(cell["precision"]))
            yield claim(name, precision, "at least", 0.99)


_PRESET = IsingConfig(problems=((10, 0.2),), penalties=(20.0,))

EXPERIMENT = replace(
    ising_rmse.EXPERIMENT,
    id="ed/ising-heatmaps",
    title="Heat maps of learned couplings",
    presets={
        "quick": replace(_PRESET, train=replace(_PRESET.train, n_steps=200)),
        "full": replace(_PRESET, train=replace(_PRESET.train, n_steps=2000)),
        "paper": replace(ising_rmse.PAPER, problems=((10, 0.2),)),
    },
    figure=draw_heatmaps,
    check=check_heatmaps,
)
