"""A still picture in place of the widget of messages, for pages without scripts."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, check_range, checked
from ebmtut.energies import BoltzmannMachine
from ebmtut.exact import exact_probabilities
from ebmtut.message_passing import exact_perturb_and_map, max_product
from ebmtut.plotting import COLORS, TEXT_WIDTH, part_rows
from ebmtut.random import logistic
from ebmtut.states import states_to_index
from ebmtut.widgets.message_explorer import SMALL_GRAPHS, SmallGraph

__all__ = ["draw_laws", "message_picture"]

_STARTS = {"zero": "PMP", "symmetric": "PMP symmetric"}


@checked
def message_picture(
    graphs: Sequence[SmallGraph] = SMALL_GRAPHS,
    *,
    n_sweeps: int = 4,
    n_draws: Count = 20_000,
    generator: torch.Generator,
) -> Figure:
    """Draw how often each state is drawn, by Boltzmann's law and by perturbation.

    Parameters
    ----------
    graphs
        One panel each.
    n_sweeps
        Of max-product, which is run from both starts.
    n_draws
        Perturbations, common to the exact optimum and both starts.
    generator
        On the CPU.

    Raises
    ------
    InputError
        If there are no graphs, draws or sweeps.
    """
    check_range("number of graphs", len(graphs), low=1, integer=True)
    figure, axes = plt.subplots(
        -(-len(graphs) // 2), 2, figsize=(TEXT_WIDTH, 4.6), squeeze=False
    )
    for ax, graph in zip(axes.flat, graphs, strict=False):
        n = graph.n_sites
        model = BoltzmannMachine(*graph.to_bits())
        law = exact_probabilities(model, n).exp()
        noise = logistic((n_draws, n), generator=generator, dtype=torch.float64)
        optimum = _law(exact_perturb_and_map(model, n, noise))
        draw_laws(ax, law, optimum)
        for init, name in _STARTS.items():
            x = max_product(model, model.bias + noise, n_sweeps, init=init).x
            label = f"{n_sweeps} sweeps, {init} start"
            ax.plot(_law(x), ".", color=COLORS[name], label=label)
        ax.set_title(graph.name)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    for ax in axes[:, 0]:
        ax.set_ylabel("probability")
    part_rows(figure)
    return figure


def draw_laws(
    ax: Axes, boltzmann: Float[Tensor, " n_all"], perturbed: Float[Tensor, " n_all"]
) -> None:
    """Draw Boltzmann's law as bars and that of perturb-and-MAP as marks.

    Parameters
    ----------
    ax
        Where to draw.
    boltzmann, perturbed
        Probabilities of the states of n bits.
    """
    n_states = len(boltzmann)
    ax.bar(range(n_states), boltzmann, color="#DDDDDD", label="Boltzmann")
    ax.plot(perturbed, "_", color=COLORS["exact"], label="perturb-and-MAP")
    if n_states <= 16:
        n = n_states.bit_length() - 1
        names = [f"{k:0{n}b}" for k in range(n_states)]
        ax.set_xticks(range(n_states), names, rotation=90)
    else:
        ax.set_xlabel("number of the state")


def _law(x: Tensor) -> Tensor:
    """Share of each state among rows of bits."""
    counts = torch.bincount(states_to_index(x), minlength=2 ** x.shape[1])
    return counts / len(x)
