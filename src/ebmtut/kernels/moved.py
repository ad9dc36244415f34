"""Which negatives differ from their data point, compiled for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import compiled


def has_moved(
    x: Float[Tensor, "batch n_sites"], other: Float[Tensor, "batch n_others n_sites"]
) -> Bool[Tensor, "batch n_others"]:
    """Return which states differ from the data point of their row."""
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return (other != x[:, None]).any(-1)
    moved = _differ(x.detach().contiguous().numpy(), other.contiguous().numpy())
    return torch.from_numpy(moved)


@compiled
def _differ(x: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Compare rows up to the first site that differs: most differ soon."""
    batch, n_others, n_sites = other.shape
    found = np.zeros((batch, n_others), dtype=np.bool_)
    for b in range(batch):
        for k in range(n_others):
            for i in range(n_sites):
                if x[b, i] != other[b, k, i]:
                    found[b, k] = True
                    break
    return found
