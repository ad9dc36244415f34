"""Samples of periodic square-lattice Ising models, the data of the coupling tables."""

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, Number, Range, check_type, checked
from ebmtut.energies import LatticeIsing
from ebmtut.samplers import ising_gibbs

__all__ = ["ising_samples"]


@checked
def ising_samples(
    side: Annotated[int, Range(low=3)],
    sigma: Number,
    n: Count,
    *,
    generator: torch.Generator,
    n_sweeps: Count = 10_000,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "n n_sites"]:
    """Sample a periodic lattice, every sample from its own chain.

    The model is p(s) proportional to exp(sigma s'As) with A the adjacency of the torus,
    so that every edge counts twice; critical at sigma = ln(1 + sqrt 2) / 4 = 0.2203.

    Parameters
    ----------
    n_sweeps
        Gibbs sweeps of each chain, from uniform random bits.

    Notes
    -----
    Beyond the critical coupling no chain of affordable length crosses between the
    two magnetisations.  Every sample has its own chain with its own uniform
    initialisation, however, so that the distribution is symmetric under a flip of
    all spins after any number of sweeps, and both magnetisations have half the mass.
    More sweeps do help chains that are caught in a striped state.

    Source: data of the Ising tables of energy discrepancy (2000 samples) and
    of discrete neural flow samplers.
    """
    check_type("generator", generator, torch.Generator)
    device = generator.device
    start = torch.randint(2, (n, side * side), generator=generator, device=device)
    energy = LatticeIsing(side, sigma)
    return ising_gibbs(energy, start.to(dtype), n_sweeps, generator=generator)
