"""Tensor in, samples out: from any energy of bits, by the fastest chain there is."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import (
    Count,
    InputError,
    Natural,
    OneOf,
    check_counts,
    check_type,
    checked,
)
from ebmtut.energies import (
    RBM,
    BoltzmannMachine,
    Energy,
    EnergyFunction,
    Ising,
    LatticeIsing,
    PairwiseGraph,
    dtype_of_states,
)
from ebmtut.samplers.block_gibbs import block_gibbs
from ebmtut.samplers.boltzmann import boltzmann_gibbs, boltzmann_gwg
from ebmtut.samplers.chain import run_chain
from ebmtut.samplers.gibbs import gibbs
from ebmtut.samplers.informed import gwg
from ebmtut.samplers.ising import ising_gibbs
from ebmtut.tensor_checks import check_bits

__all__ = ["draw_samples"]


@checked
def draw_samples(
    energy: EnergyFunction,
    n_samples: Count,
    *,
    n_sweeps: Natural = 100,
    method: Annotated[str, OneOf(("gibbs", "gwg"))] = "gibbs",
    n_sites: int | None = None,
    start: Float[Tensor, "n_samples n_sites"] | None = None,
    generator: torch.Generator,
) -> Float[Tensor, "n_samples n_sites"]:
    """Run as many chains as samples are asked for and return where they end.

    The samples are independent. Another `start` or more sweeps tell whether the chains
    have mixed.

    Parameters
    ----------
    n_samples, n_sweeps
        Chains; updates of every site: a sweep is n_sites moves of one bit.
    method
        "gibbs", or "gwg", Gibbs-with-gradients, which needs a differentiable energy.
    start
        Initial states; None takes uniform random bits.

    Returns
    -------
    x
        Bits, of the dtype of `start`, else as `ebmtut.energies.dtype_of_states`.

    Examples
    --------
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import draw_samples
    >>> draw_samples(LatticeIsing(4, 0.2), 100, generator=make_generator(0)).shape
    torch.Size([100, 16])
    """
    check_type("generator", generator, torch.Generator)
    own = energy.n_sites if isinstance(energy, Energy) else n_sites
    if own is None:
        raise InputError("n_sites must be given where energy is no Energy, got None")
    check_counts(n_sites=own)
    if n_sites not in (None, own):
        raise InputError(f"n_sites must be the energy's, {own}, got {n_sites}")
    if start is None:
        size = (n_samples, own)
        coins = torch.randint(2, size, generator=generator, device=generator.device)
        start = coins.to(dtype_of_states(energy))
    check_bits("start", start, own)
    if len(start) != n_samples:
        raise InputError(f"start must have {n_samples} rows, got {len(start)}")
    if method == "gwg":
        if isinstance(energy, BoltzmannMachine):
            return boltzmann_gwg(energy, start, n_sweeps * own, generator=generator)
        chain = gwg(energy)
    elif isinstance(energy, (Ising, LatticeIsing)):
        return ising_gibbs(energy, start, n_sweeps, generator=generator)
    elif isinstance(energy, (BoltzmannMachine, PairwiseGraph)):
        return boltzmann_gibbs(energy, start, n_sweeps, generator=generator)
    elif isinstance(energy, RBM) and n_sweeps:
        return block_gibbs(energy, start, n_sweeps, generator=generator)[:, :own]
    else:
        chain = gibbs(energy, "systematic")
    return run_chain(chain, start, n_sweeps * own, generator=generator).x_final
