"""Spin glasses, data of them, and how far second moments are off."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ebmtut.energies import BoltzmannMachine, Ising
from ebmtut.exact import exact_probabilities
from ebmtut.experiments.pmp.chains import start_bits
from ebmtut.losses import bit_moments
from ebmtut.samplers import boltzmann_gibbs
from ebmtut.states import enumerate_states

__all__ = ["independent_moments", "moment_error", "sample_truth", "spin_glass"]


# Up to this size the states are listed: data are exact draws, moments exact.
_LISTED = 16
_BURN_IN = 1000  # Gibbs sweeps before a state of a larger glass is data


def spin_glass(
    n_sites: int, strength: float, *, generator: torch.Generator
) -> BoltzmannMachine:
    """Draw a glass: couplings N(0, strength^2 / n_sites), fields N(0, 0.01).

    Its law is exp(sum over pairs of J_ij s_i s_j, plus b's), on bits.
    """
    options: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
    coupling = torch.randn(n_sites, n_sites, **options).triu(1)
    coupling = strength / n_sites**0.5 * (coupling + coupling.T) / 2
    field = 0.1 * torch.randn(n_sites, **options)
    return BoltzmannMachine.from_ising(Ising(coupling, field))


def sample_truth(
    truth: BoltzmannMachine, n: int, *, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw data from a glass, and tell its second moments E[x_i x_j].

    Small glasses are listed. Of larger ones, both come from independent long
    Gibbs runs, and the moments have an error like that of the data.

    Returns
    -------
    data
        Bits, float32, (n, n_sites).
    moments
        (n_sites, n_sites).
    """
    n_sites = truth.n_sites
    if n_sites <= _LISTED:
        states = enumerate_states(n_sites, dtype=torch.float64)
        probs = exact_probabilities(truth, n_sites).exp()
        drawn = torch.multinomial(probs, n, replacement=True, generator=generator)
        moments = states.T @ (probs[:, None] * states)
        return states[drawn].float(), moments.float()
    x = start_bits(2 * n, n_sites, generator=generator)
    x = boltzmann_gibbs(truth, x, _BURN_IN, generator=generator)
    return x[:n], bit_moments(x[n:])[1]


def moment_error(second: Tensor, moments: Tensor) -> float:
    """Root mean square difference of E[x_i x_j] over i <= j."""
    i, j = torch.triu_indices(*moments.shape)
    return float((second - moments)[i, j].square().mean().sqrt())


def independent_moments(moments: Tensor) -> Tensor:
    """Second moments of independent bits with the same means."""
    mean = moments.diagonal()
    second = torch.outer(mean, mean)
    second.diagonal().copy_(mean)
    return second
