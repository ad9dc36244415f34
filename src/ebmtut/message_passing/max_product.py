"""Damped parallel max-product on pairwise models of bits.

Source: Lázaro-Gredilla, Dedieu and George (2021), "Perturb-and-max-product",
Algorithm 1 and Appendices C.1 and C.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import BelowOne, Natural, OneOf, checked
from ebmtut.energies import PairTerms
from ebmtut.kernels.max_product import sweeps_for
from ebmtut.message_passing._pairs import PairwiseModel, pairs_of
from ebmtut.tensor_checks import check_floats

__all__ = [
    "STARTS",
    "MaxProductResult",
    "PairwiseModel",
    "max_product",
    "max_product_reference",
]

#: Initial messages: half their weight, or 0 as in the paper.
STARTS = ("symmetric", "zero")


def plain_sweeps(
    terms: PairTerms,
    unaries: Float[Tensor, "n_samples n_sites"],
    messages: Float[Tensor, "n_samples 2 n_pairs"] | None,
    n_sweeps: int,
    damping: float,
    symmetric: bool,
) -> tuple[Float[Tensor, "n_samples n_sites"], Float[Tensor, "n_samples 2 n_pairs"]]:
    """Send all messages so many times; return beliefs and messages.

    A message from i to j is one number, its log-odds n. With p the log-odds of i from
    all but j, and alpha the damping,

        n <- alpha n + (1 - alpha) [max(0, p + w) - max(0, p)]    (Eq. 6).
    """
    source = torch.cat([terms.first, terms.second])
    target = torch.cat([terms.second, terms.first])
    w = terms.weight.to(unaries).repeat(2)
    if messages is None:
        n = (w / 2 if symmetric else 0 * w).repeat(len(unaries), 1)
    else:
        n = messages.flatten(1).to(unaries)
    for _ in range(n_sweeps):
        beliefs = unaries.index_add(1, target, n)
        back = n.roll(len(terms.weight), 1)  # the message the other way
        p = beliefs[:, source] - back
        update = (p + w).clamp(min=0) - p.clamp(min=0)
        n = damping * n + (1 - damping) * update
    return unaries.index_add(1, target, n), n.view(len(n), 2, -1)


@dataclass
class MaxProductResult:
    """What max-product found.

    Attributes
    ----------
    x
        Decoded bits, belief > 0.
    beliefs
        Log-odds of the max-marginals, as max-product sees them.
    messages
        Log-odds in the order of ``model.pair_terms()``: first to second site, then
        back.
    """

    x: Float[Tensor, "n_samples n_sites"]
    beliefs: Float[Tensor, "n_samples n_sites"]
    messages: Float[Tensor, "n_samples 2 n_pairs"] | None = field(
        default=None, repr=False
    )


@checked
def max_product(
    model: PairwiseModel,
    unaries: Float[Tensor, "n_samples n_sites"],
    n_sweeps: Natural,
    *,
    damping: BelowOne = 0.5,
    init: Annotated[str, OneOf(STARTS)] = "symmetric",
    messages: Float[Tensor, "n_samples 2 n_pairs"] | None = None,
    return_messages: bool = False,
) -> MaxProductResult:
    """Look for the most likely state by parallel, damped max-product.

    Exact on trees once every message has crossed the tree. Compiled code on the CPU, or
    on a GPU with Triton, is chosen by the kind of the model and its sparsity.

    Parameters
    ----------
    unaries
        In place of the biases, for example biases and noise; without gradients.
    n_sweeps, damping
        Updates of all messages, and part of the old message that is kept (alpha).
    init
        "symmetric" is n = w / 2; "zero" is the paper's, which biases samples towards 0.
    return_messages
        Whether the result holds the 2 n_samples n_pairs messages.

    Notes
    -----
    See the chapter :doc:`/book/pmp/index`.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import BoltzmannMachine
    >>> from ebmtut.message_passing import max_product
    >>> model = BoltzmannMachine(torch.tensor([[0.0, 2.0], [2.0, 0.0]]), torch.zeros(2))
    >>> max_product(model, torch.tensor([[1.0, -0.5]]), 20).x
    tensor([[1., 1.]])
    """
    task = _checked(model, unaries, messages, n_sweeps, damping, init)
    return decode(model, *task, keep_messages=return_messages)


@checked
def max_product_reference(
    model: PairwiseModel,
    unaries: Float[Tensor, "n_samples n_sites"],
    n_sweeps: Natural,
    *,
    damping: BelowOne = 0.5,
    init: Annotated[str, OneOf(STARTS)] = "symmetric",
    messages: Float[Tensor, "n_samples 2 n_pairs"] | None = None,
    return_messages: bool = False,
) -> MaxProductResult:
    """Do what `max_product` does in plain torch, on any device."""
    task = _checked(model, unaries, messages, n_sweeps, damping, init)
    beliefs, final = plain_sweeps(*task)
    return _result(beliefs, final if return_messages else None)


def decode(
    model: PairwiseModel,
    terms: PairTerms,
    unaries: Float[Tensor, "n_samples n_sites"],
    messages: Float[Tensor, "n_samples 2 n_pairs"] | None,
    n_sweeps: int,
    damping: float,
    symmetric: bool,
    *,
    keep_messages: bool = False,
) -> MaxProductResult:
    """Do what `max_product` does, for callers that have checked."""
    task = (terms, unaries, messages, n_sweeps, damping, symmetric)
    sweeps = sweeps_for(unaries)
    if sweeps is not None:
        return _result(*sweeps(model, *task, keep_messages))
    beliefs, final = plain_sweeps(*task)
    return _result(beliefs, final if keep_messages else None)


def _result(beliefs: Tensor, messages: Tensor | None) -> MaxProductResult:
    return MaxProductResult((beliefs > 0).to(beliefs), beliefs, messages)


def _checked(
    model: PairwiseModel,
    unaries: Tensor,
    messages: Tensor | None,
    n_sweeps: int,
    damping: float,
    init: str,
) -> tuple[PairTerms, Tensor, Tensor | None, int, float, bool]:
    """All that sweeps take, the tensors without a gradient."""
    terms = pairs_of(model)
    unaries = check_floats("unaries", unaries, (None, len(terms.bias)))
    if messages is not None:
        shape = (len(unaries), 2, len(terms.weight))
        messages = check_floats("messages", messages, shape)
    return terms, unaries, messages, n_sweeps, damping, init == "symmetric"
