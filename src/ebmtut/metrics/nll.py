r"""Negative log-likelihood of an unnormalised model, and its partition function.

.. math:: \log Z = \log E_q\left[ e^{-E(z)} / q(z) \right]

is estimated from samples z of a proposal q. The estimate of Z is unbiased, that of log
Z too low, above all where q misses mass: report the effective sample size beside it.
"""

import math
from typing import Annotated

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from ebmtut.checks import Count, InputError, Range, check_range, check_type, checked
from ebmtut.energies import EnergyFunction, dtype_of_states, energies_of
from ebmtut.importance import Estimate, effective_sample_size, estimate_log_mean_exp
from ebmtut.metrics.proposals import BernoulliProposal, Proposal
from ebmtut.tensor_checks import check_bits, check_finite, check_floating

__all__ = [
    "Estimate",
    "effective_sample_size",
    "estimate_log_mean_exp",
    "log_partition_importance",
    "log_partition_uniform",
    "log_weights",
    "nll",
]


@torch.no_grad()
@checked
def log_weights(
    energy: EnergyFunction,
    proposal: Proposal,
    n_samples: Annotated[int, Range(low=2)],
    *,
    generator: torch.Generator,
    batch: Count = 16384,
    dtype: torch.dtype | None = None,
) -> Float64[Tensor, " n_samples"]:
    """Log importance weights -E(z) - log q(z) of samples z of a proposal.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.metrics import BernoulliProposal, log_weights
    >>> from ebmtut.random import make_generator
    >>> proposal = BernoulliProposal(torch.full((3,), 0.5))
    >>> g = make_generator(0)
    >>> log_weights(lambda x: torch.zeros(len(x)), proposal, 2, generator=g)  # log 8
    tensor([2.0794, 2.0794], dtype=torch.float64)
    """
    check_type("generator", generator, torch.Generator)
    dtype = dtype_of_states(energy) if dtype is None else dtype
    check_floating("dtype", dtype)
    parts = []
    for start in range(0, n_samples, batch):
        n = min(batch, n_samples - start)
        z = proposal.sample(n, generator=generator).to(dtype)
        energies = energies_of(energy, z).double()
        check_finite("energy(x)", energies)
        parts.append(-energies - proposal.log_prob(z))
    return torch.cat(parts)


@checked
def log_partition_importance(
    energy: EnergyFunction,
    proposal: Proposal,
    n_samples: int,
    *,
    generator: torch.Generator,
    batch: int = 16384,
    dtype: torch.dtype | None = None,
) -> Estimate:
    """Log partition function by importance sampling from a fitted proposal."""
    weights = log_weights(
        energy, proposal, n_samples, generator=generator, batch=batch, dtype=dtype
    )
    return estimate_log_mean_exp(weights)


@checked
def log_partition_uniform(
    energy: EnergyFunction,
    n_sites: Count,
    n_samples: int,
    *,
    generator: torch.Generator,
    batch: int = 16384,
    dtype: torch.dtype | None = None,
) -> Estimate:
    """Log partition function by uniform samples, the literature's protocol.

    ``log Z = LSE(-E) + n_sites ln 2 - ln n`` (code of Zhang et al. 2022, there
    with a million samples of 32 bits).

    Examples
    --------
    >>> from ebmtut.metrics import log_partition_uniform
    >>> from ebmtut.random import make_generator
    >>> g = make_generator(0)
    >>> log_partition_uniform(lambda x: 0 * x.sum(dim=1), 3, 100, generator=g)
    Estimate(value=2.079441541679836, stderr=1.1158161231197418e-17)
    """
    check_type("generator", generator, torch.Generator)
    uniform = BernoulliProposal.uniform(n_sites, generator.device)
    return log_partition_importance(
        energy, uniform, n_samples, generator=generator, batch=batch, dtype=dtype
    )


@torch.no_grad()
@checked
def nll(
    energy: EnergyFunction,
    x: Float[Tensor, "n_data n_sites"],
    log_partition: float | Estimate,
    *,
    batch: Count = 16384,
) -> Estimate:
    """Mean negative log-likelihood of states, in nats.

    Parameters
    ----------
    log_partition
        Exact or estimated; an estimate's standard error enters the result's.
    """
    check_bits("x", x, least=2)
    if not isinstance(log_partition, Estimate):
        log_partition = Estimate(float(log_partition), 0.0)
    check_range("log_partition", log_partition.value)
    parts = [energies_of(energy, part).double() for part in x.split(batch)]
    energies = torch.cat(parts)
    if not energies.isfinite().all():
        bad = int((~energies.isfinite()).sum())
        raise InputError(f"energy must be finite on x, got {bad} non-finite values")
    value = float(energies.mean()) + log_partition.value
    data_error = float(energies.std()) / math.sqrt(len(x))
    return Estimate(value, math.hypot(data_error, log_partition.stderr))
