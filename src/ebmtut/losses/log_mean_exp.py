"""A stabilised logarithm of a mean of exponentials.

Source: Schröder, Ou, Li and Duncan (2023), Eq. 2.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import NonNegative, checked

__all__ = ["stabilized_log_mean_exp"]


@checked
def stabilized_log_mean_exp(
    difference: Float[Tensor, "*shape n_negatives"], ratio: NonNegative
) -> Float[Tensor, "*shape"]:
    """Return log(ratio + mean(exp(difference))) over the last dimension.

    Parameters
    ----------
    difference, ratio
        U(x) - U(x') (+ log-weights); w / M, 0 for no stabiliser.
    """
    log_sum = difference.logsumexp(-1) - math.log(difference.shape[-1])
    if ratio == 0:
        return log_sum
    return torch.logaddexp(log_sum, log_sum.new_full((), math.log(ratio)))
