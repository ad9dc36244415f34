"""Annealed importance sampling, and sequential Monte Carlo along the same path."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, DivergenceError, Probability, checked
from ebmtut.importance import (
    effective_sample_size,
    estimate_log_mean_exp,
    systematic_resampling,
)
from ebmtut.paths import AnnealingPath, BasePath

__all__ = ["AnnealedSamples", "annealed_importance_sampling"]


class AnnealedSamples(NamedTuple):
    """What :func:`annealed_importance_sampling` returns.

    Attributes
    ----------
    x
        Last states, ``(n, n_sites)``.
    log_weights
        Their log-weights, of mean weight Z_1 / Z_0, ``(n,)``.
    n_resampled
        How often states were resampled by their weights.
    """

    x: Tensor
    log_weights: Tensor
    n_resampled: int


@torch.no_grad()
@checked
def annealed_importance_sampling(
    path: AnnealingPath | BasePath,
    kernel: Callable[..., Tensor],
    n: Count,
    n_steps: Count,
    *,
    generator: torch.Generator,
    resample_below: Probability = 0.0,
    start: Float[Tensor, "n n_sites"] | None = None,
) -> AnnealedSamples:
    """Walk a path by Markov kernels and weigh what they lag behind (Neal 2001).

    Parameters
    ----------
    path
        From the uniform distribution, or a base, to the target.
    kernel
        ``kernel(x, t, generator=generator)`` leaves p_t as it is.
    n, n_steps
        Chains; times after the start, with one call of the kernel at each.
    resample_below
        Fraction of effective samples below which states are resampled (SMC); 0: never.
    start
        States at t = 0 instead of samples of p_0.

    Raises
    ------
    DivergenceError
        If energies, and weights with them, are NaN.

    Examples
    --------
    >>> from ebmtut.energies import LatticeIsing, lattice_coloring
    >>> from ebmtut.flows import gibbs_kernel
    >>> from ebmtut.paths import AnnealingPath
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import annealed_importance_sampling
    >>> path = AnnealingPath(LatticeIsing(4, 0.2))
    >>> kernel = gibbs_kernel(path, lattice_coloring(4))
    >>> g = make_generator(0)
    >>> annealed_importance_sampling(path, kernel, 5, 20, generator=g).log_weights.shape
    torch.Size([5])
    """
    x = path.sample_start(n, generator=generator) if start is None else start
    log_weights = torch.zeros(n, dtype=torch.float64, device=x.device)
    n_resampled = 0
    for k in range(1, n_steps + 1):
        log_weights += path.time_derivative(x).double() / n_steps
        if n_nan := int(log_weights.isnan().sum()):
            raise DivergenceError(
                f"{n_nan} of {n} weights are NaN, because energies are", k
            )
        if resample_below and effective_sample_size(log_weights) < resample_below:
            shift = torch.rand(
                (), generator=generator, device=x.device, dtype=torch.float32
            )
            x = x[systematic_resampling(log_weights.softmax(0), n, shift)]
            log_weights.fill_(estimate_log_mean_exp(log_weights).value)
            n_resampled += 1
        x = kernel(x, k / n_steps, generator=generator)
    return AnnealedSamples(x, log_weights, n_resampled)
