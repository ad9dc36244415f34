"""Pseudo-likelihood: each site, given all others.

Source: Besag (1975), "Statistical Analysis of Non-Lattice Data".
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from ebmtut.checks import checked
from ebmtut.energies import EnergyFunction
from ebmtut.neighbors import neighbor_log_ratios
from ebmtut.tensor_checks import check_bits

__all__ = ["pseudo_likelihood_loss"]


@checked
def pseudo_likelihood_loss(
    energy: EnergyFunction, x: Float[Tensor, "batch n_sites"]
) -> Float[Tensor, ""]:
    """Mean over the data of -sum_i log p(x_i | all other sites), in nats.

    -log p(x_i | rest) = log(1 + p(x with bit i flipped) / p(x)) needs no normaliser.
    The minimiser over all energies is the data's distribution, if it is positive.

    Parameters
    ----------
    energy
        One with a closed form of its ratios costs a matrix product, another n_sites + 1
        evaluations.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import pseudo_likelihood_loss
    >>> pseudo_likelihood_loss(lambda x: 0 * x.sum(dim=1), torch.ones(5, 3))  # 3 log 2
    tensor(2.0794)
    """
    check_bits("x", x, least=1)
    return functional.softplus(neighbor_log_ratios(energy, x)).sum(dim=1).mean()
