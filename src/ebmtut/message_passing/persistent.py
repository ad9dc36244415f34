"""Persistent perturb-and-max-product: noise and messages that go on.

Source: Lázaro-Gredilla, Dedieu and George (2021), Appendix A. While a model is
learned, the next perturbed problem can be kept near the last one: its noise is a
small step of a stationary chain, and max-product starts where it stopped.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import BelowOne, Count, Natural, OneOf, checked
from ebmtut.message_passing._pairs import PairwiseModel, pairs_of
from ebmtut.message_passing.max_product import STARTS, decode
from ebmtut.random import check_generator, normal
from ebmtut.tensor_checks import check_floats

__all__ = ["PersistentState", "persistent_perturb_and_max_product", "start_persistent"]


class PersistentState(NamedTuple):
    """What persistent samples are made of, and will go on from.

    Attributes
    ----------
    normals
        The noise before it is made logistic: standard normal.
    messages
        As in `MaxProductResult`.
    """

    x: Float[Tensor, "n_samples n_sites"]
    normals: Float[Tensor, "n_samples n_sites"]
    messages: Float[Tensor, "n_samples 2 n_pairs"]


def logistic_from_normal(z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Map standard normals, monotonically, to standard logistics.

    The quantile transform log(Phi(z) / Phi(-z)), which keeps both tails.
    """
    return torch.special.log_ndtr(z) - torch.special.log_ndtr(-z)


def correlated_normals(
    z: Float[Tensor, "*shape"], rho: float, *, generator: torch.Generator
) -> Float[Tensor, "*shape"]:
    """Step to sqrt(rho) z + sqrt(1 - rho) fresh, which leaves N(0, 1) as it is.

    Two values t steps apart are correlated by rho^(t/2).
    """
    fresh = normal(z, generator=generator)
    return rho**0.5 * z + (1 - rho) ** 0.5 * fresh


@checked
def start_persistent(
    model: PairwiseModel,
    n_samples: Count,
    *,
    init: Annotated[str, OneOf(STARTS)] = "symmetric",
    generator: torch.Generator,
) -> PersistentState:
    """Sample the first noise; no message has been passed yet."""
    terms = pairs_of(model)
    check_generator(generator, terms.bias.device)
    of: Any = {"dtype": terms.bias.dtype, "device": terms.bias.device}
    normals = torch.randn((n_samples, len(terms.bias)), generator=generator, **of)
    unaries = terms.bias.detach() + logistic_from_normal(normals)
    how = (0, 0.0, init == "symmetric")
    found = decode(model, terms, unaries, None, *how, keep_messages=True)
    assert found.messages is not None
    return PersistentState(found.x, normals, found.messages)


@checked
def persistent_perturb_and_max_product(
    model: PairwiseModel,
    state: PersistentState,
    n_sweeps: Natural,
    *,
    rho: float,
    damping: BelowOne = 0.5,
    generator: torch.Generator,
) -> PersistentState:
    """Perturb the perturbation, and go on with the messages.

    The samples of one step are independent, those of successive steps are alike. The
    paper correlates two Gumbels a bit; here their difference, a logistic, is
    correlated.

    Parameters
    ----------
    model, state
        With the same pairs in each step; from `start_persistent` or the step before.
    rho
        How much of the noise is kept.
    """
    terms = pairs_of(model)
    before = check_floats("state.normals", state.normals, (None, len(terms.bias)))
    shape = (len(before), 2, len(terms.weight))
    messages = check_floats("state.messages", state.messages, shape)
    normals = correlated_normals(before, rho, generator=generator)
    unaries = terms.bias.detach() + logistic_from_normal(normals)
    how = (n_sweeps, damping, False)
    found = decode(model, terms, unaries, messages, *how, keep_messages=True)
    assert found.messages is not None
    return PersistentState(found.x, normals, found.messages)
