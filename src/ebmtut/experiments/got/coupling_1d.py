"""Row got/coupling-1d (Figure 2): two laws of two modes, by every method."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.got.lines import LineProblem, two_modes
from ebmtut.experiments.got.stopping import stopping_table
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.plotting import COLORS, TEXT_WIDTH
from ebmtut.random import make_generator
from ebmtut.results import Result, Table
from ebmtut.results.tables import Cell
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
    "DUAL_ERROR",
    "EXPERIMENT",
    "CouplingConfig",
    "anneal",
    "as_bytes",
    "budgets_table",
    "color_of",
    "coupling_job",
    "distance",
    "draw_plan",
    "entropic_dual",
    "judge",
    "stops_table",
]

# What we ask: half a percent is the row's own bound.
DUAL_ERROR = 0.005


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


def cells(config: CouplingConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and budget."""
    methods: dict[str, tuple[str, float]] = {
        f"IBP, {e:g}/N": ("IBP", e) for e in config.epsilons
    }
    methods["B-ADMM"] = ("B-ADMM", config.tau)
    methods |= {f"Gibbs-OT, power {p:g}": ("Gibbs-OT", p) for p in config.powers}
    return {
        (name, str(budget)): {
            "method": method,
            "parameter": parameter,
            "budget": budget,
            "n_points": config.n_points,
        }
        for name, (method, parameter) in methods.items()
        for budget in config.budgets
    }


def coupling_job(
    method: str,
    parameter: float,
    budget: int,
    n_points: int,
    seed: int,
    device: str = "cpu",
) -> Outcome:
    """Couple two laws of two modes, by one method in one budget.

    The device is that of Gibbs-OT; its rivals stay on the CPU.

    Returns
    -------
    outcome
        ``l1``, the distance of the coupling from the exact one; ``marginal``, the
        error of its marginals; ``excess``, what it costs once repaired, relative to
        the optimum; ``seconds``; for IBP and Gibbs-OT ``dual``, what the dual value
        lacks; for Gibbs-OT ``V``, by how much V exceeds the cost, and ``l1_sparse``,
        of the coupling by Eq. 22 as printed. The coupling, bytes of the square root.
    """
    problem = two_modes(n_points)
    _, p, q, cost = problem
    exact = exact_ot(p, q, cost)
    if method == "Gibbs-OT":
        # Untimed: the first call compiles.
        anneal(problem, exact, 1, parameter, seed, device)
        coupling, found = anneal(problem, exact, budget, parameter, seed, device)
        numbers = judge(coupling, problem, exact) | found
    else:
        epsilon = parameter / n_points
        started = time.perf_counter()
        if method == "IBP":
            coupling = sinkhorn(p, q, cost, epsilon, budget)
        else:
            coupling = bregman_admm(p, q, cost, budget, tau=parameter)
        seconds = time.perf_counter() - started
        numbers = judge(coupling, problem, exact) | {"seconds": seconds}
        if method == "IBP":
            numbers["dual"] = 1 - entropic_dual(problem, epsilon, budget) / exact.value
    return Outcome(numbers, {"coupling": as_bytes(coupling)})


def the_optimum(config: CouplingConfig, seed: int) -> Outcome:
    """Return the exact coupling, with its cost and time, and what stops a chain."""
    problem = two_modes(config.n_points)
    exact = exact_ot(*problem[1:])  # untimed: the first call loads the solver
    started = time.perf_counter()
    exact_ot(*problem[1:])
    seconds = time.perf_counter() - started
    scalars = {
        "exact": exact.value,
        "exact_seconds": seconds,
        "stopping": stopping_table(
            problem, exact.value, config.temperatures, config.n_seeds, seed
        ),
    }
    arrays = {
        "p": problem.p.numpy(),
        "q": problem.q.numpy(),
        "exact": as_bytes(exact.plan),
    }
    return Outcome(scalars, arrays)


def entropic_dual(problem: LineProblem, epsilon: float, n_iterations: int) -> float:
    """Return the dual value that the projections' potential reaches by c-transforms."""
    _, p, q, cost = problem
    log_p, log_q = p.log(), q.log()
    g = torch.zeros_like(p)
    for _ in range(n_iterations):
        # What follows Gibbs-OT's steps, with a soft extreme instead of a draw.
        h = epsilon * (torch.logsumexp((g[:, None] - cost) / epsilon, 0) - log_q)
        g = epsilon * (log_p - torch.logsumexp((-cost - h) / epsilon, 1))
    return float(dual_value(p, q, cost, g=g))


def anneal(
    problem: LineProblem,
    exact: ExactOT,
    budget: int,
    power: float,
    seed: int,
    device: str,
) -> tuple[Tensor, dict[str, float]]:
    """Cool one chain on a device and recover its coupling, on the CPU."""
    _, p, q, cost = problem
    schedule = paper_cooling(budget, len(p), power=power)
    there, generator = problem.to(device), make_generator(seed, device)
    started = time.perf_counter()
    result = gibbs_ot(*there[1:], schedule, generator=generator)
    U, L = result.U.cpu(), result.L.cpu()  # waits until they are there
    seconds = time.perf_counter() - started
    sparse = transport_plan(p, q, cost, U, L).coupling
    spread = transport_plan(p, q, cost, U, L, temperature=float(schedule[-1]))
    V = float(chain_value(p, q, U, L))
    return spread.coupling, {
        "l1_sparse": distance(sparse, exact.plan),
        "dual": 1 - float(dual_value(p, q, cost, g=U)) / exact.value,
        "V": V / exact.value - 1,
        "range": float(torch.cat([U, L]).abs().max()),
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
            ax.set_xlabel(f"L1 {np.mean(cell['l1']):.2f}", fontsize=9)
    for ax, budget in zip(axes[:, 0], budgets, strict=True):
        ax.set_ylabel(budget)
    return figure


def budgets_table(
    result: Result, metric: str, caption: str = "", *, percent: bool = False
) -> Table:
    """Write one number of a run: a budget a row, a method a column, ours first.

    Parameters
    ----------
    result
        Of a row whose table goes by method and budget.
    metric
        Methods without it are left out; where there are seeds, means with their
        standard errors.
    caption
        What stands above.
    percent
        Whether numbers are multiplied by a hundred.
    """
    unit = 100 if percent else 1
    table = result.scalars["table"]
    columns: dict[str, list[Cell]] = {"iterations": [*next(iter(table.values()))]}
    for name in sorted(table, key=lambda name: not name.startswith("Gibbs-OT")):
        cells = table[name].values()
        if all(metric in cell for cell in cells):
            columns[_head(name)] = [_with_error(c[metric], unit) for c in cells]
    return Table(columns, caption=caption)


def _head(method: str) -> str:
    """Shorten a method's name, so that a table of all fits the page."""
    for name, symbol in (("IBP, ", "ε = "), ("entropic, ", "ε = "), ("power", "k =")):
        method = method.replace(name, symbol)
    return method


def _with_error(values: Sequence[float], unit: float = 1) -> Cell:
    """Mean and standard error; no error where all agree but for rounding."""
    mean, error = mean_and_stderr(values)
    if error is None or error < 1e-9 * abs(mean):
        return unit * mean
    return unit * mean, unit * error


def stops_table(result: Result) -> Table:
    """Write when each rule stops a chain, and what is missing then."""
    cells = result.scalars["stopping"]
    keys = {
        "the paper's": "mixed_at",
        "lacks [%]": "mixed_error",
        "settled": "settled_at",
        "then lacks [%]": "settled_error",
        "certified [%]": "settled_gap",
    }
    columns: dict[str, list[Cell]] = {"T": [f"{T}/N" for T in cells]}
    for head, key in keys.items():
        unit = 100 if head.endswith("[%]") else 1
        columns[head] = [_with_error(cell[key], unit) for cell in cells.values()]
    return Table(
        columns,
        caption="Iteration at which each rule stops, and what is missing then, "
        f"percent of the cost; means of {result.config['n_seeds']} chains",
    )


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


def one_iteration(result: Result) -> Result:
    """Return what every budget would give if iterations taught nothing."""
    table = {
        method: dict.fromkeys(row, next(iter(row.values())))
        for method, row in result.scalars["table"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="got/coupling-1d",
    title="Couplings of two laws on a line",
    presets={
        "quick": CouplingConfig(n_seeds=2),
        "full": CouplingConfig(n_seeds=20),
        "paper": CouplingConfig(),
    },
    cells=cells,
    # The rivals draw nothing.
    n_seeds=lambda config, c: config.n_seeds if c[0].startswith("Gibbs-OT") else 1,
    job=coupling_job,
    devices=("cpu", "cuda"),
    arrays={"coupling": "{cell}"},
    extras=the_optimum,
    null=one_iteration,
    figure=draw_coupling,
    check=check_coupling,
    parallel=False,  # their times are part of the result
)
