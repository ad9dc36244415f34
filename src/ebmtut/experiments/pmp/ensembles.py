"""Models of which log Z is known: dense ones and lattices, as Boltzmann machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch

from ebmtut.checks import Count, Number, OneOf, checked
from ebmtut.energies import BoltzmannMachine, Ising, LatticeIsing
from ebmtut.exact import (
    exact_log_partition,
    torus_log_partition,
    transfer_log_partition,
)

__all__ = ["ENSEMBLES", "Ensemble", "dense_model", "lattice_model"]


@checked
@dataclass(frozen=True)
class Ensemble:
    """A kind of model.

    Attributes
    ----------
    kind
        "lattice", periodic and square, or "dense", of all pairs.
    coupling
        Of a lattice, w in exp(w s_i s_j), every edge counted once.
    n_uniform
        Of a dense model: a pair's w is the sum of so many uniform numbers in
        [-2, 2]; its b is uniform in [-0.1, 0.1].
    """

    kind: Annotated[str, OneOf(("lattice", "dense"))]
    coupling: Number = 0.1
    n_uniform: Count = 1


# The program has each pair twice in its energy, and -0.1 on the lattice: a
# coupling of -0.2, and a pair of two independent weights.
ENSEMBLES: Mapping[str, Ensemble] = {
    "lattice": Ensemble("lattice"),
    "dense": Ensemble("dense"),
    "lattice, as programmed": Ensemble("lattice", coupling=-0.2),
    "dense, as programmed": Ensemble("dense", n_uniform=2),
}


def dense_model(
    n_sites: int, n_uniform: int = 1, *, generator: torch.Generator
) -> tuple[BoltzmannMachine, float]:
    """Draw a fully connected Ising model, as a Boltzmann machine.

    Parameters
    ----------
    n_sites
        At most 24.
    n_uniform
        See `Ensemble`.
    generator
        Source of the weights.

    Returns
    -------
    model
        The machine.
    log_z
        Its exact log partition function.
    """
    w = torch.zeros(n_sites, n_sites, dtype=torch.float64)
    for _ in range(n_uniform):
        w += 4 * torch.rand(w.shape, generator=generator, dtype=w.dtype) - 2
    b = 0.2 * torch.rand(n_sites, generator=generator, dtype=w.dtype) - 0.1
    upper = w.triu(1)
    # Ising counts each pair twice.
    model = BoltzmannMachine.from_ising(Ising((upper + upper.T) / 2, b))
    with torch.no_grad():
        return model, float(exact_log_partition(model, n_sites))


def lattice_model(side: int, coupling: float) -> tuple[BoltzmannMachine, float]:
    """Return a periodic lattice without field, as a Boltzmann machine.

    Parameters
    ----------
    side
        Sites a side.
    coupling
        w in exp(w s_i s_j), every edge counted once.

    Returns
    -------
    model
        The machine.
    log_z
        Its exact log partition function: Kaufman's formula where that holds,
        else by transfer matrix.
    """
    ising = LatticeIsing(side, coupling / 2).to_dense()
    frustrated = coupling < 0 and side % 2 == 1
    exact = transfer_log_partition if frustrated else torus_log_partition
    with torch.no_grad():
        # The Boltzmann machine gives the state of zeros the energy 0.
        shift = float(ising(torch.zeros(1, side**2, dtype=torch.float64)))
    return BoltzmannMachine.from_ising(ising), exact(side, side, coupling) + shift
