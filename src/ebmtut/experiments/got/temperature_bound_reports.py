"""Figure and verdicts of the temperature bound."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.got.martingale import K_LARGEST
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, TEXT_WIDTH
from ebmtut.results import Result

__all__ = ["check_temperature_bound", "draw_temperature_bound", "tails_table"]

_SIDES = {"below": "Eq. 25", "above": "Eq. 26"}
_TITLES = {
    "constant": "constant T",
    "geometric": "geometric cooling",
    "followed": "T follows the bound",
}


def draw_temperature_bound(result: Result) -> Figure:
    """Draw T and its bound along three runs, and the tails of the martingale."""
    z = result.arrays
    figure = plt.figure(figsize=(TEXT_WIDTH, 4.6))
    grid = figure.add_gridspec(2, 6)
    first = None
    for k, (name, title) in enumerate(_TITLES.items()):
        ax = figure.add_subplot(grid[0, 2 * k : 2 * k + 2], sharey=first)
        first = first or ax
        temperature, bounds = z[f"{name}/temperature"], z[f"{name}/bound"][0]
        n = result.config["every"] * np.arange(1, len(temperature) + 1)
        ax.plot(n, temperature, color=COLORS["exact"], label="T")
        seen = np.where(bounds > 0, bounds, np.nan)
        ax.plot(n, seen, ".", ms=3, color=COLORS["Gibbs-OT"], label="bound")
        ax.set(title=title, yscale="log", xlabel="iteration")
        if k:
            ax.tick_params(labelleft=False)
        else:
            ax.set_ylabel("temperature")
            ax.legend(markerscale=3, loc="lower left")
    paths = figure.add_subplot(grid[1, :3])
    r = z["r"] - z["r"][:, :1]
    paths.plot(np.arange(1, r.shape[1] + 1), r.T, color=COLORS["Gibbs-OT"], lw=0.5)
    paths.axhline(0, color=COLORS["exact"], lw=1)
    paths.set(xlabel="half step n", ylabel="$r^n - r^1$", title="forty martingales")
    ax = figure.add_subplot(grid[1, 3:])
    for side, color in (("below", "Gibbs-OT"), ("above", "Sinkhorn")):
        label = _SIDES[side]
        chance = np.where(z[side] > 0, z[side], np.nan)
        ax.plot(z["K"], chance, color=COLORS[color], label=f"{label}, simulated")
        bound = z[f"{side}_bound"]
        ax.plot(z["K"], bound, "--", color=COLORS[color], label=f"{label}, bound")
    ax.set(yscale="log", xlabel="K", ylabel="probability", title="tails")
    ax.legend(fontsize=7)
    return figure


def tails_table(result: Result, at: Sequence[float] = (0.05, 0.25, 0.5)) -> str:
    """Write both tails beside their bounds.

    Parameters
    ----------
    result
        A run.
    at
        K, in units of the root of the sum of a_n^2, the scale of the bounds.
    """
    z = result.arrays
    steps = (len(z["K"]) - 1) / K_LARGEST
    lines = [f"K, scaled   falls by K, bound   rises by {z['gamma']:.1f} K, bound"]
    for k in at:
        n = round(k * steps)
        below, above = (f"{z[s][n]:.4f}, {z[s + '_bound'][n]:.3f}" for s in _SIDES)
        scaled = K_LARGEST * z["K"][n] / z["K"][-1]
        lines.append(f"{scaled:9.2f}   {below:17}   {above}")
    spread = result.scalars["spread"]
    lines.append(f"standard deviation of r, scaled {spread:.2f}")
    return "\n".join(lines)


def check_temperature_bound(result: Result) -> list[Verdict]:
    """At equilibrium the bound is T; r is a martingale; tails lie below bounds."""
    z, scalars = result.arrays, result.scalars
    n_chains = result.config["n_chains"]
    equilibrium = scalars["equilibrium"]
    verdicts = [
        claim(
            "bound over T at constant T, off one",
            abs(float(np.mean(equilibrium)) - 1),
            "at most",
            0.1,
            n_seeds=len(equilibrium),
        ),
        claim(
            "mean of r^n - r^1, in standard errors, the largest over n",
            scalars["drift"],
            "at most",
            5,
            n_seeds=n_chains,
        ),
    ]
    for side, equation in _SIDES.items():
        # At K = 0 every tail is about a half and its bound one.
        ratio = float((z[side] / z[f"{side}_bound"])[1:].max())
        name = f"tail of r^2N over its bound, the largest over K > 0, {equation}"
        verdicts.append(claim(name, ratio, "at most", 1, n_seeds=n_chains))
    return verdicts
