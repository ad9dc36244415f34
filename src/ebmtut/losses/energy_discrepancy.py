"""The energy discrepancy loss.

Source: Schröder, Ou, Li and Duncan (2023), "Training Discrete Energy-Based
Models with Energy Discrepancy", Definition 1 and Eq. 2.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, NonNegative, checked
from ebmtut.energies import EnergyFunction
from ebmtut.losses._few_gradients import loss_through_few
from ebmtut.losses._moved_negatives import energy_differences
from ebmtut.losses.log_mean_exp import stabilized_log_mean_exp
from ebmtut.losses.perturbations import Perturbation
from ebmtut.tensor_checks import check_bits

__all__ = ["energy_discrepancy_loss"]


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

        log( w + sum_j omega_j exp(U(x) - U(x'_j)) ) - log M,

    with the weights omega_j of `Negatives`, which are 1 except for
    `DirectedNeighborhood`.

    Parameters
    ----------
    x, perturbation
        Data, bits, and where the negative samples x'_j come from.
    n_negatives
        M, negative samples per data point; `Grid` may return another number, and keeps
        w / M.
    stabilizer
        w >= 0 bounds the loss below by log(w / M); the plain estimator, w = 0, can
        diverge.
    n_backward
        Differentiate through only this many negatives, sampled in proportion to their
        responsibilities: the gradient is unbiased and costs less.

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
        return loss_through_few(energy, x, negatives, ratio, n_backward, generator)
    difference, _ = energy_differences(energy, x, negatives)
    return stabilized_log_mean_exp(difference, ratio).mean()
