"""Do messages come to rest, and is what they then say optimal?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, checked
from ebmtut.energies import BoltzmannMachine
from ebmtut.experiments.pmp.ensembles import dense_model
from ebmtut.message_passing import exact_perturb_and_map, max_product
from ebmtut.plotting import panel_size
from ebmtut.random import logistic
from ebmtut.results.tables import Table
from ebmtut.widgets import SMALL_GRAPHS

__all__ = [
    "Settled",
    "draw_messages",
    "message_paths",
    "settled",
    "settled_table",
    "share_of_ties",
    "small_graphs",
]

N_SWEEPS = 200
#: Two beliefs or messages that differ by less are the same, up to rounding.
NEAR = 1e-6
# One perturbation of up to six bits, of which the picture of messages is drawn.
_NOISE = torch.tensor([[-0.6, 0.5, -0.1, -0.2, 0.9, -1.2]]).double()


def small_graphs(
    loop: Sequence[float] = (1, 1, 1, -1),
) -> dict[str, tuple[BoltzmannMachine, float]]:
    """Return a chain of six spins and a loop of four, each with a damping.

    Parameters
    ----------
    loop
        Couplings of the loop's four edges.
    """
    six, four = SMALL_GRAPHS[1:3]
    four = replace(four, couplings=tuple(loop))
    chain, ring = (BoltzmannMachine(*graph.to_bits()) for graph in (six, four))
    return {
        "chain, undamped": (chain, 0.0),
        "loop, undamped": (ring, 0.0),
        "loop, damped": (ring, 0.5),
    }


class Settled(NamedTuple):
    """Shares of perturbed problems.

    Attributes
    ----------
    at_rest
        The next sweep changes no message.
    no_zero_belief
        Besides, no belief is zero.
    optimal
        The part of the latter whose decoded state is the best of all.
    """

    at_rest: float
    no_zero_belief: float
    optimal: float


@checked
def settled(
    model: BoltzmannMachine, damping: float, n: Count, *, generator: torch.Generator
) -> Settled:
    """Send messages for 200 sweeps from N = W/2, and look whether they are at rest.

    Parameters
    ----------
    model
        Of double precision, and so few sites that its states can be listed.
    damping
        Part of the old message that is kept.
    n
        Perturbed problems.
    generator
        Source of the noise.
    """
    size = (n, model.n_sites)
    noise = logistic(size, generator=generator, dtype=model.bias.dtype)
    unaries = model.bias.detach() + noise
    sweep = partial(max_product, model, damping=damping, return_messages=True)
    then = sweep(unaries, N_SWEEPS, init="symmetric")
    later = sweep(unaries, 1, messages=then.messages)
    assert then.messages is not None and later.messages is not None
    rests = (later.messages - then.messages).abs().amax((1, 2)) < NEAR
    sure = rests & (then.beliefs.abs().amin(1) > NEAR)
    best = exact_perturb_and_map(model, model.n_sites, noise)
    right = (then.x == best).all(1)[sure]
    return Settled(*(float(k.double().mean()) for k in (rests, sure, right)))


@checked
def share_of_ties(
    n_sites: int, n_models: Count, n_draws: Count, *, generator: torch.Generator
) -> float:
    """Return the share of draws with a zero belief, on dense models.

    Parameters
    ----------
    n_sites
        Of models with couplings of spins uniform in [-2, 2], as in Section 5.2.
    n_models, n_draws
        Models, and perturbations of each.
    generator
        Source of models and noise.
    """
    ties = []
    for _ in range(n_models):
        model, _ = dense_model(n_sites, generator=generator)
        size = (n_draws, n_sites)
        noise = logistic(size, generator=generator, dtype=model.bias.dtype)
        unaries = model.bias.detach() + noise
        beliefs = max_product(model, unaries, N_SWEEPS, init="symmetric").beliefs
        ties.append((beliefs.abs().amin(1) < NEAR).double().mean())
    return float(torch.stack(ties).mean())


def settled_table(shares: Mapping[str, Settled]) -> Table:
    """Tabulate shares of perturbed problems, a graph a row."""
    columns = zip(*shares.values(), strict=True)
    heads = ("at rest", "no zero belief", "optimal")
    return Table(
        {"graph": [*shares]}
        | {head: [*column] for head, column in zip(heads, columns, strict=True)},
        digits=2,
    )


def message_paths(
    solve: Callable[..., tuple[Tensor, Tensor]],
    cases: Mapping[str, tuple[BoltzmannMachine, float]],
    n_sweeps: int,
) -> dict[str, list[Tensor]]:
    """Return the messages of one perturbed problem after 0, 1, ... sweeps.

    Parameters
    ----------
    solve
        Takes a model, unary terms, a number of sweeps, a damping and a start; returns
        beliefs and messages.
    cases
        Models of up to six bits with their damping, by name.
    n_sweeps
        The last number of sweeps.

    Returns
    -------
    paths
        By name: the messages on all edges, from -1 ("be off") to 1 ("be on").
    """
    paths = {}
    for name, (model, damping) in cases.items():
        weight, unaries = model.weight.detach(), model.bias.detach()
        unaries = unaries + _NOISE[:, : model.n_sites]
        edges = weight != 0
        runs = (
            solve(model, unaries, t, damping, "symmetric")[1][0]
            for t in range(n_sweeps + 1)
        )
        paths[name] = [(2 * n - weight)[edges] / weight[edges].abs() for n in runs]
    return paths


def draw_messages(paths: Mapping[str, Sequence[Tensor]]) -> Figure:
    """Draw messages over the sweeps, a panel each.

    Parameters
    ----------
    paths
        By the panel's title: all messages after 0, 1, 2, ... sweeps, from -1 ("be off")
        to 1 ("be on").
    """
    figure, axes = plt.subplots(
        1, len(paths), figsize=panel_size(1, len(paths)), sharey=True
    )
    for ax, (name, path) in zip(axes, paths.items(), strict=True):
        ax.plot(np.stack([messages.numpy() for messages in path]), lw=1)
        ax.set(title=name, xlabel="sweep")
    axes[0].set_yticks([-1, 0, 1], ["off", "", "on"])
    return figure
