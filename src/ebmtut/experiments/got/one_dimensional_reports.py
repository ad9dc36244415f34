"""Figures and verdicts of Gibbs-OT on a line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, TEXT_WIDTH
from ebmtut.results import Result

__all__ = [
    "check_bands",
    "check_coulomb",
    "check_coupling",
    "draw_bands",
    "draw_coulomb",
    "draw_coupling",
]

# What we ask: half a percent is the row's own bound.
DUAL_ERROR = 0.005
NEAR = 0.99
ENTROPIC_BOUNDARY = 1.1
GIBBS_BOUNDARY = 0.05


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
            _coupling(ax, result, f"{method}/{budget}", _color(method))
            cell = table[method][budget]
            ax.set_xlabel(f"L1 {np.mean(cell['l1']):.2f}", fontsize=8)
    for ax, budget in zip(axes[:, 0], budgets, strict=True):
        ax.set_ylabel(budget)
    return figure


def _color(method: str) -> str:
    kind = {"IBP": "Sinkhorn", "entropic": "Sinkhorn"}
    name = method.split(",")[0]
    return COLORS[kind.get(name, name)]


def _coupling(ax: Axes, result: Result, name: str, color: str) -> None:
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


def draw_coulomb(result: Result) -> Figure:
    """Draw the couplings of the entropic method above those of Gibbs-OT."""
    table = result.scalars["table"]
    methods = [next(iter(table)), "Gibbs-OT"]
    budgets = _spaced(list(table["Gibbs-OT"]), 5)
    figure, axes = plt.subplots(2, len(budgets), figsize=(TEXT_WIDTH, 3.3))
    for row, method in zip(axes, methods, strict=True):
        row[0].set_ylabel(method)
        for ax, budget in zip(row, budgets, strict=True):
            _coupling(ax, result, f"{method}/{budget}", _color(method))
            ax.set_xlabel(f"near {np.mean(table[method][budget]['near']):.2f}")
    for ax, budget in zip(axes[0], budgets, strict=True):
        ax.set_title(f"{budget} iterations" if budget == budgets[0] else budget)
    return figure


def _spaced(items: Sequence[str], n: int) -> list[str]:
    """Return at most n, the last among them and the others evenly."""
    places = np.linspace(0, len(items) - 1, min(n, len(items))).round().astype(int)
    return [items[k] for k in places]


def check_coulomb(result: Result) -> list[Verdict]:
    """No overflow, the analytic coupling, and no crowd at the boundary."""
    table = result.scalars["table"]
    entropic = next(iter(table))
    last = max(table["Gibbs-OT"], key=int)
    gibbs: Mapping[str, Sequence[float]] = table["Gibbs-OT"][last]
    n = len(gibbs["near"])
    bad = sum(sum(cell["bad"]) for cell in table["Gibbs-OT"].values())
    reach = max(max(cell["range"]) for cell in table["Gibbs-OT"].values())
    return [
        claim("Gibbs-OT: entries that are not finite", bad, "at most", 0, n_seeds=n),
        claim(
            "Gibbs-OT: largest |U| or |L|, in units of the cost",
            reach / result.scalars["exact"],
            "at most",
            10,
            n_seeds=n,
        ),
        claim(
            "Gibbs-OT: least mass within two cells of the analytic coupling",
            min(gibbs["near"]),
            "at least",
            NEAR,
            n_seeds=n,
        ),
        claim(
            "Gibbs-OT: error of the worst dual value",
            max(gibbs["dual"]),
            "at most",
            DUAL_ERROR,
            n_seeds=n,
        ),
        claim(
            f"{entropic}: concentration at the boundary",
            table[entropic][last]["boundary"][0],
            "at least",
            ENTROPIC_BOUNDARY,
        ),
        claim(
            "Gibbs-OT: concentration at the boundary, off one",
            abs(float(np.mean(gibbs["boundary"])) - 1),
            "at most",
            GIBBS_BOUNDARY,
            n_seeds=n,
        ),
    ]
