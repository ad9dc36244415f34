"""Sampling by perturbed max-product.

Source: Lázaro-Gredilla, Dedieu and George (2021), Algorithm 1.
"""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import BelowOne, Count, Natural, OneOf, checked
from ebmtut.energies import PairTerms
from ebmtut.message_passing._pairs import PairwiseModel, pairs_of
from ebmtut.message_passing.max_product import STARTS, decode
from ebmtut.random import logistic
from ebmtut.tensor_checks import check_clamp_values, check_floats, check_shape

__all__ = ["clamp_unaries", "perturb_and_max_product"]


@checked
def perturb_and_max_product(
    model: PairwiseModel,
    n_samples: Count,
    n_sweeps: Natural,
    *,
    damping: BelowOne = 0.5,
    init: Annotated[str, OneOf(STARTS)] = "symmetric",
    clamp: Float[Tensor, "n_samples n_sites"] | Float[Tensor, " n_sites"] | None = None,
    generator: torch.Generator,
) -> Float[Tensor, "n_samples n_sites"]:
    """Sample: perturb the biases, then look for the most likely state.

    Of two Gumbel variables per bit only the difference matters, which is logistic. The
    samples are independent; their distribution differs from the model's however many
    sweeps are made.

    Parameters
    ----------
    n_sweeps, damping, init
        As for `max_product`.
    clamp
        Values that sites are held at: 0, 1, or NaN where free; for all or for each
        sample.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import BoltzmannMachine
    >>> from ebmtut.message_passing import perturb_and_max_product
    >>> from ebmtut.random import make_generator
    >>> model = BoltzmannMachine(torch.zeros(4, 4), torch.zeros(4))
    >>> perturb_and_max_product(model, 5, 10, generator=make_generator(0)).shape
    torch.Size([5, 4])
    """
    terms = pairs_of(model)
    shape = (n_samples, len(terms.bias))
    noise = logistic(
        shape, generator=generator, dtype=terms.bias.dtype, device=terms.bias.device
    )
    unaries = terms.bias.detach() + noise
    if clamp is not None:
        clamp = check_clamp(clamp, unaries)
        unaries = held(terms, unaries, clamp)
    how = (n_sweeps, damping, init == "symmetric")
    x = decode(model, terms, unaries, None, *how).x
    return x if clamp is None else torch.where(clamp.isnan(), x, clamp.to(x))


@checked
def clamp_unaries(
    model: PairwiseModel,
    unaries: Float[Tensor, "n_samples n_sites"],
    clamp: Float[Tensor, "n_samples n_sites"] | Float[Tensor, " n_sites"],
) -> Float[Tensor, "n_samples n_sites"]:
    """Set the unaries of clamped sites so large that no message can sway them.

    Parameters
    ----------
    clamp
        0, 1, or NaN where a site is free; one row for all, or a row for each.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import BoltzmannMachine
    >>> from ebmtut.message_passing import clamp_unaries
    >>> model = BoltzmannMachine(torch.zeros(2, 2), torch.zeros(2))
    >>> clamp = torch.tensor([1.0, torch.nan])  # the first bit is one
    >>> clamp_unaries(model, torch.zeros(1, 2), clamp)[0, 1]
    tensor(0.)
    """
    terms = pairs_of(model)
    unaries = check_floats("unaries", unaries, (None, len(terms.bias)))
    return held(terms, unaries, check_clamp(clamp, unaries))


def check_clamp(
    clamp: Float[Tensor, "n_samples n_sites"] | Float[Tensor, " n_sites"],
    unaries: Float[Tensor, "n_samples n_sites"],
) -> Float[Tensor, "n_samples n_sites"]:
    """Require 0, 1 or NaN for every site; return a row for each sample."""
    if isinstance(clamp, Tensor) and clamp.shape == unaries.shape[1:]:
        clamp = clamp.expand(len(unaries), -1)
    check_shape("clamp", clamp, unaries.shape)
    check_clamp_values(clamp)
    return clamp


def held(
    terms: PairTerms,
    unaries: Float[Tensor, "n_samples n_sites"],
    clamp: Float[Tensor, "n_samples n_sites"],
) -> Tensor:
    """Do what `clamp_unaries` does."""
    swing = terms.at_sites(terms.weight.abs())
    # Twice what all neighbours together can say: the largest single weight, too.
    surely = (2 * clamp - 1).to(unaries) * (2 * swing + 1).to(unaries)
    return torch.where(clamp.isnan(), unaries, surely)
