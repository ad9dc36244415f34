"""Two electrons on a line: uniform laws that repel (Figure 3)."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from ebmtut.checks import InputError, check_range
from ebmtut.experiments.got.couplings import (
    Scalars,
    anneal,
    as_bytes,
    distance,
    note,
)
from ebmtut.experiments.got.lines import uniform_coulomb
from ebmtut.results import Result
from ebmtut.transport import bregman_admm, exact_ot, sinkhorn

__all__ = ["CoulombConfig", "run_coulomb"]


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

    n_points: int = 128
    budgets: tuple[int, ...] = (1, 10, 50, 200, 1000, 2000, 5000)
    epsilons: tuple[float, ...] = (0.5, 0.45, 0.43, 0.3)
    tau: float = 2.0
    n_seeds: int = 1

    def __post_init__(self) -> None:
        check_range("n_points", self.n_points, low=16, integer=True)
        if self.n_points % 2:
            raise InputError(f"n_points must be even, got {self.n_points}")


def run_coulomb(
    config: CoulombConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
) -> Result:
    """Couple two uniform laws that repel.

    Returns
    -------
    Result
        ``scalars["table"][method][budget]`` lists, over the seeds: ``l1`` from
        the analytic coupling; ``near``, the mass within two cells of it;
        ``boundary``, the concentration at the boundary; ``mass``, in all;
        ``bad``, how many entries are not finite; for Gibbs-OT also ``dual``
        and ``range``. Arrays ``method/budget`` as in `run_coupling`.
    """
    n = config.n_points
    problem = uniform_coulomb(n)
    exact = exact_ot(problem.p, problem.q, problem.cost)
    table: dict[str, dict[str, Scalars]] = {}
    arrays = {"exact": as_bytes(exact.plan)}
    for epsilon in config.epsilons:
        name = f"entropic, {epsilon:g}/N"
        table[name] = {}
        for budget in config.budgets:
            # Where the kernel underflows, POT says so; the table says it, too.
            with warnings.catch_warnings(action="ignore"):
                coupling = sinkhorn(*problem[1:], epsilon / n, budget)
            note(table[name].setdefault(str(budget), {}), describe(coupling))
            arrays[f"{name}/{budget}"] = as_bytes(coupling)
    table["B-ADMM"] = {}
    for budget in config.budgets:
        coupling = bregman_admm(*problem[1:], budget, tau=config.tau)
        note(table["B-ADMM"].setdefault(str(budget), {}), describe(coupling))
        arrays[f"B-ADMM/{budget}"] = as_bytes(coupling)
    table["Gibbs-OT"] = {}
    for budget in config.budgets:
        cell = table["Gibbs-OT"].setdefault(str(budget), {})
        for k in range(config.n_seeds):
            coupling, numbers = anneal(problem, exact, budget, 4.0, seed + k)
            kept = {key: numbers[key] for key in ("dual", "V", "range")}
            note(cell, describe(coupling) | kept)
            if k == 0:
                arrays[f"Gibbs-OT/{budget}"] = as_bytes(coupling)
    scalars = {"table": table, "exact": exact.value}
    return Result("got/coulomb", "quick", asdict(config), scalars, arrays)


def describe(coupling: Tensor) -> dict[str, float]:
    """Return where the mass of a coupling of two uniform laws is.

    The concentration compares rows whose partner or self is within 1/16 of
    an end of the line with rows at least 3/16 away: how much of a row's mass
    its largest entry holds, here over there. It is 1 for the analytic
    coupling.
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
