"""How a law over all states of a few bits is held against the data's."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.experiments.dnfs.planes import distance
from ebmtut.states import enumerate_states


def entropy(law: Float[Tensor, " n_all"]) -> float:
    """Entropy of a law, in nats."""
    held = law[law > 0]
    return -float((held * held.log()).sum())


def independent_bits(law: Float[Tensor, " n_all"]) -> Float[Tensor, " n_all"]:
    """The law of independent bits with the same means: what no coupling gives."""
    x = enumerate_states(len(law).bit_length() - 1).double()
    mean = law @ x
    return (x * mean + (1 - x) * (1 - mean)).prod(1)


def judged(
    law: Float[Tensor, " n_all"], data: Float[Tensor, " n_all"]
) -> dict[str, float]:
    """Hold a law against the data's: nats, misplaced mass, and MMD, all exact."""
    x = enumerate_states(len(law).bit_length() - 1).double()
    kernel = (-0.1 * torch.cdist(x, x, p=1)).exp()
    off = law.double() - data
    held = data > 0
    kl = (data[held] * (data[held] / law.double()[held]).log()).sum()
    return {
        "KL": float(kl),
        "TV": float(distance(law.double(), data)),
        "MMD": 1e4 * float(off @ kernel @ off),
    }
