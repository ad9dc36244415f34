"""Log partition functions by annealing: the second opinion on importance sampling."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, Range, check_type, checked
from ebmtut.energies import EnergyFunction, dtype_of_states
from ebmtut.exact import exact_log_partition
from ebmtut.metrics.nll import (
    Estimate,
    effective_sample_size,
    estimate_log_mean_exp,
    log_weights,
)
from ebmtut.metrics.proposals import Proposal
from ebmtut.paths import AnnealingPath
from ebmtut.samplers import annealed_importance_sampling, gibbs, run_chain
from ebmtut.tensor_checks import check_floating

__all__ = ["LogPartitions", "log_partition_annealed", "log_partitions"]

_FEW_SITES = 20  # a million states: seconds


@checked
def log_partition_annealed(
    energy: EnergyFunction,
    n_chains: Annotated[int, Range(low=2)],
    n_steps: Count,
    *,
    n_sites: int | None = None,
    generator: torch.Generator,
    dtype: torch.dtype | None = None,
) -> Estimate:
    """Log partition function by annealed importance sampling from uniform bits.

    A chain makes one sweep of Gibbs sampling at each of `n_steps` times along p_t
    proportional to exp(-tE) (Neal, 2001). The estimate of Z is unbiased, so that of log
    Z is too low on average.

    Parameters
    ----------
    n_chains, n_steps
        Independent chains, at least 2, which give the error; times after t = 0.

    Examples
    --------
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.exact import lattice_log_partition
    >>> from ebmtut.metrics import log_partition_annealed
    >>> from ebmtut.random import make_generator
    >>> estimate = log_partition_annealed(
    ...     LatticeIsing(4, 0.2), 200, 50, generator=make_generator(0)
    ... )
    >>> abs(estimate.value - lattice_log_partition(4, 0.2)) < 5 * estimate.stderr
    True
    """
    check_type("generator", generator, torch.Generator)
    dtype = dtype_of_states(energy) if dtype is None else dtype
    check_floating("dtype", dtype)
    path = AnnealingPath(energy, n_sites)

    def sweep(
        x: Float[Tensor, "batch n_sites"], t: float, *, generator: torch.Generator
    ) -> Float[Tensor, "batch n_sites"]:
        chain = gibbs(path.at(t), "systematic")
        return run_chain(chain, x, path.n_sites, generator=generator).x_final

    start = path.sample_start(n_chains, generator=generator, dtype=dtype)
    walked = annealed_importance_sampling(
        path, sweep, n_chains, n_steps, start=start, generator=generator
    )
    ratio = estimate_log_mean_exp(walked.log_weights)
    return Estimate(ratio.value + path.n_sites * math.log(2), ratio.stderr)


class LogPartitions(NamedTuple):
    """What :func:`log_partitions` returns.

    Attributes
    ----------
    importance
        By importance sampling.
    annealed
        By annealing.
    share
        Effective sample size of the importance sampling, as a fraction.
    exact
        By enumeration, or None where there are more than 20 sites.
    """

    importance: Estimate
    share: float
    annealed: Estimate
    exact: float | None

    @property
    def best(self) -> Estimate:
        """The exact one, else the annealed."""
        return self.annealed if self.exact is None else Estimate(self.exact, 0.0)


@torch.no_grad()
@checked
def log_partitions(
    energy: EnergyFunction,
    proposal: Proposal,
    *,
    n_draws: int = 50_000,
    n_chains: int = 400,
    n_steps: int = 100,
    generator: torch.Generator,
) -> LogPartitions:
    """Log partition function by two estimates that fail differently.

    Parameters
    ----------
    energy
        Any energy of bits.
    proposal
        Where importance sampling samples, such as independent bits with the data's
        means.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.metrics import BernoulliProposal, log_partitions
    >>> from ebmtut.random import make_generator
    >>> found = log_partitions(
    ...     lambda x: -x.sum(dim=1),
    ...     BernoulliProposal(torch.full((4,), 0.7)),
    ...     n_draws=1000,
    ...     n_chains=50,
    ...     generator=make_generator(0),
    ... )
    >>> round(float(found.exact), 3)  # 4 log(1 + e)
    5.253
    """
    weights = log_weights(energy, proposal, n_draws, generator=generator)
    n_sites = proposal.n_sites
    walked = log_partition_annealed(
        energy, n_chains, n_steps, n_sites=n_sites, generator=generator
    )
    few = n_sites <= _FEW_SITES
    exact = float(exact_log_partition(energy, n_sites)) if few else None
    return LogPartitions(
        estimate_log_mean_exp(weights), effective_sample_size(weights), walked, exact
    )
