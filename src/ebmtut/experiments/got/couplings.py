"""Couplings of two laws of two modes, by every method (Figure 2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from ebmtut.experiments.got.lines import LineProblem, two_modes
from ebmtut.experiments.got.stopping import stopping_table
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.transport import (
    ExactOT,
    bregman_admm,
    chain_value,
    dual_value,
    exact_ot,
    feasible_plan,
    gibbs_ot,
    marginal_error,
    paper_cooling,
    sinkhorn,
    transport_plan,
)

__all__ = [
    "CouplingConfig",
    "anneal",
    "as_bytes",
    "distance",
    "note",
    "run_coupling",
]

#: Numbers by name, one a seed.
Scalars = dict[str, list[float]]


@dataclass(frozen=True)
class CouplingConfig:
    """What solves the two-mode problem, and for how long.

    Parameters
    ----------
    n_points
        N, points of the line.
    budgets
        Iterations.
    epsilons
        Of iterative Bregman projections, in units of 1 / N.
    tau
        Of Bregman ADMM.
    powers
        Gibbs-OT cools from 2 / N to 2 / (N l^power) over l iterations; the
        first is drawn.
    n_seeds
        Chains of Gibbs-OT; the rivals draw nothing.
    temperatures
        Constant ones, in units of 1 / N, at which stopping rules are tried.
    """

    n_points: int = 128
    budgets: tuple[int, ...] = (1, 10, 50, 200, 1000, 5000)
    epsilons: tuple[float, ...] = (0.1, 0.5, 2.0)
    tau: float = 2.0
    powers: tuple[float, ...] = (2.0, 4.0)
    n_seeds: int = 1
    temperatures: tuple[float, ...] = (2.0, 0.1, 0.001)


def note(cell: Scalars, numbers: Mapping[str, float]) -> None:
    """Append one run's numbers to a cell of a table."""
    for name, number in numbers.items():
        cell.setdefault(name, []).append(number)


def run_coupling(
    config: CouplingConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
) -> Result:
    """Couple two laws of two modes by every method at every budget.

    Returns
    -------
    Result
        ``scalars["table"][method][budget]`` lists, over the seeds: ``l1``, the
        distance of the coupling from the exact one; ``marginal``, the error
        of its marginals; ``excess``, what it costs once repaired, relative to
        the optimum; ``seconds``; for IBP and Gibbs-OT ``dual``, what the dual
        value lacks; for Gibbs-OT ``V``, by how much V exceeds the cost, and
        ``l1_sparse``, of the coupling by Eq. 22 as printed. Arrays
        ``method/budget`` are couplings (of the first seed), bytes of the
        square root.
    """
    problem = two_modes(config.n_points)
    exact = exact_ot(*problem[1:])  # untimed: the first call loads the solver
    anneal(problem, exact, 1, 2.0, seed)
    started = time.perf_counter()
    exact_ot(*problem[1:])
    seconds = time.perf_counter() - started
    table: dict[str, dict[str, Scalars]] = {}
    arrays = {
        "p": problem.p.numpy(),
        "q": problem.q.numpy(),
        "exact": as_bytes(exact.plan),
    }
    for name, solve in rivals(config, problem).items():
        table[name] = {}
        for budget in config.budgets:
            started = time.perf_counter()
            coupling = solve(budget)
            taken = time.perf_counter() - started
            numbers = judge(coupling, problem, exact) | {"seconds": taken}
            note(table[name].setdefault(str(budget), {}), numbers)
            arrays[f"{name}/{budget}"] = as_bytes(coupling)
    for epsilon in config.epsilons:
        values = entropic_duals(problem, epsilon / config.n_points, config.budgets)
        for budget, value in values.items():
            cell = table[f"IBP, {epsilon:g}/N"][str(budget)]
            note(cell, {"dual": 1 - value / exact.value})
    for power in config.powers:
        name = f"Gibbs-OT, power {power:g}"
        table[name] = {}
        for budget in config.budgets:
            cell = table[name].setdefault(str(budget), {})
            for k in range(config.n_seeds):
                coupling, numbers = anneal(problem, exact, budget, power, seed + k)
                note(cell, judge(coupling, problem, exact) | numbers)
                if k == 0:
                    arrays[f"{name}/{budget}"] = as_bytes(coupling)
    scalars = {
        "table": table,
        "exact": exact.value,
        "exact_seconds": seconds,
        "stopping": stopping_table(
            problem, exact.value, config.temperatures, config.n_seeds, seed
        ),
    }
    return Result("got/coupling-1d", "quick", asdict(config), scalars, arrays)


def rivals(
    config: CouplingConfig, problem: LineProblem
) -> dict[str, Callable[[int], Tensor]]:
    """Return the methods that draw nothing, as functions of the budget."""
    _, p, q, cost = problem

    def project(epsilon: float) -> Callable[[int], Tensor]:
        return lambda n: sinkhorn(p, q, cost, epsilon / config.n_points, n)

    methods = {f"IBP, {e:g}/N": project(e) for e in config.epsilons}
    return methods | {"B-ADMM": lambda n: bregman_admm(p, q, cost, n, tau=config.tau)}


def entropic_duals(
    problem: LineProblem, epsilon: float, budgets: Sequence[int]
) -> dict[int, float]:
    """Return the dual value that the projections' potentials reach by c-transforms."""
    _, p, q, cost = problem
    log_p, log_q = p.log(), q.log()
    g, found = torch.zeros_like(p), {}
    for n in range(1, max(budgets) + 1):
        # What follows Gibbs-OT's steps, with a soft extreme instead of a draw.
        h = epsilon * (torch.logsumexp((g[:, None] - cost) / epsilon, 0) - log_q)
        g = epsilon * (log_p - torch.logsumexp((-cost - h) / epsilon, 1))
        if n in budgets:
            found[n] = float(dual_value(p, q, cost, g=g))
    return found


def anneal(
    problem: LineProblem, exact: ExactOT, budget: int, power: float, seed: int
) -> tuple[Tensor, dict[str, float]]:
    """Cool one chain and recover its coupling."""
    _, p, q, cost = problem
    schedule = paper_cooling(budget, len(p), power=power)
    started = time.perf_counter()
    result = gibbs_ot(p, q, cost, schedule, generator=make_generator(seed))
    seconds = time.perf_counter() - started
    sparse = transport_plan(p, q, cost, result.U, result.L).coupling
    spread = transport_plan(
        p, q, cost, result.U, result.L, temperature=float(schedule[-1])
    )
    V = float(chain_value(p, q, result.U, result.L))
    return spread.coupling, {
        "l1_sparse": distance(sparse, exact.plan),
        "dual": 1 - float(dual_value(p, q, cost, g=result.U)) / exact.value,
        "V": V / exact.value - 1,
        "range": float(torch.cat([result.U, result.L]).abs().max()),
        "seconds": seconds,
    }


def judge(coupling: Tensor, problem: LineProblem, exact: ExactOT) -> dict[str, float]:
    """Return how far a coupling is from the exact one, and from being one."""
    _, p, q, cost = problem
    repaired = feasible_plan(coupling, p, q)
    used = repaired > 0
    return {
        "l1": distance(coupling, exact.plan),
        "marginal": marginal_error(coupling, p, q),
        "excess": float((repaired[used] * cost[used]).sum()) / exact.value - 1,
    }


def distance(a: Tensor, b: Tensor) -> float:
    """L1 distance, which is 2 for couplings that share nothing."""
    return float((a - b).abs().sum())


def as_bytes(coupling: Tensor) -> np.ndarray:
    """Return a picture of a coupling: square roots, the largest 255."""
    top = coupling.max().clamp(min=1e-300)
    shade = (coupling / top).sqrt().nan_to_num() * 255
    return shade.round().to(torch.uint8).numpy()
