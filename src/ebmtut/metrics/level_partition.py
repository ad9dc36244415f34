r"""Log partition functions of all noise levels, down the chain from white noise.

The law of level T is standard Gaussian, of known :math:`\log Z_T`. From one level
to the next below,

.. math:: \log\frac{Z_t}{Z_{t+1}} = \log E_{x \sim p_{t+1}}\left[
   e^{-E(x, t) + E(x, t + 1)}\right],

is estimated from samples of the level above. The estimate of a ratio is unbiased,
so that of its logarithm is a stochastic lower bound, which grows to the truth with
the number of samples (Gao et al., 2021, Appendix A.6; Grosse et al., 2016) as far
as the samples are those of the level's own law.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import check_range
from ebmtut.energies import LevelEnergy, at_level
from ebmtut.metrics.nll import (
    Estimate,
    effective_sample_size,
    estimate_log_mean_exp,
)
from ebmtut.tensor_checks import check_finite, check_shape

__all__ = ["LevelPartition", "log_partition_chain"]


class LevelPartition(NamedTuple):
    """What `log_partition_chain` found, for levels 0, ..., T - 1.

    Attributes
    ----------
    levels
        log Z of each level: a stochastic lower bound, and its standard error as
        far as the samples of the levels are independent.
    effective
        Effective sample size of each ratio, as a fraction.
    """

    levels: list[Estimate]
    effective: list[float]


@torch.no_grad()
def log_partition_chain(
    energy: LevelEnergy, samples: Float[Tensor, "n_levels batch ..."]
) -> LevelPartition:
    """Estimate log Z of every level from samples of the levels above.

    Parameters
    ----------
    energy
        Of levels 0 to T - 1.
    samples
        ``samples[t]`` of level t, T + 1 of them, as `progressive_samples` gives
        them; the last are white noise, the first are not used.

    Raises
    ------
    InputError
        If there are fewer than two levels or samples, or they are not finite.
    """
    check_range("number of levels", len(samples), low=2, integer=True)
    check_range("samples of a level", samples.shape[1], low=2, integer=True)
    check_finite("samples", samples)
    n_levels = len(samples) - 1
    value = 0.5 * samples[0, 0].numel() * math.log(2 * math.pi)
    variance = 0.0
    levels, effective = [], []
    for t in reversed(range(n_levels)):
        x = samples[t + 1]
        above = (
            0.5 * (x**2).flatten(1).sum(1)
            if t + 1 == n_levels
            else at_level(energy, t + 1)(x)
        )
        weights = above - at_level(energy, t)(x)
        check_shape("energy(x)", weights, (len(x),))
        ratio = estimate_log_mean_exp(weights)
        value, variance = value + ratio.value, variance + ratio.stderr**2
        levels.append(Estimate(value, math.sqrt(variance)))
        effective.append(effective_sample_size(weights))
    return LevelPartition(levels[::-1], effective[::-1])
