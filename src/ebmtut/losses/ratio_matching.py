"""Ratio matching: the ratios of neighbours, as near to the data's as they get.

Source: Hyvärinen (2007), "Some extensions of score matching".
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import checked
from ebmtut.energies import EnergyFunction
from ebmtut.neighbors import neighbor_log_ratios
from ebmtut.tensor_checks import check_bits

__all__ = ["ratio_matching_loss"]


@checked
def ratio_matching_loss(
    energy: EnergyFunction, x: Float[Tensor, "batch n_sites"]
) -> Float[Tensor, ""]:
    """Mean over the data of the sum over bits i of p(not x_i | all other bits)^2.

    Where pseudo-likelihood takes the logarithm, an outcome that the model holds
    impossible costs 1 and not infinity. It needs no normaliser; the minimiser over all
    energies is the data's distribution, if it is positive.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import ratio_matching_loss
    >>> ratio_matching_loss(lambda x: 0 * x.sum(dim=1), torch.ones(5, 3))  # 3 / 4
    tensor(0.7500)
    """
    check_bits("x", x, least=1)
    return neighbor_log_ratios(energy, x).sigmoid().square().sum(dim=1).mean()
