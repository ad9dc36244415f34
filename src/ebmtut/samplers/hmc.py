"""Hamiltonian Monte Carlo with a step size that looks for its acceptance rate.

Source: Neal, "MCMC using Hamiltonian dynamics" (2011). Gao et al. (2021, Section
4.2) take two leapfrog steps a move and adapt the step size of every noise level
until the mean acceptance rate lies in [0.6, 0.9].
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, Fraction, InputError, check_range, checked
from ebmtut.energies import EnergyFunction
from ebmtut.samplers.chain import Sampler, run_chain
from ebmtut.samplers.langevin import (
    MoveInfo,
    VectorState,
    check_step_size,
    metropolis,
    normals,
    per_chain,
    start_vectors,
    vector_state,
)

__all__ = ["AdaptedStep", "adapt_step_size", "hmc"]


@checked
def hmc(
    energy: EnergyFunction,
    step_size: float | Float[Tensor, " batch"],
    n_leapfrog: Count = 2,
) -> Sampler:
    """Hamiltonian Monte Carlo with unit masses and fresh momenta every move.

    Parameters
    ----------
    step_size, n_leapfrog
        Positive, one for all or for each chain; leapfrog steps a move, 1 is MALA.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import hmc, run_chain
    >>> sampler = hmc(lambda x: x.square().sum(dim=1) / 2, step_size=0.5)
    >>> g = make_generator(0)
    >>> run_chain(sampler, torch.zeros(5, 2), 50, generator=g).x_final.shape
    torch.Size([5, 2])
    """
    check_step_size(step_size)

    def step(
        state: VectorState, *, generator: torch.Generator
    ) -> tuple[VectorState, MoveInfo]:
        draw = normals(generator)
        delta = per_chain(step_size, state.x)
        momentum = draw(state.x)
        kinetic = 0.5 * (momentum**2).flatten(1).sum(1)
        proposal = state
        for _ in range(n_leapfrog):
            momentum = momentum - 0.5 * delta * proposal.gradient
            proposal = vector_state(energy, proposal.x + delta * momentum)
            momentum = momentum - 0.5 * delta * proposal.gradient
        log_ratio = state.energy - proposal.energy + kinetic
        log_ratio = log_ratio - 0.5 * (momentum**2).flatten(1).sum(1)
        return metropolis(state, proposal, log_ratio, draw)

    return Sampler(partial(start_vectors, energy, step_size), step)


class AdaptedStep(NamedTuple):
    """What `adapt_step_size` found.

    Attributes
    ----------
    step_size
        The step size.
    acceptance
        Mean acceptance rate with it.
    """

    step_size: float
    acceptance: float
    x: Tensor


@checked
def adapt_step_size(
    make: Callable[[float], Sampler],
    x: Float[Tensor, "batch ..."],
    step_size: float,
    *,
    generator: torch.Generator,
    low: float = 0.6,
    high: Fraction = 0.9,
    n_steps: Count = 10,
    n_rounds: Count = 40,
) -> AdaptedStep:
    """Change a step size until the mean acceptance rate lies in a range.

    Each round's factor nears 1 whenever the rate jumps across the range.

    Parameters
    ----------
    make
        A step size to a sampler, such as ``lambda s: hmc(energy, s)``.
    low, high, n_steps, n_rounds
        The range of the rate, moves a round, and rounds at most.
    """
    check_range("low", low, low=0, high=high, include_low=False, include_high=False)
    factor, above = 2.0, None
    for _ in range(n_rounds):
        result = run_chain(make(step_size), x, n_steps, generator=generator)
        x, rate = result.x_final, result.info["acceptance"]
        if low <= rate <= high:
            return AdaptedStep(step_size, rate, x)
        if above is not None and (rate > high) != above:
            factor = factor**0.5
        above = rate > high
        step_size = step_size * factor if above else step_size / factor
    raise InputError(
        f"n_rounds must be larger: after {n_rounds} the acceptance rate is "
        f"{rate:.2f} at step size {step_size:g}, not in [{low}, {high}]"
    )
