"""Partition function and exact sampling of models over two Gray-coded coordinates.

A histogram over 256 x 256 coarse cells is a proposal so close to the model that 2e5
samples give log Z to a few thousandths, and rejection gives independent samples.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, InputError, Natural, check_type, checked
from ebmtut.energies import EnergyFunction, dtype_of_states, energies_of
from ebmtut.metrics.nll import (
    Estimate,
    effective_sample_size,
    estimate_log_mean_exp,
    log_weights,
)
from ebmtut.metrics.proposals import HistogramProposal, Proposal
from ebmtut.random import exponential
from ebmtut.tensor_checks import check_finite, check_floating

__all__ = ["GridPartition", "grid_log_partition", "sample_by_proposal"]


class GridPartition(NamedTuple):
    """A log partition function, how far to trust it, and the proposal used."""

    log_partition: Estimate
    ess: float
    proposal: HistogramProposal


@checked
def grid_log_partition(
    energy: EnergyFunction,
    *,
    generator: torch.Generator,
    bits_per_coordinate: int = 16,
    coarse_bits: int = 8,
    n_samples: int = 200_000,
    draws_per_cell: int = 4,
    uniform: float = 0.05,
    dtype: torch.dtype | None = None,
) -> GridPartition:
    """Log partition function of a model over two Gray-coded coordinates.

    Parameters
    ----------
    n_samples
        Of importance sampling.
    bits_per_coordinate, coarse_bits, draws_per_cell, uniform, dtype
        As for :meth:`HistogramProposal.fit`.

    Returns
    -------
    fit
        The estimate, its effective sample size as a fraction, and the fitted proposal.

    Examples
    --------
    >>> import math
    >>> from ebmtut.metrics import grid_log_partition
    >>> from ebmtut.random import make_generator
    >>> found = grid_log_partition(
    ...     lambda x: 0 * x.sum(dim=1),
    ...     bits_per_coordinate=4,
    ...     coarse_bits=2,
    ...     n_samples=1000,
    ...     generator=make_generator(0),
    ... )
    >>> abs(found.log_partition.value - 8 * math.log(2)) < 1e-4  # 2**8 states
    True
    """
    proposal = HistogramProposal.fit(
        energy,
        generator=generator,
        bits_per_coordinate=bits_per_coordinate,
        coarse_bits=coarse_bits,
        draws_per_cell=draws_per_cell,
        uniform=uniform,
        dtype=dtype,
    )
    weights = log_weights(energy, proposal, n_samples, generator=generator, dtype=dtype)
    ess = effective_sample_size(weights)
    return GridPartition(estimate_log_mean_exp(weights), ess, proposal)


@torch.no_grad()
@checked
def sample_by_proposal(
    energy: EnergyFunction,
    proposal: Proposal,
    n_samples: Count,
    *,
    generator: torch.Generator,
    batch: Count = 16384,
    min_draws: Natural = 65536,
    max_draws: Count = 20_000_000,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "n_samples n_sites"]:
    """Independent samples of a model by rejection from a proposal.

    The bound is the largest weight seen so far; when it rises, earlier samples are
    thinned accordingly. After N proposals the error is of order 1/N in total variation
    (Caffo, Booth and Davis 2002, empirical supremum rejection sampling).

    Parameters
    ----------
    proposal, batch
        The closer to the model, the fewer are needed; proposals at a time.
    min_draws, max_draws
        Least number of proposals, for the bound, and the number after which to give up.
    """
    check_type("generator", generator, torch.Generator)
    dtype = dtype_of_states(energy) if dtype is None else dtype
    check_floating("dtype", dtype)
    states = torch.empty(0, proposal.n_sites, dtype=dtype, device=generator.device)
    levels = torch.empty(0, dtype=torch.float64, device=generator.device)
    n_drawn, bound = 0, -math.inf
    while len(states) < n_samples or n_drawn < min_draws:
        if n_drawn >= max_draws:
            raise InputError(
                f"proposal must be closer to the model: {len(states)} of {n_samples} "
                f"samples after {n_drawn} proposals"
            )
        z = proposal.sample(batch, generator=generator)
        energies = energies_of(energy, z.to(dtype)).double()
        check_finite("energy(x)", energies)
        weight = -energies - proposal.log_prob(z)
        # A proposal is kept as long as its level, log w - log u, exceeds the bound.
        level = weight + exponential(
            (batch,), generator=generator, dtype=torch.float64, device=z.device
        )
        bound = max(bound, float(weight.max()))
        states = torch.cat([states[levels > bound], z.to(dtype)[level > bound]])
        levels = torch.cat([levels[levels > bound], level[level > bound]])
        n_drawn += batch
    return states[:n_samples]
