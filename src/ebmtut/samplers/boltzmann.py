"""Fast Markov chains on Boltzmann machines."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Natural, check_choice, checked
from ebmtut.energies import BoltzmannMachine, Ising, PairwiseGraph
from ebmtut.kernels.gibbs import gibbs_by_kernel
from ebmtut.kernels.gwg import gwg_by_kernel
from ebmtut.samplers.chain import run_chain
from ebmtut.samplers.gibbs import color_gibbs
from ebmtut.samplers.ising import ising_gibbs
from ebmtut.tensor_checks import check_bits, check_weights

__all__ = ["boltzmann_gibbs", "boltzmann_gwg"]


@checked
def boltzmann_gibbs(
    model: BoltzmannMachine | PairwiseGraph,
    x: Float[Tensor, "n_chains n_sites"],
    n_sweeps: Natural,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "n_chains n_sites"]:
    """Run Gibbs sweeps by compiled code where the tensor lies on the CPU.

    A dense model is swept site by site; a graph by colour class, in single precision.
    The result does not depend on the number of threads. On a GPU with Triton a kernel
    sweeps the graph.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import BoltzmannMachine
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import boltzmann_gibbs
    >>> model = BoltzmannMachine(torch.zeros(4, 4), torch.zeros(4))
    >>> boltzmann_gibbs(model, torch.zeros(5, 4), 10, generator=make_generator(0)).shape
    torch.Size([5, 4])
    """
    check_weights(model)
    if isinstance(model, PairwiseGraph):
        check_bits("x", x, model.n_sites)
        swept = gibbs_by_kernel(model, x, n_sweeps, generator)
        if swept is not None:
            return swept
        sampler = color_gibbs(model, model.coloring())
        return run_chain(sampler, x, n_sweeps, generator=generator).x_final
    return ising_gibbs(ising_of(model), x, n_sweeps, generator=generator)


def ising_of(model: BoltzmannMachine) -> Ising:
    """Return the same distribution as an Ising model; energies differ by a constant."""
    weight = model.symmetric_weight.detach()
    return Ising(weight / 8, model.bias.detach() / 2 + weight.sum(1) / 4)


@checked
def boltzmann_gwg(
    model: BoltzmannMachine,
    x: Float[Tensor, "n_chains n_sites"],
    n_steps: Natural,
    *,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "n_chains n_sites"]:
    """Make Gibbs-with-gradients moves, by compiled code on the CPU.

    The result does not depend on the number of threads.

    Parameters
    ----------
    n_steps
        Moves of a single site each: a sweep is n_sites of them.
    dtype
        Of the arithmetic; float64 gives the same chains on every processor, more
        slowly.
    """
    check_weights(model)
    check_bits("x", x, model.n_sites)
    check_choice("dtype", str(dtype), ("torch.float32", "torch.float64"))
    return gwg_by_kernel(model, x, n_steps, generator, dtype)
