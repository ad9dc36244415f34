"""Damped parallel max-product on pairwise models of bits.

Source: Lázaro-Gredilla, Dedieu and George (2021), "Perturb-and-max-product",
Algorithm 1 and Appendices C.1 and C.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ebmtut.checks import check_choice, check_range
from ebmtut.energies import BoltzmannMachine, PairTerms, PairwiseGraph
from ebmtut.message_passing._pairs import PairwiseModel, pairs_of
from ebmtut.message_passing._sweeps import sweep_edges, sweep_matrix
from ebmtut.tensor_checks import check_floats

__all__ = [
    "STARTS",
    "MaxProductResult",
    "PairwiseModel",
    "max_product",
    "max_product_reference",
]

#: Where messages can start: at 0 as in the paper, or at half their weight.
STARTS = ("zero", "symmetric")

# With fewer non-zero pairs than this part, a matrix is swept as a graph.
_SPARSE = 0.25


@dataclass
class MaxProductResult:
    """What max-product found.

    Attributes
    ----------
    x : Tensor
        Decoded bits, belief > 0, shape (n_samples, n_sites).
    beliefs : Tensor
        Log-odds of the max-marginals, as max-product sees them, same shape.
    messages : Tensor or None
        Log-odds n of all messages, (n_samples, 2, n_pairs), in the order of
        ``model.pair_terms()``: first to second site, then back.
    """

    x: Tensor
    beliefs: Tensor
    messages: Tensor | None = field(default=None, repr=False)


def max_product(
    model: PairwiseModel,
    unaries: Tensor,
    n_sweeps: int,
    *,
    damping: float = 0.5,
    init: str = "zero",
    messages: Tensor | None = None,
    return_messages: bool = False,
) -> MaxProductResult:
    """Look for the most likely state by parallel, damped max-product.

    Exact on trees once every message has crossed the tree. On the CPU by
    compiled code, chosen by the kind of the model and its sparsity, with
    samples spread over ``torch.get_num_threads()`` threads; elsewhere
    `max_product_reference`.

    Parameters
    ----------
    model : BoltzmannMachine, PairwiseGraph or RBM
        Its weights are used, its biases are not.
    unaries : Tensor
        What stands in for the biases, for example biases and noise, shape
        (n_samples, n_sites), floating, finite; without gradients. The sites of
        an RBM are its visible units, then its hidden ones.
    n_sweeps : int
        Updates of all messages.
    damping : float
        Part of the old message that is kept, in [0, 1); the paper's alpha.
    init : {"zero", "symmetric"}
        Where messages start. "zero" is the paper's n = 0, which takes every
        neighbour for a 0; "symmetric" is n = w / 2, which favours neither.
    messages : Tensor, optional
        Messages to start from instead, as `MaxProductResult` holds them.
    return_messages : bool
        Whether the result holds the messages; they take
        2 n_samples n_pairs numbers, which are not needed otherwise.

    Returns
    -------
    MaxProductResult

    Raises
    ------
    InputError
        If an argument is out of range, of another shape, or not finite, or if
        the unaries are not floating.

    See Also
    --------
    max_product_reference : the same in plain torch.

    Notes
    -----
    See the chapter :doc:`/book/pmp/index`.
    """
    terms, unaries, messages = _checked(
        model, unaries, n_sweeps, damping, init, messages
    )
    if unaries.device.type != "cpu":
        return max_product_reference(
            model,
            unaries,
            n_sweeps,
            damping=damping,
            init=init,
            messages=messages,
            return_messages=return_messages,
        )
    dtype = torch.float64 if unaries.dtype == torch.float64 else torch.float32
    sparse = isinstance(model, PairwiseGraph)
    if isinstance(model, BoltzmannMachine) and messages is None and not return_messages:
        some = terms.weight != 0
        sparse = int(some.sum()) < _SPARSE * len(some)
        if sparse:
            first, second = terms.first[some], terms.second[some]
            terms = PairTerms(first, second, terms.weight[some], terms.bias)
    half = terms.weight.to(dtype) / 2
    # The kernels keep n - w / 2, and so each site hears half its weights anyway.
    lean = torch.zeros(unaries.shape[1], dtype=dtype)
    lean.index_add_(0, terms.first, half).index_add_(0, terms.second, half)
    before = None if messages is None else messages.to(dtype)
    task = (unaries.to(dtype) + lean, before, init == "symmetric", return_messages)
    if isinstance(model, PairwiseGraph) or sparse:
        found, final = sweep_edges(terms, *task, n_sweeps, damping)
    else:
        found, final = sweep_matrix(model, terms, *task, n_sweeps, damping)
    found = found.to(unaries.dtype)
    final = None if final is None else final.to(unaries.dtype)
    return MaxProductResult((found > 0).to(unaries.dtype), found, final)


def max_product_reference(
    model: PairwiseModel,
    unaries: Tensor,
    n_sweeps: int,
    *,
    damping: float = 0.5,
    init: str = "zero",
    messages: Tensor | None = None,
    return_messages: bool = False,
) -> MaxProductResult:
    """Do what `max_product` does in plain torch, on any device.

    Takes, returns and raises the same.
    """
    terms, unaries, messages = _checked(
        model, unaries, n_sweeps, damping, init, messages
    )
    weight = terms.weight.to(unaries)
    source = torch.cat([terms.first, terms.second])
    target = torch.cat([terms.second, terms.first])
    w = weight.repeat(2)
    if messages is None:
        n = (w / 2 if init == "symmetric" else 0 * w).repeat(len(unaries), 1)
    else:
        n = messages.flatten(1).to(unaries)

    def heard(n: Tensor) -> Tensor:
        """Unaries and all incoming messages of each site."""
        return unaries.index_add(1, target, n)

    for _ in range(n_sweeps):
        back = n.roll(len(weight), 1)  # the message the other way
        p = heard(n)[:, source] - back
        update = (p + w).clamp(min=0) - p.clamp(min=0)  # Eq. 6
        n = damping * n + (1 - damping) * update
    beliefs = heard(n)
    final = n.view(len(n), 2, -1) if return_messages else None
    return MaxProductResult((beliefs > 0).to(unaries.dtype), beliefs, final)


def _checked(
    model: PairwiseModel,
    unaries: Tensor,
    n_sweeps: int,
    damping: float,
    init: str,
    messages: Tensor | None,
) -> tuple[PairTerms, Tensor, Tensor | None]:
    """Pairs, unaries and messages, the latter two without a gradient."""
    terms = pairs_of(model)
    unaries = check_floats("unaries", unaries, (None, len(terms.bias)))
    check_range("n_sweeps", n_sweeps, low=0, integer=True)
    check_range("damping", damping, low=0, high=1, include_high=False)
    check_choice("init", init, STARTS)
    if messages is not None:
        shape = (len(unaries), 2, len(terms.weight))
        messages = check_floats("messages", messages, shape)
    return terms, unaries, messages
