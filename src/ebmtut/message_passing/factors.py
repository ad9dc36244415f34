"""Max-product messages of logical factors: AND of two variables, OR of many.

A message about a bit is one number, the log-odds n = log m(1) - log m(0). The
top variables of a factor are its inputs, the bottom variable is their AND or
their OR, and every message from the factor leaves out what came from the
variable it goes to (Lazaro-Gredilla, Dedieu and George, 2021, Appendix C.3).
The cost is linear in the number of variables, though the factor's table has an
entry for every configuration of them.
"""

import torch
from torch import Tensor

__all__ = ["and_to_bottom", "and_to_tops", "or_to_bottom", "or_to_tops"]


def and_to_bottom(first: Tensor, second: Tensor) -> Tensor:
    """Message of an AND factor to its bottom variable.

    min(t_1 + t_2, t_1, t_2), written so that nothing cancels.

    Parameters
    ----------
    first, second : Tensor
        Messages of the two top variables to the factor, of one shape.

    Returns
    -------
    Tensor
        Same shape.
    """
    larger = torch.maximum(first, second)
    return torch.minimum(first, second) + larger.clamp(max=0)


def and_to_tops(first: Tensor, second: Tensor, bottom: Tensor) -> tuple[Tensor, Tensor]:
    """Messages of an AND factor to its two top variables.

    The first hears max(0, t_2 + b) - max(0, t_2), the second the same of t_1.

    Parameters
    ----------
    first, second : Tensor
        Messages of the two top variables to the factor.
    bottom : Tensor
        Message of the bottom variable; infinite where it is observed.

    Returns
    -------
    tuple of Tensor
        Message to the first and to the second, of the same shape.
    """
    return _gate(second, bottom), _gate(first, bottom)


def _gate(top: Tensor, bottom: Tensor) -> Tensor:
    # max(0, t + b) - max(0, t) without a difference of large numbers.
    return torch.maximum(bottom + top.clamp(max=0), -top.clamp(min=0))


def or_to_bottom(tops: Tensor) -> Tensor:
    """Message of an OR factor to its bottom variable.

    The sum of the positive messages; if there is none, the largest message.

    Parameters
    ----------
    tops : Tensor
        Messages of the top variables to the factor, ``(..., n_tops)``.

    Returns
    -------
    Tensor
        Shape ``(...)``.
    """
    return tops.clamp(min=0).sum(dim=-1) + tops.amax(dim=-1).clamp(max=0)


def or_to_tops(tops: Tensor, bottom: Tensor) -> Tensor:
    """Messages of an OR factor to its top variables.

    Top variable i hears min(b + sum of max(0, t_j), max(0, -max t_j)), both
    over j other than i. The largest of the others is the largest of all,
    except for the largest itself, which hears the second.

    Parameters
    ----------
    tops : Tensor
        Messages of the top variables to the factor, ``(..., n_tops)``: finite,
        or -inf where a variable is off. The sender of inf, surely on, hears
        NaN, and with a bottom of -inf, which contradicts it, all variables do.
    bottom : Tensor
        Message of the bottom variable, ``(...)``; infinite where it is
        observed.

    Returns
    -------
    Tensor
        Shape ``(..., n_tops)``.

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
