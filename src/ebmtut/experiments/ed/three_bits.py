"""Pictures and tables of the chapter's first page: a few bits, and what noise takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.plotting import figure_size, state_cube
from ebmtut.results.tables import Cell, Table

__all__ = [
    "classes_table",
    "draw_classes",
    "draw_contraction",
    "draw_forces",
    "slopes_table",
]


def _named(states: Iterable[int], n_states: int) -> list[str]:
    """Write states as their bits."""
    width = n_states.bit_length() - 1
    return [f"{state:0{width}b}" for state in states]


def classes_table(classes: Int[Tensor, " n_states"]) -> Table:
    """Tabulate the states that a channel weighs against each other, a class a row.

    Parameters
    ----------
    classes
        Number of each state's class, from 0 (`ebmtut.exact.channel_classes`).
    """
    n_classes = int(classes.max()) + 1
    members = [(classes == k).nonzero().flatten().tolist() for k in range(n_classes)]
    return Table(
        {
            "class": [str(k + 1) for k in range(n_classes)],
            "states": [" ".join(_named(states, len(classes))) for states in members],
        }
    )


def slopes_table(slopes: Mapping[str, Float[Tensor, " n_states"]]) -> Table:
    """Tabulate gradients in the states' energies, to four decimals.

    Parameters
    ----------
    slopes
        By the way that they were computed.
    """
    n_states = len(next(iter(slopes.values())))
    columns: dict[str, list[Cell]] = {
        "gradient in U of": [*_named(range(n_states), n_states)]
    }
    for name, slope in slopes.items():
        columns[name] = [round(value, 4) for value in slope.tolist()]
    return Table(columns)


def draw_forces(
    forces: Mapping[str, Float[Tensor, " n_states"]], way: tuple[int, int]
) -> Figure:
    """Draw how hard each of two losses pushes up the eight states.

    Parameters
    ----------
    forces
        By the name of the loss, the second of which disturbs the data.
    way
        Numbers of the data point, which both push down, and of what the noise made
        of it.
    """
    figure, axes = plt.subplots(1, len(forces), figsize=(5, 2.6))
    for ax, (title, force) in zip(axes, forces.items(), strict=True):
        corners = state_cube(ax, title, sizes=900 * force, colors="C1")
        ax.plot(*corners[way[0]], "v", ms=11, mfc="none", mew=2)
    start, end = (corners[k] for k in way)
    axes[-1].annotate("", end, start, arrowprops={"arrowstyle": "->"})
    return figure


def draw_classes(classes: Mapping[str, Int[Tensor, " n_states"]]) -> Figure:
    """Draw the eight states, those of one class in one colour.

    Parameters
    ----------
    classes
        Numbers of the classes, by the name of the channel.
    """
    figure, axes = plt.subplots(1, len(classes), figsize=(5.6, 2.2))
    for ax, (title, numbers) in zip(axes, classes.items(), strict=True):
        colors = [f"C{int(k)}" for k in numbers]
        state_cube(ax, title, sizes=90, colors=colors)
    return figure


def draw_contraction(before: float, after: Callable[[float], float]) -> Figure:
    """Draw a divergence before the noise, and after it over the chance of a flip.

    Parameters
    ----------
    before
        In nats.
    after
        Of the flip probability, in nats.
    """
    grid = torch.linspace(0.001, 0.999, 199).tolist()
    figure, ax = plt.subplots(figsize=figure_size("wide"))
    ax.axhline(before, color="black", label="before")
    ax.plot(grid, [after(eps) for eps in grid], label="after")
    ax.set(xlabel="flip probability ε", ylabel="KL (nats)", ylim=0)
    ax.legend(loc="lower right")
    return figure
