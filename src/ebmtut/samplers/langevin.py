"""Langevin dynamics on real vectors, with and without an acceptance test.

A step of size delta moves every chain by half delta squared down the energy's gradient
and by noise of standard deviation delta (Gao et al., 2021, Equation 4, for recovery
likelihood). The Metropolis test of MALA (Roberts and Tweedie, 1996) removes the bias of
the step.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import DivergenceError, InputError, check_positive, checked
from ebmtut.energies import EnergyFunction
from ebmtut.energies.base import energies_and_gradients
from ebmtut.energies.levels import ConditionalEnergy
from ebmtut.random import normal
from ebmtut.samplers.chain import Sampler
from ebmtut.tensor_checks import (
    check_finite,
    check_floating,
    check_shape,
    check_vectors,
)

__all__ = ["MoveInfo", "VectorState", "langevin", "mala"]

#: Standard normals in the shape of a tensor: a generator's, or those between two.
Draw = Callable[[Tensor], Tensor]


class VectorState(NamedTuple):
    """Real states, their energies, and the gradients of these.

    Attributes
    ----------
    x
        (batch, ...).
    energy
        (batch,).
    gradient
        Like ``x``.
    """

    x: Tensor
    energy: Tensor
    gradient: Tensor


class MoveInfo(NamedTuple):
    """What one step on real vectors did, one number a chain.

    Attributes
    ----------
    acceptance
        Probability of accepting the proposal; 1 without a test.
    distance
        Euclidean length of the move that was made.
    """

    acceptance: Tensor
    distance: Tensor


@checked
def langevin(
    energy: EnergyFunction, step_size: float | Float[Tensor, " batch"]
) -> Sampler:
    """Unadjusted Langevin dynamics.

    On a Gaussian of variance v a small step leaves the variance
    v / (1 - delta^2 / (4 v)) instead, and diverges from delta = 2 sqrt(v) on.

    Parameters
    ----------
    step_size
        delta, one for all or for each chain.

    Raises
    ------
    DivergenceError
        By ``step``, if an energy or a state is no longer finite.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import langevin, run_chain
    >>> sampler = langevin(lambda x: x.square().sum(dim=1) / 2, step_size=0.1)
    >>> g = make_generator(0)
    >>> run_chain(sampler, torch.zeros(5, 2), 50, generator=g).x_final.shape
    torch.Size([5, 2])
    """
    return _sampler(energy, step_size, adjusted=False)


@checked
def mala(energy: EnergyFunction, step_size: float | Float[Tensor, " batch"]) -> Sampler:
    """Metropolis-adjusted Langevin dynamics: exact at any step size.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import mala, run_chain
    >>> sampler = mala(lambda x: x.square().sum(dim=1) / 2, step_size=1.0)
    >>> g = make_generator(0)
    >>> run_chain(sampler, torch.zeros(5, 2), 50, generator=g).x_final.shape
    torch.Size([5, 2])
    """
    return _sampler(energy, step_size, adjusted=True)


def _sampler(
    energy: EnergyFunction, step_size: float | Tensor, *, adjusted: bool
) -> Sampler:
    check_step_size(step_size)

    def step(
        state: VectorState, *, generator: torch.Generator
    ) -> tuple[VectorState, MoveInfo]:
        draw = normals(generator)
        new, info = langevin_move(energy, state, step_size, draw, adjusted=adjusted)
        if not adjusted:  # no test keeps the chains from running off
            _check_alive(new)
        return new, info

    return Sampler(partial(start_vectors, energy, step_size), step)


def _check_alive(state: VectorState) -> None:
    per_row = state.energy + state.x.flatten(1).sum(1)
    if not bool(torch.isfinite(per_row).all()):
        n_bad = int((~torch.isfinite(per_row)).sum())
        raise DivergenceError(
            f"{n_bad} of {len(per_row)} chains diverged, their energies or states are "
            "not finite: try a smaller step_size, or mala",
            step=-1,
        )


def check_step_size(step_size: float | Tensor) -> None:
    """Refuse step sizes that are not positive."""
    if not isinstance(step_size, Tensor):
        check_positive(step_size=step_size)
        return
    check_floating("step_size", step_size.dtype)
    wrong = step_size[~(step_size > 0) | step_size.isinf()]
    if wrong.numel():
        raise InputError(f"step_size must be a number > 0, got {wrong[0].item():g}")


def normals(generator: torch.Generator) -> Draw:
    """Standard normals of a generator."""
    return lambda like: normal(like, generator=generator)


def start_vectors(
    energy: EnergyFunction, step_size: float | Tensor, x: Tensor
) -> VectorState:
    """State of the chains' start, refused unless it and its energies are finite."""
    check_vectors("x", x)
    if isinstance(step_size, Tensor) and step_size.dim():
        check_shape("step_size", step_size, (len(x),))
    state = vector_state(energy, x)
    check_finite("energy(x)", state.energy)
    check_finite("the gradient of energy(x)", state.gradient)
    return state


def vector_state(energy: EnergyFunction, x: Tensor) -> VectorState:
    """Attach energies and gradients to states; no graph is kept."""
    if isinstance(energy, ConditionalEnergy):
        return VectorState(x.detach(), *energy.energy_and_gradient(x.detach()))
    return VectorState(x.detach(), *energies_and_gradients(energy, x))


def langevin_jump(noise: Tensor, gradient: Tensor, delta: float | Tensor) -> Tensor:
    """Return the step of Langevin dynamics: down the gradient, and noise."""
    return delta * noise - 0.5 * delta**2 * gradient


def langevin_move(
    energy: EnergyFunction,
    state: VectorState,
    step_size: float | Tensor,
    draw: Draw,
    *,
    adjusted: bool,
    free: Tensor | None = None,
) -> tuple[VectorState, MoveInfo]:
    """Make one step of all chains; where ``free`` is 0 nothing moves."""
    delta = per_chain(step_size, state.x)
    noise = draw(state.x)
    jump = langevin_jump(noise, state.gradient, delta)
    if free is not None:
        noise, jump = noise * free, jump * free
    proposal = vector_state(energy, state.x + jump)
    if not adjusted:
        return proposal, MoveInfo(torch.ones_like(proposal.energy), _length(jump))
    # The noise that would lead back.
    back = 0.5 * delta * proposal.gradient - jump / delta
    if free is not None:
        back = back * free
    log_forward = -0.5 * (noise**2).flatten(1).sum(1)
    log_backward = -0.5 * (back**2).flatten(1).sum(1)
    log_ratio = state.energy - proposal.energy + log_backward - log_forward
    return metropolis(state, proposal, log_ratio, draw)


def metropolis(
    state: VectorState, proposal: VectorState, log_ratio: Tensor, draw: Draw
) -> tuple[VectorState, MoveInfo]:
    """Move each chain to its proposal with probability min(1, exp(log_ratio))."""
    # Phi of a standard normal is uniform. A ratio that is NaN compares as False:
    # the chain stays where it is.
    accept = log_ratio > torch.special.log_ndtr(draw(log_ratio))
    rows = accept.reshape(-1, *[1] * (state.x.dim() - 1))
    new = VectorState(
        torch.where(rows, proposal.x, state.x),
        torch.where(accept, proposal.energy, state.energy),
        torch.where(rows, proposal.gradient, state.gradient),
    )
    acceptance = log_ratio.clamp(max=0).exp().nan_to_num(nan=0.0)
    return new, MoveInfo(acceptance, _length(new.x - state.x))


def per_chain(value: float | Tensor, like: Tensor) -> float | Tensor:
    """Shape one number a chain so that it multiplies states."""
    if not isinstance(value, Tensor):
        return value
    value = value.to(like)  # a vector of another dtype would change that of the states
    return value.reshape(-1, *[1] * (like.dim() - 1)) if value.dim() else value


def _length(move: Tensor) -> Tensor:
    return move.flatten(1).norm(dim=1)
