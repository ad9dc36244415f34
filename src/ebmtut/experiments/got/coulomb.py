"""Two electrons on a line: uniform laws that repel (Figure 3)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, InputError, Range, checked
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.got.coupling_1d import (
    DUAL_ERROR,
    anneal,
    as_bytes,
    color_of,
    distance,
    draw_plan,
    one_iteration,
)
from ebmtut.experiments.got.lines import uniform_coulomb
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import TEXT_WIDTH
from ebmtut.results import Result
from ebmtut.transport import bregman_admm, exact_ot, sinkhorn

__all__ = ["EXPERIMENT", "CoulombConfig", "coulomb_job"]

# What we ask.
NEAR = 0.99
ENTROPIC_BOUNDARY = 1.1
GIBBS_BOUNDARY = 0.05


@checked
@dataclass(frozen=True)
class CoulombConfig:
    """What couples two electrons, and for how long.

    Parameters
    ----------
    n_points
        N, even.
    budgets
        Iterations.
    epsilons
        Of entropic regularisation, in units of 1 / N; the first is drawn.
    tau
        Of Bregman ADMM.
    n_seeds
        Chains of Gibbs-OT.
    """

    n_points: Annotated[int, Range(low=16)] = 128
    budgets: tuple[int, ...] = (1, 10, 50, 200, 1000, 2000, 5000)
    epsilons: tuple[float, ...] = (0.5, 0.45, 0.43, 0.3)
    tau: float = 2.0
    n_seeds: Count = 1

    def __post_init__(self) -> None:
        if self.n_points % 2:
            raise InputError(f"n_points must be even, got {self.n_points}")


def cells(config: CoulombConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and budget."""
    methods: dict[str, float] = {f"entropic, {e:g}/N": e for e in config.epsilons}
    methods |= {"B-ADMM": config.tau, "Gibbs-OT": 4.0}
    return {
        (method, str(budget)): {
            "method": method,
            "parameter": parameter,
            "budget": budget,
            "n_points": config.n_points,
        }
        for method, parameter in methods.items()
        for budget in config.budgets
    }


def coulomb_job(
    method: str,
    parameter: float,
    budget: int,
    n_points: int,
    seed: int,
    device: str = "cpu",
) -> Outcome:
    """Couple two uniform laws that repel, by one method in one budget.

    The device is that of Gibbs-OT; its rivals stay on the CPU.

    Returns
    -------
    outcome
        ``l1`` from the analytic coupling; ``near``, the mass within two cells of
        it; ``boundary``, the concentration at the boundary; ``mass``, in all;
        ``bad``, how many entries are not finite; for Gibbs-OT also ``dual``, ``V``
        and ``range``, as of `anneal`. The coupling, bytes of the square root.
    """
    problem = uniform_coulomb(n_points)
    numbers: dict[str, float] = {}
    if method == "Gibbs-OT":
        exact = exact_ot(problem.p, problem.q, problem.cost)
        coupling, found = anneal(problem, exact, budget, parameter, seed, device)
        numbers = {key: found[key] for key in ("dual", "V", "range")}
    elif method == "B-ADMM":
        coupling = bregman_admm(*problem[1:], budget, tau=parameter)
    else:
        # Where the kernel underflows, POT says so; the table says it, too.
        with warnings.catch_warnings(action="ignore"):
            coupling = sinkhorn(*problem[1:], parameter / n_points, budget)
    return Outcome(describe(coupling) | numbers, {"coupling": as_bytes(coupling)})


def exact_coupling(config: CoulombConfig, seed: int) -> Outcome:
    """Return the optimal coupling and its value."""
    problem = uniform_coulomb(config.n_points)
    exact = exact_ot(problem.p, problem.q, problem.cost)
    return Outcome({"exact": exact.value}, {"exact": as_bytes(exact.plan)})


def describe(coupling: Tensor) -> dict[str, float]:
    """Return where the mass of a coupling of two uniform laws is.

    The concentration compares rows that are within 1/16 of an end of the line,
    or whose partner is (those next to the middle), with rows at least 3/16 away:
    how much of a row's mass its largest entry holds, here over there. It is 1 for
    the analytic coupling.
    """
    n = len(coupling)
    bad = int((~torch.isfinite(coupling)).sum())
    z = coupling.nan_to_num()
    i = torch.arange(n)
    away = ((i[:, None] - i).abs() - n // 2).abs()  # cells off y = x +- 1/2
    x = (i + 0.5) / n
    end = torch.stack([x, 1 - x, (x - 0.5).abs()]).amin(0)
    peak = z.amax(1) / z.sum(1).clamp(min=1e-300)
    middle = peak[end >= 3 / 16].mean().clamp(min=1e-300)
    return {
        "l1": distance(z, (away == 0) / n),
        "near": float(z[away <= 2].sum()),
        "boundary": float(peak[end < 1 / 16].mean() / middle),
        "mass": float(z.sum()),
        "bad": float(bad),
    }


def draw_coulomb(result: Result) -> Figure:
    """Draw the couplings of the entropic method above those of Gibbs-OT."""
    table = result.scalars["table"]
    methods = [next(iter(table)), "Gibbs-OT"]
    budgets = _spaced(list(table["Gibbs-OT"]), 5)
    figure, axes = plt.subplots(2, len(budgets), figsize=(TEXT_WIDTH, 3.3))
    for row, method in zip(axes, methods, strict=True):
        row[0].set_ylabel(method)
        for ax, budget in zip(row, budgets, strict=True):
            draw_plan(ax, result, f"{method}/{budget}", color_of(method))
            ax.set_xlabel(f"near {np.mean(table[method][budget]['near']):.2f}")
    for ax, budget in zip(axes[0], budgets, strict=True):
        first = f"{budget} iteration" + "s" * (budget != "1")
        ax.set_title(first if budget == budgets[0] else budget)
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
        claim(
            "Gibbs-OT: entries that are not finite",
            bad,
            "at most",
            0,
            n_seeds=n,
            sanity=True,
        ),
        claim(
            "Gibbs-OT: largest |U| or |L|, in units of the cost",
            reach / result.scalars["exact"],
            "at most",
            10,
            n_seeds=n,
            sanity=True,  # no overflow
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


EXPERIMENT = Experiment(
    id="got/coulomb",
    title="Two electrons on a line",
    presets={
        "quick": CoulombConfig(n_seeds=2),
        "full": CoulombConfig(n_seeds=20),
        "paper": CoulombConfig(),
    },
    cells=cells,
    # The rivals draw nothing.
    n_seeds=lambda config, cell: config.n_seeds if cell[0] == "Gibbs-OT" else 1,
    job=coulomb_job,
    devices=("cpu", "cuda"),
    arrays={"coupling": "{cell}"},
    extras=exact_coupling,
    null=one_iteration,
    figure=draw_coulomb,
    check=check_coulomb,
    parallel=False,  # seconds of work
)
