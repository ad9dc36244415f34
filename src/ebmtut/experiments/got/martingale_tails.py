"""Theorem A.2 by simulation: how far a martingale of Gibbs-OT strays; its bounds."""

from __future__ import annotations

import math

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from ebmtut.experiments.got.lines import two_modes
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS
from ebmtut.random import make_generator
from ebmtut.results import Result, Table
from ebmtut.results.tables import Cell
from ebmtut.transport import (
    Martingale,
    paper_cooling,
    simulate_martingale,
)

__all__ = ["check_tails", "draw_tails", "simulate", "tails", "tails_table"]

K_LARGEST = 3.0  # of the tails, in units of the root of the sum of a_n^2
_SIDES = {"below": "Eq. 25", "above": "Eq. 26"}


def simulate(
    n_points: int,
    n_iterations: int,
    n_chains: int,
    *,
    start: float,
    epsilon: float,
    seed: int,
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Simulate the martingale of a chain that cools, on the line.

    Parameters
    ----------
    n_points, n_iterations, n_chains
        Of the line, of each chain, and how many chains.
    start
        The first temperature, in units of 1 / n_points.
    epsilon
        Of Eq. 26.
    seed
        Of the chains.

    Returns
    -------
    scalars
        ``drift``, the mean of r^n - r^1 in standard errors, the largest over n;
        ``spread``, the deviation of r^2N - r^1 over the scale of its bound.
    arrays
        What `tails` returns, and forty paths ``r``.
    """
    schedule = paper_cooling(n_iterations, n_points, start=start, power=1.0)
    martingale = simulate_martingale(
        *two_modes(n_points)[1:],
        schedule,
        n_chains=n_chains,
        generator=make_generator(seed),
    )
    arrays = tails(martingale, schedule, n_points, epsilon)
    arrays["r"] = martingale.r[:40].numpy().astype(np.float32)
    moves = martingale.r[:, 1:] - martingale.r[:, :1]
    error = moves.std(0) / n_chains**0.5
    scalars = {
        "drift": float((moves.mean(0) / error).abs().max()),
        "spread": float(moves[:, -1].std()) / float(arrays["K"][-1] / K_LARGEST),
    }
    return scalars, arrays


def tails(
    martingale: Martingale, schedule: Tensor, n_largest: int, epsilon: float
) -> dict[str, np.ndarray]:
    """Tail probabilities of r^2N - r^1 beside Eqs. 25 and 26.

    The theorem takes its a_n as fixed beforehand. Ours are the largest
    C^n T^(n) of all simulated chains, the smallest that (25) allows.

    Parameters
    ----------
    martingale
        Simulated chains.
    schedule
        Their temperatures.
    n_largest
        max(m1, m2).
    epsilon
        Of Eq. 26.

    Returns
    -------
    table
        ``K``; ``below`` and ``below_bound``, Pr(r^2N < r^1 - K) and its
        bound; ``above`` and ``above_bound``, Pr(r^2N > r^1 + gamma K) and its
        bound; ``gamma``.
    """
    steps = schedule[:-1]
    a = (martingale.c[:, :-1] * steps).amax(0)
    log_term = math.log(len(schedule) * n_largest / epsilon)
    gamma = float(((log_term * steps + martingale.d[:, :-1]).amax(0) / a).max())
    move = martingale.r[:, -1] - martingale.r[:, 0]
    scale = float(a.square().sum().sqrt())
    K = torch.linspace(0, K_LARGEST, 61, dtype=a.dtype) * scale
    bound = torch.exp(-((K / scale) ** 2) / 2)
    return {
        "K": K.numpy(),
        "below": (move < -K[:, None]).double().mean(1).numpy(),
        "below_bound": bound.numpy(),
        "above": (move > gamma * K[:, None]).double().mean(1).numpy(),
        "above_bound": (bound + epsilon).numpy(),
        "gamma": np.array(gamma),
    }


def draw_tails(result: Result, paths: Axes, ax: Axes) -> None:
    """Draw forty paths of the martingale, and its tails beside their bounds.

    Parameters
    ----------
    result
        A run.
    paths, ax
        Where.
    """
    z = result.arrays
    r = z["r"] - z["r"][:, :1]
    paths.plot(np.arange(1, r.shape[1] + 1), r.T, color=COLORS["Gibbs-OT"], lw=0.5)
    paths.axhline(0, color=COLORS["exact"], lw=1)
    paths.set(xlabel="half step n", ylabel="$r^n - r^1$", title="forty martingales")
    for side, color in (("below", "Gibbs-OT"), ("above", "Sinkhorn")):
        label = _SIDES[side]
        chance = np.where(z[side] > 0, z[side], np.nan)
        ax.plot(z["K"], chance, color=COLORS[color], label=f"{label}, simulated")
        bound = z[f"{side}_bound"]
        ax.plot(z["K"], bound, "--", color=COLORS[color], label=f"{label}, bound")
    ax.set(yscale="log", xlabel="K", ylabel="probability", title="tails")
    ax.legend()


def check_tails(result: Result) -> list[Verdict]:
    """Hold r to be a martingale, and its tails to lie below their bounds.

    All of it is proved: these guard against a broken computation.
    """
    z, n_chains = result.arrays, result.config["n_chains"]
    verdicts = [
        claim(
            "mean of r^n - r^1, in standard errors, the largest over n",
            result.scalars["drift"],
            "at most",
            5,
            n_seeds=n_chains,
            sanity=True,
        )
    ]
    for side, equation in _SIDES.items():
        # At K = 0 every tail is about a half and its bound one.
        ratio = float((z[side] / z[f"{side}_bound"])[1:].max())
        name = f"tail of r^2N over its bound, the largest over K > 0, {equation}"
        # Far from sharp: a process that hardly moves keeps it, too.
        verdicts.append(claim(name, ratio, "at most", 1, n_seeds=n_chains, sanity=True))
    return verdicts


def tails_table(result: Result) -> Table:
    """Write both tails beside their bounds.

    Parameters
    ----------
    result
        A run.
    """
    z, n = result.arrays, result.config["n_chains"]
    steps = (len(z["K"]) - 1) / K_LARGEST
    at = (0.05, 0.25, 0.5)  # K, in units of the scale of the bounds
    rows = [round(k * steps) for k in at]
    columns: dict[str, list[Cell]] = {"K / a": [f"{k:.2f}" for k in at]}
    for side, head in (
        ("below", "falls by K"),
        ("above", f"rises by {z['gamma']:.1f} K"),
    ):
        shares = [float(z[side][k]) for k in rows]
        errors = [(p * (1 - p) / n) ** 0.5 for p in shares]
        columns[head] = list(zip(shares, errors, strict=True))
        columns[f"{_SIDES[side]}: ≤"] = [float(z[f"{side}_bound"][k]) for k in rows]
    scale = float(z["K"][-1]) / K_LARGEST
    caption = f"How often the martingale ends so far off, {n} chains; a = {scale:.2f}"
    return Table(columns, caption=caption)
