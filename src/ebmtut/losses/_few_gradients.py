"""The gradient of energy discrepancy through a few of the negatives.

Most responsibilities r_j = exp(U(x) - U(x'_j)) / (w + sum_k exp(U(x) - U(x'_k))) are
nearly zero; negatives sampled in proportion to them give an unbiased gradient.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ebmtut.energies import EnergyFunction
from ebmtut.losses._moved_negatives import energy_differences
from ebmtut.losses.log_mean_exp import stabilized_log_mean_exp
from ebmtut.losses.perturbations import Negatives


def loss_through_few(
    energy: EnergyFunction,
    x: Float[Tensor, "batch n_sites"],
    negatives: Negatives,
    ratio: float,
    n_backward: int,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Return the loss, with a gradient through ``n_backward`` negatives."""
    with torch.no_grad():
        difference, moved = energy_differences(energy, x, negatives)
        values, total, drawn = resampled(
            difference, moved, ratio, n_backward, generator
        )
        rows = torch.arange(len(x), device=x.device)[:, None]
        chosen = negatives.x[rows, drawn]
    chosen_difference, _ = energy_differences(energy, x, Negatives(chosen))
    surrogate = (total * chosen_difference).mean(1).mean()
    # The bracket is zero: it brings the gradient and leaves the value alone.
    return values.mean() + (surrogate - surrogate.detach())


def resampled(
    difference: Float[Tensor, "*shape batch n_negatives"],
    moved: Bool[Tensor, "batch n_negatives"],
    ratio: float,
    n_backward: int,
    generator: torch.Generator,
) -> tuple[
    Float[Tensor, "*shape batch"],
    Float[Tensor, "*shape batch 1"],
    Int[Tensor, "*shape batch n_draws"],
]:
    """Resample negatives in proportion to their responsibilities, systematically.

    Returns the losses, the sums of the responsibilities, and the indices. All models
    use the same random numbers.
    """
    values = stabilized_log_mean_exp(difference, ratio)
    responsibility = (difference - values[..., None]).exp() / difference.shape[-1]
    responsibility *= moved  # the others have no gradient
    cumulative = responsibility.cumsum(-1)
    total = cumulative[..., -1:]
    u = torch.rand(
        total.shape[-2:], generator=generator, device=total.device, dtype=total.dtype
    )
    steps = torch.arange(n_backward, device=total.device, dtype=total.dtype)
    points = (steps + u) / n_backward * total
    drawn = torch.searchsorted(cumulative, points, right=True)
    return values, total, drawn.clamp_(max=difference.shape[-1] - 1)
