"""Figures and verdicts of Gibbs-OT on a line."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, TEXT_WIDTH
from ebmtut.results import Result

__all__ = [
    "DUAL_ERROR",
    "check_bands",
    "check_coupling",
    "color_of",
    "draw_bands",
    "draw_coupling",
    "draw_plan",
]

# What we ask: half a percent is the row's own bound.
DUAL_ERROR = 0.005


def draw_bands(result: Result) -> Figure:
    """Draw g, h, U, L and the bands of the conditionals at each snapshot."""
    z, table = result.arrays, result.scalars["table"]
    level = result.scalars["level"]
    figure, axes = plt.subplots(
        2, len(table), figsize=(TEXT_WIDTH, 4.2), sharex=True, squeeze=False
    )
    tops = [np.concatenate([z[f"{n}/U"], z[f"{n}/L"]]) for n in table]
    low, high = min(map(np.min, tops)), max(map(np.max, tops))
    margin = 0.3 * (high - low)
    for (upper, lower), (n, cell) in zip(axes.T, table.items(), strict=True):
        reach = -math.log(1 - level) * cell["temperature"][0]
        upper.set_title(f"{n} iterations\nT = {cell['temperature'][0]:.1e}")
        for ax, name, edge, sign, mass in (
            (upper, "g", "U", -1, "p"),
            (lower, "h", "L", 1, "q"),
        ):
            limit, value = z[f"{n}/{edge}"], z[f"{n}/{name}"]
            far = limit + sign * reach / z[mass]
            ax.fill_between(z["x"], limit, far, color="#CCCCCC", lw=0)
            ax.plot(z["x"], limit, color=COLORS["exact"], lw=1, label=edge)
            ax.plot(z["x"], value, ".", ms=2, color=COLORS["Gibbs-OT"], label=name)
            ax.set(ylim=(low - margin, high + margin), xticks=[0, 1])
        lower.set_xlabel("x")
    for ax in axes[:, 0]:
        ax.legend(loc="best", markerscale=3)
        ax.set_ylabel("potential")
    for ax in axes[:, 1:].flat:
        ax.set_yticklabels([])
    return figure


def check_bands(result: Result) -> list[Verdict]:
    """Bands hold what they should, and get thinner; U and L stay bounded."""
    table = result.scalars["table"]
    first, *_, last = table.values()
    n_seeds = len(last["inside"])
    inside = float(np.mean([cell["inside"] for cell in table.values()]))
    n_draws = 2 * result.config["n_points"] * n_seeds * len(table)
    level = result.scalars["level"]
    error = math.sqrt(level * (1 - level) / n_draws)
    name = "draws inside the 95 percent bands: standard errors off"
    shrunk = float(np.mean(last["gap"]) / np.mean(first["gap"]))
    return [
        claim(name, abs(inside - level) / error, "at most", 5, n_seeds=n_seeds),
        claim(
            "gap that 95 percent of the draws keep, last to first snapshot",
            shrunk,
            "at most",
            0.01,
            n_seeds=n_seeds,
        ),
        claim(
            "largest |U| or |L|, in units of the cost",
            max(max(cell["range"]) for cell in table.values())
            / result.scalars["exact"],
            "at most",
            10,
            n_seeds=n_seeds,
        ),
    ]


def draw_coupling(result: Result) -> Figure:
    """Draw the couplings, a method a column and a budget a row."""
    table = result.scalars["table"]
    methods = [m for m in table if not m.startswith("Gibbs-OT")]
    methods.append(next(m for m in table if m.startswith("Gibbs-OT")))
    budgets = list(table[methods[0]])
    size = (TEXT_WIDTH, 1.33 * len(budgets) + 0.3)
    figure, axes = plt.subplots(len(budgets), len(methods), figsize=size)
    for column, method in zip(axes.T, methods, strict=True):
        column[0].set_title(method.split(", power")[0], fontsize=9)
        for ax, budget in zip(column, budgets, strict=True):
            draw_plan(ax, result, f"{method}/{budget}", color_of(method))
            cell = table[method][budget]
            ax.set_xlabel(f"L1 {np.mean(cell['l1']):.2f}", fontsize=8)
    for ax, budget in zip(axes[:, 0], budgets, strict=True):
        ax.set_ylabel(budget)
    return figure


def color_of(method: str) -> str:
    """Return the colour of a method of a table."""
    kind = {"IBP": "Sinkhorn", "entropic": "Sinkhorn"}
    name = method.split(",")[0]
    return COLORS[kind.get(name, name)]


def draw_plan(ax: Axes, result: Result, name: str, color: str) -> None:
    """Show a coupling in its colour, and the exact one as fine dots."""
    shades = LinearSegmentedColormap.from_list("", ["white", color])
    ax.imshow(result.arrays[name], cmap=shades, origin="lower", vmin=0, vmax=200)
    y, x = np.nonzero(result.arrays["exact"])
    ax.plot(x, y, ",", color=COLORS["exact"], alpha=0.5)
    ax.set(xticks=[], yticks=[])


def check_coupling(result: Result) -> list[Verdict]:
    """The dual value is right at the end, and the distance falls on the way."""
    table = result.scalars["table"]
    ours = [f"Gibbs-OT, power {power:g}" for power in result.config["powers"]]
    verdicts = []
    for method in ours:
        last = table[method][max(table[method], key=int)]
        name = f"{method}: error of the worst dual value at the largest budget"
        n, worst = len(last["dual"]), max(last["dual"])
        verdicts.append(claim(name, worst, "at most", DUAL_ERROR, n_seeds=n))
    # Chains cooled too fast vary so much that a few seeds say nothing.
    for method in ours[:1] if result.scale == "quick" else ours:
        l1 = [float(np.mean(cell["l1"])) for cell in table[method].values()]
        name = f"{method}: largest rise of the L1 distance from budget to budget"
        verdicts.append(claim(name, max(np.diff(l1)), "at most", 0, n_seeds=n))
    return verdicts
