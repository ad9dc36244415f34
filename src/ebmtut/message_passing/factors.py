"""Max-product messages of logical factors: AND of two variables, OR of many.

A message about a bit is one number, the log-odds n = log m(1) - log m(0). The
top variables of a factor are its inputs, the bottom variable is their AND or
their OR, and every message from the factor leaves out what came from the
variable it goes to (Lazaro-Gredilla, Dedieu and George, 2021, Appendix C.3).
The cost is linear in the number of variables, though the factor's table has an
entry for every configuration of them.
"""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["and_to_bottom", "and_to_tops", "or_to_bottom", "or_to_tops"]


def and_to_bottom(
    first: Float[Tensor, "*shape"], second: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Message of an AND factor to its bottom variable.

    min(t_1 + t_2, t_1, t_2), written so that nothing cancels.

    Parameters
    ----------
    first, second
        Messages of the two top variables to the factor.
    """
    larger = torch.maximum(first, second)
    return torch.minimum(first, second) + larger.clamp(max=0)


def and_to_tops(
    first: Float[Tensor, "*shape"],
    second: Float[Tensor, "*shape"],
    bottom: Float[Tensor, "*shape"],
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Messages of an AND factor to its two top variables.

    The first hears max(0, t_2 + b) - max(0, t_2), the second the same of t_1.

    Parameters
    ----------
    first, second
        Messages of the two top variables to the factor.
    bottom
        Message of the bottom variable; infinite where it is observed.

    Returns
    -------
    to_first
        Message to the first.
    to_second
        Message to the second.
    """
    return _gate(second, bottom), _gate(first, bottom)


def _gate(top: Tensor, bottom: Tensor) -> Tensor:
    # max(0, t + b) - max(0, t) without a difference of large numbers.
    return torch.maximum(bottom + top.clamp(max=0), -top.clamp(min=0))


def or_to_bottom(tops: Float[Tensor, "*shape n_tops"]) -> Float[Tensor, "*shape"]:
    """Message of an OR factor to its child.

    The sum of the positive messages; if there is none, the largest message.

    Parameters
    ----------
    tops
        Messages of the parents to the factor.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.message_passing import or_to_bottom
    >>> or_to_bottom(torch.tensor([[1.0, -2.0], [-1.0, -2.0]]))
    tensor([ 1., -1.])
    """
    return tops.clamp(min=0).sum(dim=-1) + tops.amax(dim=-1).clamp(max=0)


def or_to_tops(
    tops: Float[Tensor, "*shape n_tops"], bottom: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape n_tops"]:
    """Messages of an OR factor to its parents.

    The message to parent i is min(b + sum of max(0, t_j), max(0, -max t_j)), with
    the sum and the maximum over j other than i. This maximum is the largest of all
    messages, except for the parent that sent it, for which it is the second largest.

    Parameters
    ----------
    tops
        Messages of the parents to the factor: finite, or -inf where a parent is off.
        A parent that sends inf, which means that it is on, gets NaN; all parents get
        NaN if the child sends -inf, which contradicts the inf.
    bottom
        Message of the child to the factor; infinite where the child is observed.

    Notes
    -----
    See the chapter :doc:`/book/pmp/deconvolution`.
    """
    positive = tops.clamp(min=0)
    others_on = positive.sum(dim=-1, keepdim=True) - positive
    never = tops.new_full((*tops.shape[:-1], 1), -torch.inf)
    best = torch.cat([tops, never], dim=-1).topk(2, dim=-1)
    is_largest = torch.zeros_like(tops, dtype=torch.bool).scatter_(
        -1, best.indices[..., :1], True
    )
    best_other = torch.where(is_largest, best.values[..., 1:], best.values[..., :1])
    return torch.minimum(bottom[..., None] + others_on, (-best_other).clamp(min=0))
