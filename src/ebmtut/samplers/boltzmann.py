"""Fast Markov chains on Boltzmann machines."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut._compiled import in_threads
from ebmtut.checks import check_counts, check_type
from ebmtut.energies import BoltzmannMachine, Ising
from ebmtut.random import spawn_seed
from ebmtut.samplers import _gwg_kernels
from ebmtut.samplers._ising_kernels import xoshiro_states
from ebmtut.samplers.chain import run_chain
from ebmtut.samplers.informed import gwg
from ebmtut.samplers.ising import ising_gibbs
from ebmtut.tensor_checks import check_bits

__all__ = ["boltzmann_gibbs", "boltzmann_gwg"]


def boltzmann_gibbs(
    model: BoltzmannMachine,
    x: Float[Tensor, "n_chains n_sites"],
    n_sweeps: int,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "n_chains n_sites"]:
    """Run Gibbs sweeps, by `ising_gibbs` on the same model in spins.

    Parameters
    ----------
    model
        The model.
    x
        Start, bits. Unchanged.
    n_sweeps
        Updates of every site.
    generator
        Source of randomness.

    Returns
    -------
    x_final
        The chains' last bits, like ``x``.

    Raises
    ------
    InputError
        If the model is of another kind, ``n_sweeps`` is negative, or ``x`` no batch
        of bits of that size.
    """
    check_type("model", model, BoltzmannMachine)
    weight = model.symmetric_weight.detach()
    ising = Ising(weight / 8, model.bias.detach() / 2 + weight.sum(1) / 4)
    return ising_gibbs(ising, x, n_sweeps, generator=generator)


def boltzmann_gwg(
    model: BoltzmannMachine,
    x: Float[Tensor, "n_chains n_sites"],
    n_steps: int,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "n_chains n_sites"]:
    """Make Gibbs-with-gradients moves, by compiled code where ``x`` is on the CPU.

    In single precision, chains spread over ``torch.get_num_threads()`` threads;
    the result does not depend on how many.

    Parameters
    ----------
    model
        The model.
    x
        Start, bits. Unchanged.
    n_steps
        Moves of a single site each: a sweep is n_sites of them.
    generator
        Source of randomness.

    Returns
    -------
    x_final
        The chains' last bits, like ``x``.

    Raises
    ------
    InputError
        If the model is of another kind, ``n_steps`` is negative, or ``x`` no batch
        of bits of that size.

    See Also
    --------
    ebmtut.samplers.gwg : the same kernel for any energy, in plain torch.
    """
    check_type("model", model, BoltzmannMachine)
    check_bits("x", x, model.n_sites)
    check_counts(low=0, n_steps=n_steps)
    if x.device.type != "cpu":
        return run_chain(gwg(model), x, n_steps, generator=generator).x_final
    coupling = model.symmetric_weight.detach().float().numpy()
    bias = model.bias.detach().float().numpy()
    streams = xoshiro_states(spawn_seed(generator), len(x))
    state = x.detach().float().numpy().copy()

    def move(rows: slice) -> None:
        _gwg_kernels.gwg_steps(state[rows], coupling, bias, streams[rows], n_steps)

    in_threads(move, len(x), n_steps * x.numel())
    return torch.from_numpy(np.round(state)).to(x.dtype)
