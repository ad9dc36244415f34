"""Annealed importance sampling, and sequential Monte Carlo along the same path."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from ebmtut.checks import Count, DivergenceError, Probability, checked
from ebmtut.energies import BoltzmannMachine, Ising, LatticeIsing
from ebmtut.importance import (
    effective_sample_size,
    estimate_log_mean_exp,
    systematic_resampling,
)
from ebmtut.kernels.dense_gibbs import DenseChains
from ebmtut.kernels.lattice_gibbs import LatticeChains
from ebmtut.paths import AnnealingPath, BasePath
from ebmtut.random import spawn_seed
from ebmtut.samplers.boltzmann import ising_of
from ebmtut.tensor_checks import check_weights

__all__ = ["AnnealedSamples", "annealed_importance_sampling", "boltzmann_annealing"]


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
    chains = _PathChains(path, kernel, x, generator)
    weights = _anneal(chains, x, n_steps, resample_below, generator)
    return AnnealedSamples(chains.x, *weights)


@torch.no_grad()
@checked
def boltzmann_annealing(
    model: BoltzmannMachine | Ising | LatticeIsing,
    n: Count,
    n_steps: Count,
    *,
    generator: torch.Generator,
    resample_below: Probability = 0.0,
) -> AnnealedSamples:
    """Anneal a model from uniform bits, by compiled Gibbs sweeps on the CPU.

    As `annealed_importance_sampling` with a sweep at each of n_steps temperatures, but
    chains stay in the kernel's own form between sweeps.

    Parameters
    ----------
    model
        Energy at t = 1.
    n, n_steps, resample_below
        As in `annealed_importance_sampling`.

    Examples
    --------
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import boltzmann_annealing
    >>> model, g = LatticeIsing(4, 0.2), make_generator(0)
    >>> boltzmann_annealing(model, 5, 20, generator=g, resample_below=0.5).x.shape
    torch.Size([5, 16])
    """
    check_weights(model)
    x = AnnealingPath(model).sample_start(n, generator=generator)
    swept = ising_of(model) if isinstance(model, BoltzmannMachine) else model
    start, seed = x.cpu(), spawn_seed(generator)
    chains: LatticeChains | DenseChains
    if isinstance(swept, LatticeIsing):
        chains = LatticeChains(swept, start, seed)
    else:
        chains = DenseChains(swept, start, seed)
    weights, n_resampled = _anneal(chains, start, n_steps, resample_below, generator)
    # The energies of a Boltzmann machine and of its Ising model differ by a constant.
    weights -= (model(x[:1]) - swept(x[:1])).double().cpu()
    found = chains.states(x.dtype)
    return AnnealedSamples(found.to(x.device), weights.to(x.device), n_resampled)


class _PathChains:
    """Chains of any path, moved by any kernel, in the form of compiled ones."""

    def __init__(
        self,
        path: AnnealingPath | BasePath,
        kernel: Callable[..., Tensor],
        x: Float[Tensor, "n n_sites"],
        generator: torch.Generator,
    ) -> None:
        self.path, self.kernel, self.x, self.generator = path, kernel, x, generator

    def energies(self) -> Float[Tensor, " n"]:
        return -self.path.time_derivative(self.x)

    def choose(self, rows: Int64[Tensor, " n"]) -> None:
        self.x = self.x[rows]

    def sweep(self, n_sweeps: int, strength: float) -> None:
        self.x = self.kernel(self.x, strength, generator=self.generator)


def _anneal(
    chains: _PathChains | DenseChains | LatticeChains,
    start: Float[Tensor, "n n_sites"],
    n_steps: int,
    resample_below: float,
    generator: torch.Generator,
) -> tuple[Float64[Tensor, " n"], int]:
    """Log-weights after n_steps moves, and how often chains were resampled."""
    n, device = len(start), start.device
    log_weights = torch.zeros(n, dtype=torch.float64, device=device)
    n_resampled = 0
    for k in range(1, n_steps + 1):
        log_weights -= chains.energies().double() / n_steps
        if n_nan := int(log_weights.isnan().sum()):
            raise DivergenceError(
                f"{n_nan} of {n} weights are NaN, because energies are", k
            )
        if resample_below and effective_sample_size(log_weights) < resample_below:
            shift = torch.rand(
                (), generator=generator, device=generator.device, dtype=torch.float32
            )
            fractions = log_weights.softmax(0)
            chains.choose(systematic_resampling(fractions, n, shift.to(device)))
            log_weights.fill_(estimate_log_mean_exp(log_weights).value)
            n_resampled += 1
        chains.sweep(1, k / n_steps)
    return log_weights, n_resampled
