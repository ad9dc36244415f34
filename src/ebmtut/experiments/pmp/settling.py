"""Do messages come to rest, and is what they then say optimal?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

__all__ = ["Settled", "draw_messages", "settled", "share_of_ties"]

N_SWEEPS = 200
#: Two beliefs or messages that differ by less are the same, up to rounding.
NEAR = 1e-6


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
