"""The running average of weights that a training leaves behind."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["average_weights"]


@torch.no_grad()
def average_weights(
    averaged: Sequence[Float[Tensor, "..."]],
    weights: Sequence[Float[Tensor, "..."]],
    step: int,
    decay: float,
) -> None:
    """Move a running average towards the weights as they are after a step.

    It keeps (step + 1) / (step + 10) of itself until that exceeds `decay`.

    Parameters
    ----------
    decay
        Share that is kept in the end, in [0, 1).
    """
    kept = min(decay, (step + 1) / (step + 10))
    torch._foreach_lerp_(list(averaged), list(weights), 1 - kept)
