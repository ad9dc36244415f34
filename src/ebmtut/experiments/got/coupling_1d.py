"""Experiment got/coupling-1d (Figure 2): solvers of a problem with two modes."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut import transport
from ebmtut.experiments.experiment import Cells, Experiment, Outcome
from ebmtut.experiments.got.lines import LineProblem, Method, two_modes
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import Verdicts, claim, mean_and_stderr
from ebmtut.plotting import COLORS
from ebmtut.random import make_generator
from ebmtut.results import Cell, Result, Table

# What we ask: half a percent is the experiment's own bound.
DUAL_ERROR = 0.005
SINKHORN = "Sinkhorn, ε = {:g}/N"
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
        *(Method(f"IBP, {e:g}/N", SINKHORN.format(e), "Sinkhorn", e) for e in epsilons),
        Method("B-ADMM", "B-ADMM", "B-ADMM", config["tau"]),
        *(
            Method(f"Gibbs-OT, power {k:g}", f"Gibbs-OT, k = {k:g}", "Gibbs-OT", k)
            for k in powers
        ),
    ]


def cells_of(methods: Iterable[Method], budgets: Sequence[int], n_points: int) -> Cells:
    """Name a cell for every method and budget."""
    return {
        (method.key, str(budget)): {
            "solver": method.solver,
            "parameter": method.parameter,
            "budget": budget,
            "n_points": n_points,
        }
        for method in methods
        for budget in budgets
    }


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
    return Outcome(numbers, {"coupling": as_bytes(coupling)})


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
    return Outcome(scalars, masses | {"exact": as_bytes(exact.plan)})


def anneal(
    problem: LineProblem,
    exact: transport.ExactOT,
    budget: int,
    power: float,
    seed: int,
    device: str,
) -> tuple[Tensor, dict[str, float]]:
    """Anneal one chain on a device and recover its coupling, on the CPU."""
    _, p, q, cost = problem
    schedule = transport.paper_cooling(budget, len(p), power=power)
    there, generator = problem.to(device), make_generator(seed, device)
    started = time.perf_counter()
    result = transport.gibbs_ot(*there[1:], schedule, generator=generator)
    U, L = result.U.cpu(), result.L.cpu()  # waits until they are there
    seconds = time.perf_counter() - started
    sparse = transport.transport_plan(p, q, cost, U, L).coupling
    spread = transport.transport_plan(p, q, cost, U, L, temperature=float(schedule[-1]))
    V = float(transport.chain_value(p, q, U, L))
    return spread.coupling, {
        "l1_sparse": distance(sparse, exact.plan),
        "dual": 1 - float(transport.dual_value(p, q, cost, g=U)) / exact.value,
        "V": V / exact.value - 1,
        "range": float(torch.cat([U, L]).abs().max()),
        "seconds": seconds,
    }


def evaluate(
    coupling: Tensor, problem: LineProblem, exact: transport.ExactOT
) -> dict[str, float]:
    """Return how far a coupling is from the exact one, and from being one."""
    _, p, q, cost = problem
    repaired = transport.feasible_plan(coupling, p, q)
    used = repaired > 0
    return {
        "l1": distance(coupling, exact.plan),
        "marginal": transport.marginal_error(coupling, p, q),
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
    return draw_plans(result, shown, "excess", "excess cost {:.1%}")


def draw_plans(
    result: Result, methods: Sequence[Method], metric: str, text: str
) -> Figure:
    """Draw the couplings after the most iterations, a panel per method."""
    table = result.scalars["table"]
    size = (2.3 * len(methods), 2.8)
    figure, axes = plt.subplots(1, len(methods), figsize=size, sharey=True)
    for ax, method in zip(axes, methods, strict=True):
        budget = max(table[method.key], key=int)
        draw_plan(ax, result, f"{method.key}/{budget}", COLORS[method.solver])
        number = text.format(np.mean(table[method.key][budget][metric]))
        ax.set_title(f"{method.label}\n{number}", color=COLORS[method.solver])
        ax.set_xlabel("from x, in p")
    axes[0].set_ylabel("to y, in q")
    return figure


def draw_budgets(result: Result) -> Figure:
    """Draw what potentials and plans of Sinkhorn and Gibbs-OT (k = 2) are worth."""
    shown = ("Sinkhorn", "Gibbs-OT")
    methods = [m for m in methods_of(result.config) if m.solver in shown]
    table = result.scalars["table"]
    figure, axes = plt.subplots(1, 2, figsize=(4.6, 3.6), sharex=True, sharey=True)
    styles = dict(zip(result.config["epsilons"], ("-", "--", ":"), strict=False))
    ends: list[dict[str, tuple[float, str]]] = [{}, {}]
    for method in (m for m in methods if m.parameter != 4.0):  # one power of Gibbs-OT
        row, color = table[method.key], COLORS[method.solver]
        entropic = method.solver == "Sinkhorn"
        line = styles[method.parameter] if entropic else "-"
        label = f"ε = {method.parameter:g}/N" if entropic else "Gibbs-OT"
        for ax, metric, end in zip(axes, ("dual", "excess"), ends, strict=True):
            if all(metric in cell for cell in row.values()):
                n = [int(budget) for budget in row]
                found = [mean_and_stderr(cell[metric]) for cell in row.values()]
                mean = [100 * m for m, _ in found]
                error = [100 * (e or 0) for _, e in found]
                ax.errorbar(n, mean, error, marker="o", ms=3, color=color, ls=line)
                end[label] = mean[-1], color
    for ax, title, end in zip(
        axes, ("potentials: duality gap, %", "plan: excess cost, %"), ends, strict=True
    ):
        ax.set(xscale="log", yscale="log", xlabel="iterations", title=title)
        ax.set(xlim=(0.7, 6e5), xticks=[1, 10, 100, 1000])
        ax.set_xticklabels(["1", "10", "100", "1000"])
        ax.minorticks_off()
        label_ends(ax, max(int(n) for n in next(iter(table.values()))), end)
    axes[0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return figure


def label_ends(ax: Axes, x: float, ends: Mapping[str, tuple[float, str]]) -> None:
    """Name curves at their right ends on a logarithmic axis, a line of text apart."""
    lowest = 0.0
    for label, (y, color) in sorted(ends.items(), key=lambda item: item[1][0]):
        lowest = max(y, 1.6 * lowest)
        ax.text(1.5 * x, lowest, label, c=color, va="center")


def budgets_table(
    result: Result,
    methods: Iterable[Method],
    metric: str,
    caption: str = "",
    *,
    percent: bool = False,
) -> Table:
    """Write one number: a budget per row, a method that has it per column."""
    unit = 100 if percent else 1
    table = result.scalars["table"]
    columns: dict[str, list[Cell]] = {"iterations": [*next(iter(table.values()))]}
    for method in methods:
        if all(found := [cell.get(metric) for cell in table[method.key].values()]):
            columns[method.label] = [
                mean_and_stderr([unit * value for value in values]) for values in found
            ]
    return Table(columns, caption=caption)


#: When each rule stops a chain, and what is missing then.
stops_table = Pivot(
    head="T",
    rows={"{T}/N": "stopping/{T}"},
    columns={
        "paper's rule stops at": "mixed_at",
        "gap [%]": "mixed_error",
        "settled at": "settled_at",
        "then gap [%]": "settled_error",
        "certified [%]": "settled_gap",
    },
    factors=dict.fromkeys(("gap [%]", "then gap [%]", "certified [%]"), 100),
    caption="Iteration at which each rule stops, and the relative duality gap then; "
    "means of {n_seeds} chains",
)


def draw_plan(ax: Axes, result: Result, name: str, color: str) -> None:
    """Shade a coupling in its colour, and mark the exact one by circles."""
    shades = LinearSegmentedColormap.from_list("", ["white", color])
    coupling = result.arrays[name].T  # from p to the right, to q upwards
    ax.imshow(
        coupling, cmap=shades, vmin=0, vmax=120, origin="lower", extent=(0, 1, 0, 1)
    )
    x, y = ((k + 0.5) / len(coupling) for k in np.nonzero(result.arrays["exact"]))
    some = slice(None, None, 10)
    ax.plot(x[some], y[some], "o", ms=4, mew=0.6, mfc="none", mec=COLORS["exact"])
    ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])


def check_coupling(result: Result) -> Verdicts:
    """The dual value is right at the end, and the distance falls on the way."""
    table = result.scalars["table"]
    gibbs = [m.key for m in methods_of(result.config) if m.solver == "Gibbs-OT"]
    for method in gibbs:
        last = table[method][max(table[method], key=int)]
        name = f"{method}: error of the worst dual value at the largest budget"
        n, worst = len(last["dual"]), max(last["dual"])
        yield claim(name, worst, "at most", DUAL_ERROR, n_seeds=n)
    # Chains that are annealed too fast vary so much that a few seeds say nothing.
    for method in gibbs[:1] if result.scale == "quick" else gibbs:
        l1 = [float(np.mean(cell["l1"])) for cell in table[method].values()]
        name = f"{method}: largest rise of the L1 distance from budget to budget"
        yield claim(name, max(np.diff(l1)), "at most", 0, n_seeds=n)


def one_iteration(result: Result) -> Result:
    """Return what every budget would give if iterations taught nothing."""
    table = {
        method: dict.fromkeys(row, next(iter(row.values())))
        for method, row in result.scalars["table"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="got/coupling-1d",
    title="Couplings of two distributions on a line",
    presets={
        "quick": CouplingConfig(n_seeds=2),
        "full": CouplingConfig(n_seeds=20),
        "paper": CouplingConfig(),
    },
    cells=lambda config: cells_of(
        methods_of(asdict(config)), config.budgets, config.n_points
    ),
    # The other methods are deterministic.
    n_seeds=lambda config, c: config.n_seeds if c[0].startswith("Gibbs-OT") else 1,
    job=coupling_job,
    devices=("cpu", "cuda"),
    arrays={"coupling": "{cell}"},
    extras=the_optimum,
    baseline=one_iteration,
    figure=draw_coupling,
    check=check_coupling,
    parallel=False,  # their times are part of the result
)
