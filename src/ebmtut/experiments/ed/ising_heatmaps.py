"""Row ed/ising-heatmaps (Figure 2): couplings learned and true, side by side."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.ed import ising_rmse
from ebmtut.experiments.ed.couplings import IsingConfig
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, heatmap, panel_size
from ebmtut.results import Result

__all__ = ["EXPERIMENT"]


def draw_heatmaps(result: Result) -> Figure:
    """Draw true and learned couplings of the first lattice side by side."""
    table = result.scalars["table"]
    column = next(iter(next(iter(table.values()))))
    names = ["truth", *table]
    figure, axes = plt.subplots(1, len(names), figsize=panel_size(1, len(names)))
    limit = float(np.abs(result.arrays[f"truth/{column}"]).max())
    for ax, name in zip(axes, names, strict=True):
        image = heatmap(ax, result.arrays[f"{name}/{column}"], limit=limit)
        ax.set_title(name, color=COLORS.get(name, "black"))
        if name != "truth":
            rmse = np.exp(-table[name][column]["nlr"][0])
            ax.set_xlabel(f"RMSE {rmse:.4f}")
    figure.colorbar(image, ax=axes, shrink=0.7, label="coupling")
    return figure


def check_heatmaps(result: Result) -> list[Verdict]:
    """The true edges are the largest learned couplings."""
    verdicts = []
    for method in ("ED-Bern", "ED-Grid"):
        for column, cell in result.scalars["table"].get(method, {}).items():
            name = f"{method}, {column}: precision of the edges"
            precision = float(np.mean(cell["precision"]))
            verdicts.append(claim(name, precision, "at least", 0.99))
    return verdicts


_PRESET = IsingConfig(problems=((10, 0.2),), penalties=(20.0,))

EXPERIMENT = replace(
    ising_rmse.EXPERIMENT,
    id="ed/ising-heatmaps",
    title="Heat maps of learned couplings",
    presets={
        "quick": replace(_PRESET, train=replace(_PRESET.train, n_steps=400)),
        "full": replace(_PRESET, train=replace(_PRESET.train, n_steps=2000)),
    },
    figure=draw_heatmaps,
    check=check_heatmaps,
)
