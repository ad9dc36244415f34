"""What only the pages of this chapter draw."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.plotting import COLORS, OKABE_ITO, image_grid
from ebmtut.results import Result, load_result
from ebmtut.transport import ExactOT

#: The two sides of a transport problem, on all pages and in the widgets.
SIDES = {"p": OKABE_ITO["blue"], "q": OKABE_ITO["vermillion"]}
_N_LEVELS = 4000


def draw_duality(
    x: Tensor, y: Tensor, p: Tensor, q: Tensor, cost: Tensor, solved: ExactOT
) -> Figure:
    """Draw the mass that moves, and beside it the slack of every pair."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(5.2, 2.7))
    price = solved.g[:, None] - solved.h
    right.matshow(cost - price < 1e-9, cmap="Blues", vmax=2)
    for i, j in (solved.plan >= 0).nonzero().tolist():
        mass = float(solved.plan[i, j])
        if mass > 0:
            left.plot([x[i], y[j]], [1, 0], color="#9ecae1", lw=20 * mass, zorder=1)
        text = f"{cost[i, j]:.0f} − {price[i, j]:.0f}".replace("− -", "+ ")
        right.text(j, i, text, ha="center", va="center")
    for at, level, masses, name in ((x, 1, p, "p"), (y, 0, q, "q")):
        left.scatter(at, [level] * len(at), s=1100 * masses, c=SIDES[name], zorder=3)
        left.text(min(x.min(), y.min()) - 1.1, level, name, va="center")
        for place, mass in zip(at.tolist(), masses.tolist(), strict=True):
            left.text(
                place, 1.5 * level - 0.25, f"{mass:.1f}", ha="center", va="center"
            )
    left.margins(0.25)
    left.axis("off")
    right.set_xticks(range(len(y)), [f"{j + 1}" for j in range(len(y))])
    right.set_yticks(range(len(x)), [f"{i + 1}" for i in range(len(x))])
    right.set(xlabel="hole", ylabel="heap", title="cost − price")
    return figure


def quantile_barycentre(x: Tensor, given: Tensor) -> Tensor:
    """Return the distribution whose quantile function is the mean of those given."""
    levels = (torch.arange(_N_LEVELS).to(x) + 0.5) / _N_LEVELS
    place = torch.searchsorted(given.cumsum(1), levels.repeat(len(given), 1))
    quantiles = x[place.clamp(max=len(x) - 1)]
    return torch.histc(quantiles.mean(0), len(x), 0.0, 1.0) / _N_LEVELS


def draw_barycentre(x: Tensor, given: Tensor, found: Tensor) -> Figure:
    """Draw what was learned over the given distributions and their barycentre."""
    figure, ax = plt.subplots(figsize=(5.2, 2.6))
    ax.fill_between(x, given.amax(0), color="#DDDDDD", label="given")
    ax.plot(x, given.mean(0), ":", color="k", label="mean of the masses")
    ax.plot(x, quantile_barycentre(x, given), color=COLORS["exact"], label="quantiles")
    ax.plot(x, found, color=COLORS["Gibbs-OT"], label="learned")
    ax.set(xlabel="x", ylabel="mass")
    ax.legend(loc="upper right", fontsize=9)
    return figure


def draw_problem(x: Tensor, p: Tensor, q: Tensor) -> Figure:
    """Draw two distributions on a line."""
    figure, ax = plt.subplots(figsize=(5.2, 2.0))
    for name, mass in (("p", p), ("q", q)):
        ax.fill_between(x, mass, color=SIDES[name], alpha=0.5, label=name)
    ax.set(xlabel="x", ylabel="mass", ylim=0)
    ax.legend()
    return figure


def oracle_study() -> Result:
    """Return what `studies/got/oracles.py` has stored."""
    return load_result("got/oracles", "full", Path(__file__).parents[4] / "studies")


def draw_fives(study: Result) -> Figure:
    """Draw images above their models, which learned from different gradients."""
    rows = {"images": "images"}
    for name, method in study.config["methods"].items():
        rows[f"{name}/models"] = f"{name}, {method['budgets'][-1]} epochs"
    figure, axes = plt.subplots(len(rows), 1, figsize=(5.2, 3.4))
    for ax, (key, title) in zip(axes, rows.items(), strict=True):
        image_grid(ax, study.arrays[key], 8, vmin=0, vmax=255)
        color = COLORS.get(key.split("/")[0], "k")
        ax.set_title(title, color=color, fontsize=10, pad=2)
    return figure


def oracle_points(study: Result) -> dict[str, np.ndarray]:
    """List CPU seconds, root of the mean cost in pixels and its error, per method.

    Seconds are the epochs of a run times the median CPU time of an epoch, which other
    work on the machine disturbs little.
    """
    points = {}
    for name, cells in study.scalars["table"].items():
        every = [t for cell in cells.values() for t in cell["epoch_seconds"]]
        epoch = float(np.median(every))
        rows = []
        for n, cell in cells.items():
            cost = np.sqrt(cell["cost"])
            error = cost.std(ddof=1) / len(cost) ** 0.5 if len(cost) > 1 else 0.0
            rows.append([int(n), int(n) * epoch, cost.mean(), error])
        points[name] = np.array(rows)
    return points


def draw_oracles(study: Result) -> Figure:
    """Draw the exact cost of learned models over the CPU time of their learning."""
    figure, ax = plt.subplots(figsize=(5.2, 3.4))
    for name, rows in oracle_points(study).items():
        epochs, seconds, cost, error = rows.T
        ax.errorbar(seconds, cost, error, fmt="o-", color=COLORS[name], label=name)
        for n, x, y in zip(epochs, seconds, cost, strict=True):
            ax.annotate(
                f"{n:.0f}",
                (x, y),
                xytext=(3, 5),
                textcoords="offset points",
                color=COLORS[name],
                fontsize=9,
            )
    ax.set(xscale="log", xlabel="CPU seconds", ylabel="transport cost, pixels")
    ax.legend()
    return figure
