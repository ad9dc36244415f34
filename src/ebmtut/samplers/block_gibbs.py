"""Block Gibbs sampling of restricted Boltzmann machines."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, checked
from ebmtut.energies import RBM
from ebmtut.random import bernoulli
from ebmtut.tensor_checks import check_bits, check_weights

__all__ = ["block_gibbs"]


@torch.no_grad()
@checked
def block_gibbs(
    model: RBM,
    v: Float[Tensor, "n_chains n_visible"],
    n_sweeps: Count,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "n_chains n_units"]:
    """Sample all hidden units given the visible ones, then all visible ones, again.

    Given one layer the units of the other are independent: a sweep is two matrix
    products.

    Parameters
    ----------
    v
        Initial visible units, bits.

    Returns
    -------
    units
        The last visible units and the hidden units that they were sampled from.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import random_rbm
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import block_gibbs
    >>> model = random_rbm(3, 4, generator=make_generator(0))
    >>> block_gibbs(model, torch.zeros(5, 4), 10, generator=make_generator(1)).shape
    torch.Size([5, 7])
    """
    check_weights(model)
    check_bits("v", v, model.n_visible)
    for _ in range(n_sweeps):
        h = bernoulli(torch.sigmoid(model.hidden_logits(v)), generator=generator)
        v = bernoulli(torch.sigmoid(model.visible_logits(h)), generator=generator)
    return torch.cat([v, h], dim=1)
