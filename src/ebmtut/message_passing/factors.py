"""Max-product messages of logical factors: AND of two variables, OR of many.

A message about a bit is its log-odds n = log m(1) - log m(0). The parents of a factor
are its inputs, and its child is their AND or OR. A message to a bit leaves out the one
that this bit sent (Lazaro-Gredilla, Dedieu and George, 2021, Appendix C.3).
"""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["and_to_child", "and_to_parents", "or_to_child", "or_to_parents"]


def and_to_child(
    first: Float[Tensor, "*shape"], second: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Message of an AND factor to its child.

    min(n_1 + n_2, n_1, n_2), written so that nothing cancels.
    """
    larger = torch.maximum(first, second)
    return torch.minimum(first, second) + larger.clamp(max=0)


def and_to_parents(
    first: Float[Tensor, "*shape"],
    second: Float[Tensor, "*shape"],
    child: Float[Tensor, "*shape"],
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Messages of an AND factor to its two parents.

    The message to the first parent is max(0, n_2 + n_c) - max(0, n_2), and likewise the
    other.

    Parameters
    ----------
    child
        Message of the child to the factor; infinite where the child is observed.
    """
    return _gate(second, child), _gate(first, child)


def _gate(parent: Tensor, child: Tensor) -> Tensor:
    # max(0, n + n_c) - max(0, n) without a difference of large numbers.
    return torch.maximum(child + parent.clamp(max=0), -parent.clamp(min=0))


def or_to_child(parents: Float[Tensor, "*shape n_parents"]) -> Float[Tensor, "*shape"]:
    """Message of an OR factor to its child.

    The sum of the positive messages; if there is none, the largest message.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.message_passing import or_to_child
    >>> or_to_child(torch.tensor([[1.0, -2.0], [-1.0, -2.0]]))
    tensor([ 1., -1.])
    """
    return parents.clamp(min=0).sum(dim=-1) + parents.amax(dim=-1).clamp(max=0)


def or_to_parents(
    parents: Float[Tensor, "*shape n_parents"], child: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape n_parents"]:
    """Messages of an OR factor to its parents.

    The message to parent i is min(n_c + sum of max(0, n_j), max(0, -max n_j)), with the
    sum and the maximum over j other than i.

    Parameters
    ----------
    parents
        Finite, or -inf where a parent is off; inf, which means on, gives NaN.
    child
        Infinite where the child is observed.

    Notes
    -----
    See the chapter :doc:`/book/pmp/deconvolution`.
    """
    positive = parents.clamp(min=0)
    others_on = positive.sum(dim=-1, keepdim=True) - positive
    never = parents.new_full((*parents.shape[:-1], 1), -torch.inf)
    best = torch.cat([parents, never], dim=-1).topk(2, dim=-1)
    is_largest = torch.zeros_like(parents, dtype=torch.bool).scatter_(
        -1, best.indices[..., :1], True
    )
    best_other = torch.where(is_largest, best.values[..., 1:], best.values[..., :1])
    return torch.minimum(child[..., None] + others_on, (-best_other).clamp(min=0))
