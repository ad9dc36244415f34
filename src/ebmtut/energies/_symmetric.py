"""Couplings of pairs, from any square matrix that is learned."""

import torch
from jaxtyping import Float
from torch import Tensor


def symmetric_part(
    raw: Float[Tensor, "*shape n_sites n_sites"],
) -> Float[Tensor, "*shape n_sites n_sites"]:
    """Return (A + A') / 2 with a zero diagonal of a raw A."""
    half = raw / 2
    return (half + half.mT) * (
        1 - torch.eye(raw.shape[-1], dtype=torch.float32, device="cpu").to(half)
    )
