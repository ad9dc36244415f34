"""Figures and verdicts of the Ising experiments."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.verdicts import Verdict, claim, compare
from ebmtut.plotting import COLORS, figure_size, heatmap, panel_size
from ebmtut.results import Result

__all__ = ["check_heatmaps", "check_rmse", "draw_heatmaps", "draw_rmse"]

# What we ask of ED-Grid: more than the paper in the first two columns, in which
# there is most to learn; elsewhere its numbers.
OURS = {
    "10x10, 0.1": 4.7,
    "10x10, 0.2": 4.7,
    "10x10, 0.3": 3.1,
    "10x10, 0.4": 2.6,
    "10x10, 0.5": 2.3,
    "9x9, -0.1": 4.5,
    "9x9, -0.2": 4.0,
}

# How far behind the paper's negative log-RMSE any variant may be.
NEAR = 0.5


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


def draw_rmse(result: Result) -> Figure:
    """Draw negative log-RMSE by lattice, with the null row J = 0."""
    table = result.scalars["table"]
    columns = list(next(iter(table.values())))
    at = np.arange(len(columns))
    figure, ax = plt.subplots(figsize=figure_size("full"))
    null = [next(iter(table.values()))[c]["null"][0] for c in columns]
    ax.plot(at, null, "_", ms=30, color=COLORS["null"], label="J = 0")
    for offset, (method, row) in zip((-0.2, 0.0, 0.2), table.items(), strict=False):
        for k, column in enumerate(columns):
            values = row[column]["nlr"]
            label = method if k == 0 else None
            place = np.full(len(values), k + offset)
            ax.plot(place, values, "o", ms=5, color=COLORS[method], label=label)
    ax.set_xticks(at, columns, rotation=20)
    ax.set(ylabel="−ln RMSE (higher is better)", xlabel="lattice, coupling σ")
    ax.legend()
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


def check_rmse(result: Result) -> list[Verdict]:
    """Compare with the paper's numbers, and ED-Grid with our own bounds.

    Whatever the rule for published numbers says, no variant may stay more than
    `NEAR` behind the paper's.
    """
    verdicts = []
    for method, row in result.scalars["table"].items():
        for column, cell in row.items():
            values = cell["nlr"]
            n = len(values)
            mean = float(np.mean(values))
            stderr = float(np.std(values, ddof=1)) / n**0.5 if n > 1 else None
            evidence: dict[str, Any] = {"stderr": stderr, "n_seeds": n}
            if method != "ED-Pool":
                where = ("ed/ising-rmse", "negative log-RMSE", method, column)
                verdict = compare(*where, mean, **evidence)
                verdicts.append(verdict)
                behind = (verdict.published or math.nan) - mean
                name = f"{method}, {column}: behind the paper's number"
                verdicts.append(claim(name, behind, "at most", NEAR, **evidence))
            if method == "ED-Grid" and result.scale != "quick":
                name = f"ED-Grid, {column}: negative log-RMSE"
                verdicts.append(claim(name, mean, "at least", OURS[column], **evidence))
    return verdicts
