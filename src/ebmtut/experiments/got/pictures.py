"""What only the pages of this chapter draw."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.experiments.got.lines import SIDES
from ebmtut.experiments.got.wnmf import sharpness
from ebmtut.plotting import COLORS, image_grid, plain_log
from ebmtut.results import Result, load_result
from ebmtut.transport import ExactOT

_N_LEVELS = 4000


def draw_duality(
    x: Tensor, y: Tensor, p: Tensor, q: Tensor, cost: Tensor, solved: ExactOT
) -> Figure:
    """Draw the mass that moves, and beside it the slack of every pair."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(4.6, 2.6))
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
    right.set(xlabel="hole", ylabel="heap", title="slack: cost − price")
    return figure


def quantile_barycentre(x: Tensor, given: Tensor) -> Tensor:
    """Return the distribution whose quantile function is the mean of those given.

    The mass of a point is spread evenly over its cell of [0, 1].
    """
    edges = np.linspace(0, 1, len(x) + 1)
    levels = np.linspace(0, 1, _N_LEVELS + 1)
    below = torch.nn.functional.pad(given.cumsum(1), (1, 0)).numpy()
    quantiles = np.mean([np.interp(levels, row / row[-1], edges) for row in below], 0)
    return torch.from_numpy(np.diff(np.interp(edges, quantiles, levels))).to(x)


def draw_barycentre(x: Tensor, given: Tensor, found: Tensor) -> Figure:
    """Draw what was learned over the given distributions and their barycentre."""
    figure, ax = plt.subplots(figsize=(4.6, 2.5))
    for row in given:
        ax.fill_between(x, row, color="#DDDDDD", lw=0)
        top = int(row.argmax())
        ax.text(
            float(x[top]),
            float(row[top]),
            "given",
            c="#777777",
            ha="center",
            va="bottom",
        )
    exact = quantile_barycentre(x, given)
    ax.plot(x, exact, "--", color=COLORS["exact"], zorder=3)
    ax.plot(x, found, color=COLORS["Gibbs-OT"], lw=3)
    top = int(exact.argmax())
    for name, at, height in (
        ("learned", "Gibbs-OT", 0.92),
        ("exact\nbarycentre", "exact", 0.65),
    ):
        place = float(x[top]) - 0.08, height * float(exact[top])
        ax.text(*place, name, c=COLORS[at], ha="right", va="center")
    ax.set(xlabel="position x", ylabel="mass", ylim=(0, 1.15 * float(given.max())))
    return figure


def draw_problem(x: Tensor, p: Tensor, q: Tensor) -> Figure:
    """Draw two distributions on a line."""
    figure, ax = plt.subplots(figsize=(4.6, 2.0))
    for name, mass in (("p", p), ("q", q)):
        ax.fill_between(x, mass, color=SIDES[name], alpha=0.5, lw=0)
        top = int(mass.argmax())
        at = float(x[top]), float(mass[top])
        ax.text(*at, name, c=SIDES[name], ha="center", va="bottom")
    top_mass = float(torch.stack([p, q]).max())
    ax.set(xlabel="position x", ylabel="mass", ylim=(0, 1.15 * top_mass))
    return figure


def oracle_study() -> Result:
    """Return what `studies/got/oracles.py` has stored."""
    return load_result("got/oracles", "full", Path(__file__).parents[4] / "studies")


def draw_fives(study: Result) -> Figure:
    """Draw images above their models, which learned from different gradients."""
    rows = {"images": "images"}
    for name, method in study.config["methods"].items():
        rows[f"{name}/models"] = f"{name}, {method['budgets'][-1]} epochs"
    figure, axes = plt.subplots(len(rows), 1, figsize=(4.6, 3.2))
    for ax, (key, title) in zip(axes, rows.items(), strict=True):
        images = study.arrays[key]
        image_grid(ax, images, 8, vmin=0, vmax=255)
        title += f": {sharpness(torch.from_numpy(images))['support']:.0f} pixels"
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
    figure, ax = plt.subplots(figsize=(4.6, 3.4))
    low, high = 1.1, 1.65
    for name, rows in oracle_points(study).items():
        epochs, seconds, cost, error = rows.T
        color = COLORS[name]
        ax.errorbar(seconds, cost, error, fmt="o-", color=color, capsize=3)
        first = min(k for k in range(len(rows)) if cost[k] < high)
        for k, (n, at) in enumerate(zip(epochs, cost, strict=True)):
            text = f"{name}, {n:.0f} epochs" if k == first else f"{n:.0f}"
            how: dict[str, Any] = {"color": color, "textcoords": "offset points"}
            how["fontsize"] = 10
            if at > high:  # the line leaves the axis
                text, at = f"↑ {n:.0f} epochs: {at:.2f}", high - 0.02
                how |= {"xytext": (-20, 0), "ha": "right"}
                ax.annotate(text, (seconds[first], at), **how)
            else:
                above = (6 * (k > first) - 4, 10), "left" if k == first else "center"
                how["xytext"], how["ha"] = ((8, -4), "left") if first else above
                ax.annotate(text, (seconds[k], at), **how)
    plain_log(ax.xaxis)
    ax.set(
        xlabel="CPU seconds of the learning", ylabel="root of transport cost, pixels"
    )
    ax.set(ylim=(low, high), xlim=(0.2, 90))
    return figure
