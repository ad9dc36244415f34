"""Experiment got/coupling-1d (Figure 2): solvers of a problem with two modes."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut import transport
from ebmtut.experiments.experiment import Outcome
from ebmtut.experiments.got import lines
from ebmtut.experiments.got.lines import LineProblem, Method, anneal, two_modes
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.random import make_generator
from ebmtut.results import Result

_LONGEST = 3000  # iterations in which stopping rules are tried


@dataclass(frozen=True)
class CouplingConfig:
    """Solvers of the two-mode problem; epsilons and temperatures in units of 1 / N."""

    n_points: int = 128
    budgets: tuple[int, ...] = (1, 10, 50, 200, 1000, 5000)
    epsilons: tuple[float, ...] = (0.1, 0.5, 2.0)
    tau: float = 2.0
    powers: tuple[float, ...] = (2.0, 4.0)
    n_seeds: int = 1
    temperatures: tuple[float, ...] = (2.0, 0.1, 0.001)


def methods_of(config: Mapping[str, Any]) -> list[Method]:
    """Return the methods of a configuration, in the order of the result."""
    epsilons, powers = config["epsilons"], config["powers"]
    return [
        *(
            Method(f"IBP, {e:g}/N", lines.SINKHORN.format(e), "Sinkhorn", e)
            for e in epsilons
        ),
        Method("B-ADMM", "B-ADMM", "B-ADMM", config["tau"]),
        *(
            Method(f"Gibbs-OT, power {k:g}", f"Gibbs-OT, k = {k:g}", "Gibbs-OT", k)
            for k in powers
        ),
    ]


def coupling_job(
    solver: str,
    parameter: float,
    budget: int,
    n_points: int,
    seed: int,
    device: str = "cpu",
) -> Outcome:
    """Couple two distributions of two modes; only Gibbs-OT runs on the device."""
    problem = two_modes(n_points)
    _, p, q, cost = problem
    exact = transport.exact_ot(p, q, cost)
    if solver == "Gibbs-OT":
        run = partial(anneal, problem, exact, power=parameter, seed=seed, device=device)
        run(1)  # untimed: the first call compiles
        coupling, found = run(budget)
        numbers = evaluate(coupling, problem, exact) | found
    else:
        epsilon = parameter / n_points
        started = time.perf_counter()
        if solver == "Sinkhorn":
            coupling = transport.sinkhorn(p, q, cost, epsilon, budget)
        else:
            coupling = transport.bregman_admm(p, q, cost, budget, tau=parameter)
        seconds = time.perf_counter() - started
        numbers = evaluate(coupling, problem, exact) | {"seconds": seconds}
        if solver == "Sinkhorn":
            # What the projections' potential reaches by c-transforms.
            value, *_ = transport.sinkhorn_oracle(epsilon, budget)(p, q, cost)
            numbers["dual"] = 1 - float(value) / exact.value
    return Outcome(numbers, {"coupling": lines.as_bytes(coupling)})


def the_optimum(config: CouplingConfig, seed: int) -> Outcome:
    """Return the exact coupling, with its cost and time, and what stops a chain."""
    problem = two_modes(config.n_points)
    exact = transport.exact_ot(*problem[1:])  # untimed: the first call loads the solver
    started = time.perf_counter()
    transport.exact_ot(*problem[1:])
    seconds = time.perf_counter() - started
    scalars = {
        "exact": exact.value,
        "exact_seconds": seconds,
        "stopping": stopping_table(
            problem, exact.value, config.temperatures, config.n_seeds, seed
        ),
    }
    masses = {"p": problem.p.numpy(), "q": problem.q.numpy()}
    return Outcome(scalars, masses | {"exact": lines.as_bytes(exact.plan)})


def evaluate(
    coupling: Tensor, problem: LineProblem, exact: transport.ExactOT
) -> dict[str, float]:
    """Return how far a coupling is from the exact one, and from being one."""
    _, p, q, cost = problem
    repaired = transport.feasible_plan(coupling, p, q)
    used = repaired > 0
    return {
        "l1": lines.distance(coupling, exact.plan),
        "marginal": transport.marginal_error(coupling, p, q),
        "excess": float((repaired[used] * cost[used]).sum()) / exact.value - 1,
    }


def first_stop(values: Tensor, stops: Iterable[bool]) -> tuple[int, float]:
    """Iteration of the first stop, and the value there; the last if there is none."""
    when = next((t for t, stop in enumerate(stops) if stop), len(values) - 1)
    return when + 1, float(values[when])


def stopping_table(
    problem: LineProblem,
    optimum: float,
    temperatures: Sequence[float],
    n_seeds: int,
    seed: int,
) -> dict[str, dict[str, list[float]]]:
    """Try two stopping rules at constant temperatures, by temperature and chain."""
    masses = problem[1:]
    table: dict[str, dict[str, list[float]]] = {}
    for temperature in temperatures:
        T = temperature / len(problem.p)
        cell = table[f"{temperature:g}"] = defaultdict(list)
        for k in range(n_seeds):

            def run(n: int, k: int = k, T: float = T, **how: Any) -> Any:
                hot = transport.constant_temperatures(T, n)
                generator = make_generator(seed + k)
                return transport.gibbs_ot(*masses, hot, generator=generator, **how)

            trace = run(_LONGEST, trace_every=1).trace
            best = trace.dual.cummax(0).values
            ends = range(1, _LONGEST + 1)
            rules = {
                "mixed": (transport.has_mixed(trace.V[:t], T) for t in ends),
                "settled": (transport.has_settled(trace.dual[:t]) for t in ends),
            }
            for name, stops in rules.items():
                at, value = first_stop(best, stops)
                cell[f"{name}_at"].append(at)
                cell[f"{name}_error"].append(1 - value / optimum)
            end = run(int(cell["settled_at"][-1]))
            gap = transport.relative_gap(*masses, end.U, end.L, temperature=T)
            cell["settled_gap"].append(gap)
            cell["overshoot"].append(float(trace.V[-500:].mean()) / optimum - 1)
    return table


def draw_coupling(result: Result) -> Figure:
    """Draw the couplings, a panel per solver, of several settings the middle one."""
    every = methods_of(result.config)
    solvers = dict.fromkeys(method.solver for method in every)
    groups = [[m for m in every if m.solver == solver] for solver in solvers]
    shown = [group[(len(group) - 1) // 2] for group in groups]
    return lines.draw_plans(result, shown, "excess", "excess cost {:.1%}")


def check_coupling(result: Result) -> Verdicts:
    """The dual value is right at the end, and the distance falls on the way."""
    table = result.scalars["table"]
    gibbs = [m.key for m in methods_of(result.config) if m.solver == "Gibbs-OT"]
    for method in gibbs:
        last = table[method][max(table[method], key=int)]
        name = f"{method}: error of the worst dual value at the largest budget"
        n, worst = len(last["dual"]), max(last["dual"])
        yield claim(name, worst, "at most", lines.DUAL_ERROR, n_seeds=n)
    # Chains that are annealed too fast vary so much that a few seeds say nothing.
    for method in gibbs[:1] if result.scale == "quick" else gibbs:
        l1 = [float(np.mean(cell["l1"])) for cell in table[method].values()]
        name = f"{method}: largest rise of the L1 distance from budget to budget"
        yield claim(name, max(np.diff(l1)), "at most", 0, n_seeds=n)


EXPERIMENT = lines.coupling_row(
    id="got/coupling-1d",
    title="Couplings of two distributions on a line",
    presets={
        "quick": CouplingConfig(n_seeds=2),
        "full": CouplingConfig(n_seeds=20),
        "paper": CouplingConfig(),
    },
    cells=lines.cells_of(methods_of),
    job=coupling_job,
    extras=the_optimum,
    figure=draw_coupling,
    check=check_coupling,
    parallel=False,  # their times are part of the result
)
