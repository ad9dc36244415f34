"""Masses on a line: the small problems of Section 6.1, and what couples them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut import transport
from ebmtut.checks import NonNegative, Range, checked
from ebmtut.experiments.experiment import Cells, Experiment
from ebmtut.plotting import COLORS, OKABE_ITO
from ebmtut.random import make_generator
from ebmtut.results import Result

# What we ask: half a percent is the experiment's own bound.
DUAL_ERROR = 0.005
SINKHORN = "Sinkhorn, ε = {:g}/N"

# Weight, mean and width of each mode. The paper does not print its own.
_FROM = ((0.6, 0.2, 0.05), (0.4, 0.6, 0.08))
_TO = ((0.35, 0.35, 0.06), (0.65, 0.8, 0.05))


#: The two sides of a transport problem, on all pages and in the widgets.
SIDES = {"p": OKABE_ITO["blue"], "q": OKABE_ITO["vermillion"]}


class Method(NamedTuple):
    """A solver with its parameter: its name in the result, and on the pages."""

    key: str
    label: str
    solver: str
    parameter: float


class LineProblem(NamedTuple):
    """Two distributions on the same points of [0, 1], and the cost."""

    x: Tensor
    p: Tensor
    q: Tensor
    cost: Tensor

    def to(self, device: str) -> "LineProblem":
        """Return the problem on a device."""
        return LineProblem(*(part.to(device) for part in self))


@checked
def points(n: Annotated[int, Range(low=2)]) -> Tensor:
    """Centres of n equal cells of [0, 1], float64."""
    return (torch.arange(n, dtype=torch.float64) + 0.5) / n


@checked
def bumps(
    x: Tensor, modes: Sequence[tuple[float, float, float]], *, floor: NonNegative = 0.02
) -> Tensor:
    """Masses of Gaussian bumps (weight, mean, width) over a low floor.

    The floor is spread evenly. Without it the temperature T / p_i of a point far from
    all bumps has no end.
    """
    mass = torch.zeros_like(x)
    for weight, mean, width in modes:
        bump = torch.exp(-(((x - mean) / width) ** 2) / 2)
        mass += weight * bump / bump.sum()
    mass = mass / mass.sum() + floor / len(x)
    return mass / mass.sum()


def two_modes(n: int, kind: str = "squared_euclidean") -> LineProblem:
    """Two distributions of two modes each (Figure 2); `kind` is that of the cost."""
    x = points(n)
    cost = transport.cost_matrix(x, x, kind)
    return LineProblem(x, bumps(x, _FROM), bumps(x, _TO), cost)


def uniform_coulomb(n: int) -> LineProblem:
    """Two uniform distributions that repel (Figure 3), on an even number of points.

    The best coupling joins x with x + 1/2 or x - 1/2, at a cost of 2.
    """
    x = points(n)
    mass = torch.full_like(x, 1 / n)
    return LineProblem(x, mass, mass, transport.cost_matrix(x, x, "coulomb"))


def cells_of(
    methods_of: Callable[[Mapping[str, Any]], list[Method]],
) -> Callable[[Any], Cells]:
    """Name a cell for every method of a configuration and every budget."""
    return lambda config: {
        (method.key, str(budget)): {
            "solver": method.solver,
            "parameter": method.parameter,
            "budget": budget,
            "n_points": config.n_points,
        }
        for method in methods_of(asdict(config))
        for budget in config.budgets
    }


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
    schedule = transport.annealed_temperatures(budget, len(p), power=power)
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


def distance(a: Tensor, b: Tensor) -> float:
    """L1 distance, which is 2 for couplings that share nothing."""
    return float((a - b).abs().sum())


def as_bytes(coupling: Tensor) -> np.ndarray:
    """Return a picture of a coupling: square roots, the largest 255."""
    top = coupling.max().clamp(min=1e-300)
    shade = (coupling / top).sqrt().nan_to_num() * 255
    return shade.round().to(torch.uint8).numpy()


def draw_plans(
    result: Result, methods: Sequence[Method], metric: str, text: str
) -> Figure:
    """Draw the couplings after the most iterations, a panel per method."""
    table = result.scalars["table"]
    size = (2.3 * len(methods), 2.8)
    figure, axes = plt.subplots(1, len(methods), figsize=size, sharey=True)
    for ax, method in zip(axes, methods, strict=True):
        budget = max(table[method.key], key=int)
        coupling = result.arrays[f"{method.key}/{budget}"]
        draw_plan(ax, coupling, result.arrays["exact"], COLORS[method.solver])
        number = text.format(np.mean(table[method.key][budget][metric]))
        ax.set_title(f"{method.label}\n{number}", color=COLORS[method.solver])
        ax.set_xlabel("from x, in p")
    axes[0].set_ylabel("to y, in q")
    return figure


def draw_plan(ax: Axes, coupling: np.ndarray, exact: np.ndarray, color: str) -> None:
    """Shade the picture of a coupling, and mark the exact one by circles."""
    shades = LinearSegmentedColormap.from_list("", ["white", color])
    how: dict[str, Any] = {"cmap": shades, "origin": "lower", "extent": (0, 1, 0, 1)}
    ax.imshow(coupling.T, vmin=0, vmax=120, **how)  # from p to the right, to q upwards
    x, y = ((k + 0.5) / len(coupling) for k in np.nonzero(exact))
    some = slice(None, None, 10)
    ax.plot(x[some], y[some], "o", ms=4, mew=0.6, mfc="none", mec=COLORS["exact"])
    ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])


def one_iteration(result: Result) -> Result:
    """Return what every budget would give if iterations taught nothing."""
    table = {
        method: dict.fromkeys(row, next(iter(row.values())))
        for method, row in result.scalars["table"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


#: An experiment that couples the masses of a line: the cells and the job differ.
coupling_row = partial(
    Experiment,
    # The other methods are deterministic.
    n_seeds=lambda config, cell: config.n_seeds if "Gibbs-OT" in cell[0] else 1,
    devices=("cpu", "cuda"),
    arrays={"coupling": "{cell}"},
    baseline=one_iteration,
)
