"""The energy discrepancy loss.

Source: Schröder, Ou, Li and Duncan (2023), "Training Discrete Energy-Based
Models with Energy Discrepancy", Definition 1 and Eq. 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import compiled
from ebmtut.checks import Count, NonNegative, checked
from ebmtut.energies import EnergyFunction, energies_of
from ebmtut.losses.perturbations import Negatives, Perturbation
from ebmtut.tensor_checks import check_bits

__all__ = ["energy_discrepancy_loss", "stabilized_log_mean_exp"]


@checked
def stabilized_log_mean_exp(
    difference: Float[Tensor, "*shape n_negatives"], ratio: NonNegative
) -> Float[Tensor, "*shape"]:
    """Return log(ratio + mean(exp(difference))) over the last dimension.

    Parameters
    ----------
    difference
        U(x) - U(x') (+ log-weights).
    ratio
        w / M, the stabiliser over the number of negatives; 0 for none.

    Raises
    ------
    InputError
        If ``ratio`` is negative or not finite.
    """
    log_sum = difference.logsumexp(-1) - math.log(difference.shape[-1])
    if ratio == 0:
        return log_sum
    return torch.logaddexp(log_sum, log_sum.new_full((), math.log(ratio)))


@checked
def energy_discrepancy_loss(
    energy: EnergyFunction,
    x: Float[Tensor, "batch n_sites"],
    perturbation: Perturbation,
    *,
    n_negatives: int = 32,
    stabilizer: NonNegative = 1.0,
    n_backward: Count | None = None,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Stabilised energy discrepancy of a batch, Eq. 2.

    The mean over the batch of

        log( w + sum_j exp(U(x) - U(x'_j)) ) - log M.

    Parameters
    ----------
    energy
        Any energy.
    x
        Data, bits.
    perturbation
        Where the negative samples x'_j come from.
    n_negatives
        M, negative samples a data point. A perturbation that sums exactly
        (`Grid`) may return another number; the ratio w / M is then kept.
    stabilizer
        w >= 0. It bounds the loss below by log(w / M); w = 0 is the plain
        estimator, which can diverge.
    n_backward
        Differentiate through only this many of the negatives, drawn in
        proportion to their part in the gradient. The loss is the same, its
        gradient unbiased, and its cost falls: most negatives are so
        unlikely that they hardly pull. None (default): through all.
    generator
        Source of randomness.


    Raises
    ------
    InputError
        If ``x`` is not made of bits or empty, a number lies out of its range,
        there is no generator, or the energies have another shape.

    Notes
    -----
    The gradient is the mean over the batch of
    ``sum_j r_j (grad U(x) - grad U(x'_j))`` with the responsibilities
    ``r_j = exp(U(x) - U(x'_j)) / (w + sum_k exp(U(x) - U(x'_k)))``.

    See the chapter :doc:`/book/ed/index`.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import MLPEnergy
    >>> from ebmtut.losses import Bernoulli, energy_discrepancy_loss
    >>> from ebmtut.random import make_generator
    >>> energy = MLPEnergy(8, generator=make_generator(0))
    >>> loss = energy_discrepancy_loss(
    ...     energy, torch.ones(5, 8), Bernoulli(0.1), generator=make_generator(1)
    ... )
    >>> loss.shape
    torch.Size([])
    """
    check_bits("x", x, least=1)

    negatives = perturbation.negatives(x, n_negatives, generator=generator)
    ratio = stabilizer / n_negatives
    if n_backward is not None and n_backward < negatives.x.shape[1]:
        return _subsampled(energy, x, negatives, ratio, n_backward, generator)
    difference, _ = _differences(energy, x, negatives)
    return stabilized_log_mean_exp(difference, ratio).mean()


def _differences(
    energy: EnergyFunction, x: Float[Tensor, "batch n_sites"], negatives: Negatives
) -> tuple[Float[Tensor, "batch n_negatives"], Bool[Tensor, "batch n_negatives"]]:
    """U(x) - U(x'_j) + log weight by one evaluation.

    A negative that is x itself costs a processor nothing: its difference is zero.
    With rare flips nearly all of them are. Which are not is returned, too. Where few
    are x itself, all are evaluated, as on a GPU: a GPU would wait for their number,
    and a processor compiles its products for each size of a batch.
    """
    batch = len(x)
    moved = has_moved(x, negatives.x)
    spared = x.device.type == "cpu" and float(moved.float().mean()) < _NEARLY_ALL
    asked = negatives.x[moved] if spared else negatives.x.flatten(0, 1)
    u = energies_of(energy, torch.cat([x, asked]))
    if u.dtype in (torch.bfloat16, torch.float16):
        u = u.float()  # shares of the gradient need more than eight bits
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


# Evaluating a twentieth in vain costs less than picking the others out.
_NEARLY_ALL = 0.95


def has_moved(
    x: Float[Tensor, "batch n_sites"], other: Float[Tensor, "batch n_others n_sites"]
) -> Bool[Tensor, "batch n_others"]:
    """Which states are another one than the data point of their row."""
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


def _subsampled(
    energy: EnergyFunction,
    x: Float[Tensor, "batch n_sites"],
    negatives: Negatives,
    ratio: float,
    n_backward: int,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Return the loss with a gradient through ``n_backward`` negatives."""
    with torch.no_grad():
        difference, moved = _differences(energy, x, negatives)
        values, total, drawn = resampled(
            difference, moved, ratio, n_backward, generator
        )
        rows = torch.arange(len(x), device=x.device)[:, None]
        chosen = negatives.x[rows, drawn]
    chosen_difference, _ = _differences(energy, x, Negatives(chosen))
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
    """Draw negatives in proportion to their shares of the gradient.

    Returns the losses, the shares' sum, and which negatives were drawn. Models share
    what is random. Systematic resampling: one uniform a row, evenly spaced points, so
    that each is drawn (n_backward * share / sum) times on average.
    """
    values = stabilized_log_mean_exp(difference, ratio)
    share = (difference - values[..., None]).exp() / difference.shape[-1]
    share *= moved  # the others have no gradient
    cumulative = share.cumsum(-1)
    total = cumulative[..., -1:]
    u = torch.rand(
        total.shape[-2:], generator=generator, device=total.device, dtype=total.dtype
    )
    steps = torch.arange(n_backward, device=total.device, dtype=total.dtype)
    points = (steps + u) / n_backward * total
    drawn = torch.searchsorted(cumulative, points, right=True)
    return values, total, drawn.clamp_(max=difference.shape[-1] - 1)
