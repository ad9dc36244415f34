"""Figures of the chapter's first page: eight states, and what noise does to them."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.plotting import state_cube


def draw_forces(
    forces: Mapping[str, Float[Tensor, " n_states"]], path: tuple[int, int]
) -> Figure:
    """Draw by how much losses raise each state, and a path from data point to noise."""
    figure, axes = plt.subplots(1, len(forces), figsize=(4.2, 2.4))
    for ax, (title, force) in zip(axes, forces.items(), strict=True):
        corners = state_cube(ax, title, sizes=900 * force, colors="C1")
        ax.plot(*corners[path[0]], "o", ms=21, mfc="none", mec="black", mew=1.5)
        ax.texts[path[0]].set_position((9, 9))  # outside the ring
    start, end = (corners[k] for k in path)
    arrow = {"arrowstyle": "->", "shrinkA": 12, "shrinkB": 12}
    axes[-1].annotate("", end, start, arrowprops=arrow)
    return figure


def draw_classes(classes: Mapping[str, Int[Tensor, " n_states"]]) -> Figure:
    """Draw the eight states of each channel, those of one class in one colour."""
    figure, axes = plt.subplots(1, len(classes), figsize=(4.2, 2.4))
    for ax, (title, numbers) in zip(axes, classes.items(), strict=True):
        state_cube(ax, title, sizes=90, colors=[f"C{int(k)}" for k in numbers])
    return figure
