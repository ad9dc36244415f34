r"""Log partition functions of all noise levels, down the chain from white noise.

The distribution of level T is standard Gaussian, of known :math:`\log Z_T`. From one
level to the next below,

.. math:: \log\frac{Z_t}{Z_{t+1}} = \log E_{x \sim p_{t+1}}\left[
   e^{-E(x, t) + E(x, t + 1)}\right],

a stochastic lower bound if the samples have the distribution of the level (Gao et al.,
2021, Appendix A.6). Weighted particles do not need this (Del Moral, Doucet and Jasra,
2006): each estimates, from M Gaussian proposals :math:`x^m \sim N(a\, x_{t+1},
\sigma^2)`,

.. math:: w = \frac{1}{M} \sum_m e^{-E(x^m, t) + |x^m|^2 / 2} \Big/
   e^{-E(x_{t+1}, t + 1) + |x_{t+1}|^2 / 2},

the mean of w estimates :math:`Z_t / Z_{t+1}`, and the particles of level t are
resampled among all proposals by their weights. The product is unbiased for Z.
"""

import math
from typing import Annotated, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, Range, check_range, check_type, checked
from ebmtut.energies import LevelEnergy, at_level
from ebmtut.importance import (
    Estimate,
    effective_sample_size,
    estimate_log_mean_exp,
    systematic_resampling,
)
from ebmtut.noise import NoiseLevels
from ebmtut.random import check_generator
from ebmtut.tensor_checks import check_finite, check_floats, check_shape

__all__ = [
    "LevelPartition",
    "bits_per_dimension",
    "log_partition_chain",
    "log_partition_particles",
]


class LevelPartition(NamedTuple):
    """What was found, for levels 0, ..., T - 1.

    Attributes
    ----------
    levels
        log Z of each level: a stochastic lower bound, and its standard error.
    effective
        Effective sample size of each ratio, as a fraction.
    """

    levels: list[Estimate]
    effective: list[float]


@checked
def bits_per_dimension(
    energies: Float[Tensor, " n"], n_dims: Count, log_partition: Estimate | None = None
) -> Estimate:
    """Bits per coordinate: mean of minus log2 density, in the units of the states.

    With a lower bound of log Z the value is too low, in the energy's favour.

    Parameters
    ----------
    energies, log_partition
        Of held-out states, up to log Z; None where the energies are normalised.
    """
    check_floats("energies", energies, (None,))
    check_range("len(energies)", len(energies), low=1, integer=True)
    log_z = log_partition or Estimate(0.0, 0.0)
    values = energies.detach().double()
    stderr = float(values.std()) / len(values) ** 0.5 if len(values) > 1 else 0.0
    bits = n_dims * math.log(2)
    return Estimate(
        (float(values.mean()) + log_z.value) / bits,
        math.hypot(stderr, log_z.stderr) / bits,
    )


@torch.no_grad()
@checked
def log_partition_chain(
    energy: LevelEnergy, samples: Float[Tensor, "n_levels batch ..."]
) -> LevelPartition:
    """Estimate log Z of every level from samples of the levels above.

    Parameters
    ----------
    samples
        ``samples[t]`` of level t, T + 1 of them, as `progressive_samples` gives them.
    """
    check_type("samples", samples, Tensor)
    check_range("number of levels", len(samples), low=2, integer=True)
    check_range("samples of a level", samples.shape[1], low=2, integer=True)
    check_finite("samples", samples)
    n_levels = len(samples) - 1
    value = 0.5 * samples[0, 0].numel() * math.log(2 * math.pi)
    variance = 0.0
    levels, effective = [], []
    for t in reversed(range(n_levels)):
        weights = ratio_log_weights(energy, samples, t)
        ratio = estimate_log_mean_exp(weights)
        value, variance = value + ratio.value, variance + ratio.stderr**2
        levels.append(Estimate(value, math.sqrt(variance)))
        effective.append(effective_sample_size(weights))
    return LevelPartition(levels[::-1], effective[::-1])


@torch.no_grad()
def ratio_log_weights(energy: LevelEnergy, samples: Tensor, t: int) -> Tensor:
    """Log weights of the samples of level t + 1, whose mean is Z_t / Z_{t+1}."""
    x = samples[t + 1]
    is_white = t + 2 == len(samples)
    above = 0.5 * (x**2).flatten(1).sum(1) if is_white else at_level(energy, t + 1)(x)
    weights = above - at_level(energy, t)(x)
    check_shape("energy(x)", weights, (len(x),))
    return weights


@torch.no_grad()
@checked
def log_partition_particles(
    energy: LevelEnergy,
    noise: NoiseLevels,
    n_dims: Count,
    *,
    generator: torch.Generator,
    n_particles: Annotated[int, Range(low=2)] = 2000,
    n_starts: Count = 16,
    n_runs: Annotated[int, Range(low=2)] = 20,
) -> LevelPartition:
    """Estimate log Z of every level by weighted particles, unbiased for Z.

    Parameters
    ----------
    n_particles, n_starts, n_runs
        Of a run; of a particle; independent runs, whose spread is the error.
    """
    check_generator(generator)
    sizes = (n_particles, n_starts, n_dims)
    runs = [_descend_weighted(energy, noise, sizes, generator) for _ in range(n_runs)]
    values = torch.stack([values for values, _ in runs], dim=1)
    effective = torch.stack([shares for _, shares in runs], dim=1).mean(1)
    levels = [estimate_log_mean_exp(row) for row in values]
    return LevelPartition(levels, effective.tolist())


def _descend_weighted(
    energy: LevelEnergy,
    noise: NoiseLevels,
    sizes: tuple[int, int, int],
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Return log Z of each level by one run, and effective shares of particles."""
    n_particles, n_starts, n_dims = sizes
    of: Any = {"generator": generator, "device": generator.device}
    x = torch.randn(n_particles, n_dims, dtype=torch.float32, **of)
    # Of the level above, log of e^{-E(x)} / N(x; 0, 1); white noise is that normal.
    above = torch.zeros(n_particles, dtype=torch.float32, device="cpu")
    value, values, effective = 0.0, [], []
    for t in reversed(range(noise.n_levels)):
        step = torch.randn(n_starts, *x.shape, dtype=torch.float32, **of)
        starts = noise.shrinkages[t] * x + noise.sigmas[t] * step
        flat = starts.flatten(0, 1)
        energies = at_level(energy, t)(flat)
        check_shape("energy(x)", energies, (len(flat),))
        excess = (0.5 * (flat**2).sum(1) - energies).reshape(n_starts, -1)
        excess = excess + 0.5 * n_dims * math.log(2 * math.pi)
        weights = excess.logsumexp(0) - math.log(n_starts) - above
        value += estimate_log_mean_exp(weights).value
        values.append(value)
        effective.append(effective_sample_size(weights))
        # Particle and start at once: (start, particle) by excess - above.
        joint = (excess - above).flatten().double()
        fractions = (joint - joint.logsumexp(0)).exp()
        shift = torch.rand((), dtype=torch.float64, **of)
        kept = systematic_resampling(fractions, n_particles, shift)
        x, above = flat[kept], excess.flatten()[kept]
    both = torch.tensor([values, effective], dtype=torch.float32, device="cpu").flip(1)
    return both[0], both[1]
