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
    """Draw samples of a periodic lattice, each from a chain of its own.

    The model is p(s) proportional to exp(sigma s'As) with A the adjacency of
    the side x side torus, so that every edge counts twice.

    Parameters
    ----------
    side
        Sites a side, at least 3.
    sigma
        Coupling; critical at ln(1 + sqrt 2) / 4 = 0.2203.
    n
        Number of samples.
    generator
        Source of randomness.
    n_sweeps
        Gibbs sweeps of each chain, from independent fair bits.  The papers'
        million single-site steps are 10,000 sweeps of 100 sites.
    dtype
        Dtype of the bits.

    Returns
    -------
    samples
        Bits, ``n_sites = side**2``.

    Raises
    ------
    InputError
        If a size is too small or ``sigma`` is not finite.

    Notes
    -----
    Beyond the critical coupling no chain of any affordable length crosses
    between the two magnetisations.  Since every sample has a chain and a fair
    start of its own, the law is symmetric under a flip of all spins after any
    number of sweeps, so both have half the mass nevertheless.  What more
    sweeps do cure is chains caught in a striped state.

    Source: data of the Ising tables of energy discrepancy (2000 samples) and
    of discrete neural flow samplers.
    """
    check_type("generator", generator, torch.Generator)
    device = generator.device
    start = torch.randint(2, (n, side * side), generator=generator, device=device)
    energy = LatticeIsing(side, sigma)
    return ising_gibbs(energy, start.to(dtype), n_sweeps, generator=generator)
