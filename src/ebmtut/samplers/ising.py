"""Fast Gibbs sampling of Ising models, and the same in plain torch."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import sweep_in_threads
from ebmtut._gpu import runs_triton
from ebmtut.checks import InputError, check_counts, check_type
from ebmtut.energies import (
    BoltzmannMachine,
    Energy,
    Ising,
    LatticeIsing,
    PairwiseGraph,
    lattice_coloring,
)
from ebmtut.random import bernoulli, spawn_seed
from ebmtut.samplers import _multispin as multispin
from ebmtut.samplers._dense_kernels import REFRESH, dense_sweeps
from ebmtut.samplers._lattice_kernels import lane_streams, lattice_sweeps
from ebmtut.samplers._xoshiro import xoshiro_states
from ebmtut.samplers.chain import run_chain
from ebmtut.samplers.gibbs import color_gibbs
from ebmtut.states import bits_to_spins, spins_to_bits
from ebmtut.tensor_checks import check_bits

__all__ = ["ising_gibbs", "ising_gibbs_reference"]


def ising_gibbs(
    energy: Ising | LatticeIsing,
    x: Float[Tensor, "batch n_sites"],
    n_sweeps: int,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "batch n_sites"]:
    """Run Gibbs sweeps by compiled code where the tensor lies on the CPU.

    The lattice is swept by colour class (two colours for even sides, three
    for odd), a dense model by site with local fields kept current. Chains
    are spread over ``torch.get_num_threads()`` threads; the result does not
    depend on how many. On a GPU with Triton a kernel sweeps the lattice.

    Parameters
    ----------
    energy
        The model.
    x
        Start, each entry 0 or 1. Unchanged.
    n_sweeps
        Updates of every site.
    generator
        Seeds the kernels' own streams.

    Returns
    -------
    x_final
        The chains' last bits, like ``x``.

    Raises
    ------
    InputError
        If the energy is of another kind, ``n_sweeps`` is negative, or ``x``
        is not a batch of bits of the energy's size.

    See Also
    --------
    ising_gibbs_reference : the same law, on any device.

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
    if isinstance(energy, LatticeIsing) and runs_triton(x):
        from ebmtut.samplers._gibbs_triton import lattice_gibbs

        return lattice_gibbs(energy, x, n_sweeps, spawn_seed(generator))
    if x.device.type != "cpu":
        return ising_gibbs_reference(energy, x, n_sweeps, generator=generator)
    seed = spawn_seed(generator)
    bits = x.detach().bool().view(torch.uint8).numpy()
    if isinstance(energy, LatticeIsing):
        bits = _sweep_lattice(energy, bits, n_sweeps, seed)
    else:
        coupling, bias = _logit_parts(energy, x)
        bits = _sweep_dense(coupling.numpy(), bias.numpy(), bits, n_sweeps, seed)
    return torch.from_numpy(bits).to(x.dtype)


def ising_gibbs_reference(
    energy: Ising | LatticeIsing,
    x: Float[Tensor, "batch n_sites"],
    n_sweeps: int,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "batch n_sites"]:
    """Run the sweeps of :func:`ising_gibbs` in plain torch.

    Takes and returns what :func:`ising_gibbs` does, which has the same law
    but other random numbers.
    """
    _check(energy, x, n_sweeps)
    if isinstance(energy, LatticeIsing):
        colors = lattice_coloring(energy.side).to(x.device)
        sampler = color_gibbs(energy, colors)
        return run_chain(sampler, x, n_sweeps, generator=generator).x_final
    coupling, bias = _logit_parts(energy, x)
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
    check_counts(low=0, n_sweeps=n_sweeps)


def _logit_parts(
    energy: Ising, x: Float[Tensor, "batch n_sites"]
) -> tuple[Float[Tensor, "n_sites n_sites"], Float[Tensor, " n_sites"]]:
    """C and c with P(s_i = 1 | rest) = sigmoid((C s + c)_i), where x lies."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    coupling = 4 * energy.symmetric_coupling.detach().to(x.device, dtype)
    if energy.bias is None:
        return coupling, coupling.new_zeros(energy.n_sites)
    return coupling, 2 * energy.bias.detach().to(coupling)


def _sweep_dense(
    coupling: NDArray[Any],
    bias: NDArray[Any],
    bits: NDArray[np.uint8],
    n_sweeps: int,
    seed: int,
) -> NDArray[Any]:
    spins = 2 * bits.astype(np.int8) - 1
    streams = xoshiro_states(seed, len(spins))

    def sweep(n: int, rows: slice) -> None:
        dense_sweeps(spins[rows], coupling, bias, streams[rows], n)

    # A site that flips changes the fields of all others.
    n_turns = spins.size * spins.shape[1]
    sweep_in_threads(sweep, len(spins), n_sweeps, n_turns, grain=REFRESH)
    return (spins + 1) // 2


def _sweep_lattice(
    energy: LatticeIsing, bits: NDArray[np.uint8], n_sweeps: int, seed: int
) -> NDArray[Any]:
    n_up = torch.arange(5, dtype=torch.float64)
    logit = 4 * energy.sigma * (2 * n_up - 4) + 2 * energy.bias
    thresholds = multispin.threshold_bits(torch.sigmoid(logit).numpy())
    chains, rows = multispin.chain_plan(energy.side), multispin.row_plan(energy.side)
    # Which packing redraws fewer words: 64 chains in one, or a chain's row?
    by_rows = len(bits) * len(rows.mask) < -(-len(bits) // 64) * len(chains.mask)
    plan = rows if by_rows else chains
    packed = (
        multispin.pack_rows(bits, energy.side)
        if by_rows
        else multispin.pack_chains(bits)
    )
    words = plan.lay_out(packed)
    streams = lane_streams(seed, len(words))

    def sweep(n: int, part: slice) -> None:
        row_side = energy.side if by_rows else 0
        lattice_sweeps(
            words[part], *plan.arrays, thresholds, streams[part], n, row_side
        )

    sweep_in_threads(sweep, len(words), n_sweeps, bits.size)
    if by_rows:
        return multispin.unpack_rows(words[:, plan.place], energy.side)
    return multispin.unpack_chains(words[:, plan.place], len(bits))
