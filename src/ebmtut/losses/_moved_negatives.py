"""Energy differences that are evaluated only where a negative is not the data point."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ebmtut.energies import EnergyFunction, energies_of
from ebmtut.kernels.moved import has_moved
from ebmtut.losses.perturbations import Negatives

# Evaluating a twentieth in vain costs less than picking the others out.
_NEARLY_ALL = 0.95


def energy_differences(
    energy: EnergyFunction, x: Float[Tensor, "batch n_sites"], negatives: Negatives
) -> tuple[Float[Tensor, "batch n_negatives"], Bool[Tensor, "batch n_negatives"]]:
    """Return U(x) - U(x'_j) + log weight, and which negatives differ from x.

    One call evaluates the energies. On a processor the negatives that equal the data
    point, whose difference is zero, are left out where there are many of them.
    """
    batch = len(x)
    moved = has_moved(x, negatives.x)
    spared = x.device.type == "cpu" and float(moved.float().mean()) < _NEARLY_ALL
    asked = negatives.x[moved] if spared else negatives.x.flatten(0, 1)
    u = energies_of(energy, torch.cat([x, asked]))
    if u.dtype in (torch.bfloat16, torch.float16):
        u = u.float()  # softmax weights need more than eight bits
    u_data = u[:batch, None].expand(moved.shape)
    if spared:
        apart = u_data[moved] - u[batch:]
        difference = u.new_zeros(moved.shape).masked_scatter(moved, apart)
    else:
        apart = u_data - u[batch:].view(moved.shape)
        difference = torch.where(moved, apart, 0)
    if negatives.log_weight is not None:
        difference = difference + negatives.log_weight
    return difference, moved
