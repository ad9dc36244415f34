"""Fast Gibbs sampling of Ising models, and the same in plain torch."""

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, check_counts, check_type
from ebmtut.energies import (
    BoltzmannMachine,
    Energy,
    Ising,
    LatticeIsing,
    PairwiseGraph,
    lattice_coloring,
)
from ebmtut.kernels.dense_gibbs import logit_parts
from ebmtut.kernels.gibbs import gibbs_by_kernel
from ebmtut.random import bernoulli
from ebmtut.samplers.chain import run_chain
from ebmtut.samplers.gibbs import color_gibbs
from ebmtut.states import bits_to_spins, spins_to_bits
from ebmtut.tensor_checks import check_bits, check_weights

__all__ = ["ising_gibbs", "ising_gibbs_reference"]


def ising_gibbs(
    energy: Ising | LatticeIsing,
    x: Float[Tensor, "batch n_sites"],
    n_sweeps: int,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "batch n_sites"]:
    """Run Gibbs sweeps by compiled code.

    The lattice is swept by colour class, a dense model by site with local fields kept
    current. The result does not depend on the number of threads. On a GPU with Triton a
    kernel sweeps the lattice.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import ising_gibbs
    >>> g = make_generator(0)
    >>> ising_gibbs(LatticeIsing(4, 0.2), torch.zeros(5, 16), 10, generator=g).shape
    torch.Size([5, 16])
    """
    _check(energy, x, n_sweeps)
    swept = gibbs_by_kernel(energy, x, n_sweeps, generator)
    if swept is not None:
        return swept
    return ising_gibbs_reference(energy, x, n_sweeps, generator=generator)


def ising_gibbs_reference(
    energy: Ising | LatticeIsing,
    x: Float[Tensor, "batch n_sites"],
    n_sweeps: int,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "batch n_sites"]:
    """Run :func:`ising_gibbs` in plain torch, with other random numbers."""
    _check(energy, x, n_sweeps)
    if isinstance(energy, LatticeIsing):
        colors = lattice_coloring(energy.side).to(x.device)
        sampler = color_gibbs(energy, colors)
        return run_chain(sampler, x, n_sweeps, generator=generator).x_final
    coupling, bias = logit_parts(energy, x)
    spins = bits_to_spins(x).to(coupling.dtype)
    for _ in range(n_sweeps):
        for i in range(energy.n_sites):
            up = torch.sigmoid(spins @ coupling[i] + bias[i])
            spins[:, i] = bits_to_spins(bernoulli(up, generator=generator))
    return spins_to_bits(spins).to(x.dtype)


def _check(energy: Energy, x: Float[Tensor, "batch n_sites"], n_sweeps: int) -> None:
    if isinstance(energy, (BoltzmannMachine, PairwiseGraph)):
        raise InputError(
            "energy must be Ising or LatticeIsing, got "
            f"{type(energy).__name__}: use boltzmann_gibbs"
        )
    check_type("energy", energy, Ising, LatticeIsing)
    assert isinstance(energy, (Ising, LatticeIsing))
    check_bits("x", x, energy.n_sites)
    check_weights(energy)
    check_counts(low=0, n_sweeps=n_sweeps)
