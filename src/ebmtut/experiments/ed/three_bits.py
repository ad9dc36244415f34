"""Figures of the chapter's first page: eight states, and what noise does to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.plotting import figure_size, state_cube


def draw_forces(
    forces: Mapping[str, Float[Tensor, " n_states"]], path: tuple[int, int]
) -> Figure:
    """Draw by how much two losses raise each state, and one path of the noise.

    The second loss perturbs the data; ``path`` has the data point and the noisy state.
    """
    figure, axes = plt.subplots(1, len(forces), figsize=(5, 2.6))
    for ax, (title, force) in zip(axes, forces.items(), strict=True):
        corners = state_cube(ax, title, sizes=900 * force, colors="C1")
        ax.plot(*corners[path[0]], "o", ms=21, mfc="none", mec="black", mew=1.5)
    start, end = (corners[k] for k in path)
    arrow = {"arrowstyle": "->", "shrinkA": 12, "shrinkB": 12}
    axes[-1].annotate("", end, start, arrowprops=arrow)
    return figure


def draw_classes(classes: Mapping[str, Int[Tensor, " n_states"]]) -> Figure:
    """Draw the eight states of each channel, those of one class in one colour."""
    figure, axes = plt.subplots(1, len(classes), figsize=(5.6, 2.2))
    for ax, (title, numbers) in zip(axes, classes.items(), strict=True):
        colors = [f"C{int(k)}" for k in numbers]
        state_cube(ax, title, sizes=90, colors=colors)
    return figure


def draw_contraction(before: float, after: Callable[[float], float]) -> Figure:
    """Draw a divergence before the noise, and after it over the flip probability."""
    grid = torch.linspace(0.001, 0.999, 199).tolist()
    figure, ax = plt.subplots(figsize=figure_size("wide"))
    ax.axhline(before, color="black", label="before the noise")
    ax.plot(grid, [after(eps) for eps in grid], label="after the noise")
    ax.set(xlabel="flip probability ε", ylabel="KL divergence [nats]", ylim=0)
    ax.legend(loc="lower right")
    return figure
