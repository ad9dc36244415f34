"""Sampling by perturbed max-product.

Source: Lázaro-Gredilla, Dedieu and George (2021), Algorithm 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ebmtut.checks import InputError, check_range
from ebmtut.message_passing._pairs import PairwiseModel, pairs_of
from ebmtut.message_passing.max_product import max_product
from ebmtut.random import logistic
from ebmtut.tensor_checks import check_floats, check_shape

__all__ = ["clamp_unaries", "perturb_and_max_product"]


def perturb_and_max_product(
    model: PairwiseModel,
    n_samples: int,
    n_sweeps: int,
    *,
    damping: float = 0.5,
    init: str = "zero",
    clamp: Tensor | None = None,
    generator: torch.Generator,
) -> Tensor:
    """Draw samples: perturb the biases, then look for the most likely state.

    Every sample has its own noise. Two Gumbels a bit, one for each value,
    matter only by their difference, which is logistic. No Markov chain: the
    samples are independent, and their law is near the model's, not the same,
    however many sweeps are made.

    Parameters
    ----------
    model : BoltzmannMachine, PairwiseGraph or RBM
        What to sample from; the sites of an RBM are its visible units, then
        its hidden ones.
    n_samples : int
        Number of samples.
    n_sweeps, damping, init
        As for `max_product`.
    clamp : Tensor, optional
        Values that sites are held at, shape (n_samples, n_sites): 0, 1, or
        NaN where a site is free.
    generator : torch.Generator
        On the device of the model's parameters.

    Returns
    -------
    Tensor
        Bits, shape (n_samples, n_sites), of the dtype of the biases.

    Raises
    ------
    InputError
        If an argument is out of range, of another kind or of another shape.
    """
    check_range("n_samples", n_samples, low=1, integer=True)
    terms = pairs_of(model)
    shape = (n_samples, len(terms.bias))
    noise = logistic(
        shape, generator=generator, dtype=terms.bias.dtype, device=terms.bias.device
    )
    unaries = terms.bias + noise
    if clamp is not None:
        unaries = clamp_unaries(model, unaries, clamp)
    x = max_product(model, unaries, n_sweeps, damping=damping, init=init).x
    return x if clamp is None else torch.where(clamp.isnan(), x, clamp.to(x))


def clamp_unaries(model: PairwiseModel, unaries: Tensor, clamp: Tensor) -> Tensor:
    """Set the unaries of clamped sites so large that no message can sway them.

    Parameters
    ----------
    model : BoltzmannMachine, PairwiseGraph or RBM
        Its weights say how large that is.
    unaries : Tensor
        Shape (n_samples, n_sites), floating.
    clamp : Tensor
        0, 1, or NaN where a site is free; same shape.

    Returns
    -------
    Tensor
        Like ``unaries``.

    Raises
    ------
    InputError
        If the model is no pairwise model, or ``unaries`` or ``clamp`` have
        another shape or other values.
    """
    terms = pairs_of(model)
    unaries = check_floats("unaries", unaries, (None, len(terms.bias)))
    check_shape("clamp", clamp, unaries.shape)
    if not (clamp.isnan() | (clamp == 0) | (clamp == 1)).all():
        raise InputError("clamp must be 0, 1, or NaN for a free site")
    swing = terms.weight.new_zeros(len(terms.bias))
    swing.index_add_(0, terms.first, terms.weight.abs())
    swing.index_add_(0, terms.second, terms.weight.abs())
    # Twice what all neighbours together can say: the largest single weight, too.
    held = (2 * clamp - 1).to(unaries) * (2 * swing + 1).to(unaries)
    return torch.where(clamp.isnan(), unaries, held)
