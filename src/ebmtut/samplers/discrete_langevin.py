"""Discrete Langevin: flip every bit independently, guided by one gradient.

The Langevin proposal, restricted to bits, factorises over sites (Zhang, Liu and Liu,
ICML 2022). With an acceptance test it is DMALA; without one it is DULA, which is faster
and biased.
"""

from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from ebmtut.checks import DivergenceError, NonNegative, Positive, checked
from ebmtut.energies import EnergyFunction
from ebmtut.random import bernoulli
from ebmtut.samplers.chain import Sampler, StepInfo, start_energy
from ebmtut.samplers.metropolis import (
    InformedState,
    accept_or_stay,
    informed_state,
    metropolis_log_acceptance,
    ratio_function,
    start_informed,
)

__all__ = ["DulaState", "dmala", "dula"]


class DulaState(NamedTuple):
    """State of :func:`dula`: the bits."""

    x: Float[Tensor, "batch n_sites"]


def langevin_flip_logits(
    log_ratios: Float[Tensor, "batch n_sites"], step_size: float
) -> Float[Tensor, "batch n_sites"]:
    """Log-odds of flipping each bit.

    Zhang et al. (2022): softmax over y_i of grad_i (y_i - x_i) / 2 - (y_i - x_i)^2 / (2
    alpha).
    """
    return log_ratios / 2 - 1 / (2 * step_size)


def langevin_log_proposal(
    x: Float[Tensor, "*#batch n_sites"],
    y: Float[Tensor, "*#batch n_sites"],
    flip_logits: Float[Tensor, "*#batch n_sites"],
) -> Float[Tensor, "..."]:
    """log q(y | x) of independent flips with given log-odds at x, broadcast."""
    return logsigmoid(torch.where(x == y, -flip_logits, flip_logits)).sum(-1)


@checked
def dmala(
    energy: EnergyFunction,
    step_size: Positive,
    ratios: str = "taylor",
    inverse_temperature: NonNegative = 1.0,
) -> Sampler:
    """Discrete Metropolis-adjusted Langevin algorithm.

    Parameters
    ----------
    step_size
        alpha of Zhang et al. (2022), positive: larger flips more bits.
    ratios
        ``"taylor"``, first-order log-ratios as in the paper, or ``"exact"``.
    inverse_temperature
        beta of the target, which is proportional to exp(-beta E). It scales what a
        state keeps of E, so a state serves every beta without a new evaluation.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import dmala, run_chain
    >>> x = torch.zeros(5, 9)
    >>> g = make_generator(0)
    >>> run_chain(dmala(LatticeIsing(3, 0.2), 0.5), x, 30, generator=g).x_final.shape
    torch.Size([5, 9])
    """
    ratio_function(ratios)
    beta = inverse_temperature

    @torch.no_grad()
    def step(
        state: InformedState, *, generator: torch.Generator
    ) -> tuple[InformedState, StepInfo]:
        x = state.x
        forward = langevin_flip_logits(beta * state.log_ratios, step_size)
        flips = bernoulli(torch.sigmoid(forward), generator=generator)
        proposal = informed_state(energy, (x - flips).abs(), ratios)
        backward = langevin_flip_logits(beta * proposal.log_ratios, step_size)
        log_acceptance = metropolis_log_acceptance(
            beta * (state.energy - proposal.energy),
            langevin_log_proposal(x, proposal.x, forward),
            langevin_log_proposal(proposal.x, x, backward),
        )
        return accept_or_stay(state, proposal, log_acceptance, generator=generator)

    return Sampler(partial(start_informed, energy, ratios), step)


@checked
def dula(
    energy: EnergyFunction, step_size: Positive, ratios: str = "taylor"
) -> Sampler:
    """Discrete unadjusted Langevin algorithm: DMALA that always accepts.

    Its stationary distribution tends to p as ``step_size`` goes to 0, with exact
    log-ratios always, with first-order ones where the energy is at most quadratic in
    every bit.

    Parameters
    ----------
    step_size, ratios
        As of `dmala`; larger steps bias more.

    Raises
    ------
    DivergenceError
        By ``step``, if a log-ratio is NaN.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import dula, run_chain
    >>> x = torch.zeros(5, 9)
    >>> g = make_generator(0)
    >>> run_chain(dula(LatticeIsing(3, 0.2), 0.2), x, 30, generator=g).x_final.shape
    torch.Size([5, 9])
    """
    log_ratios = ratio_function(ratios)

    def init(x: Float[Tensor, "batch n_sites"]) -> DulaState:
        start_energy(energy, x)
        return DulaState(x)

    @torch.no_grad()
    def step(
        state: DulaState, *, generator: torch.Generator
    ) -> tuple[DulaState, StepInfo]:
        x = state.x
        logits = langevin_flip_logits(log_ratios(energy, x), step_size)
        if n_nan := int(logits.isnan().sum()):  # which would never flip, untold
            raise DivergenceError(
                f"{n_nan} of {logits.numel()} log-ratios of the energy are NaN", step=-1
            )
        flips = bernoulli(torch.sigmoid(logits), generator=generator)
        n_changed = flips.sum(1)
        return DulaState((x - flips).abs()), StepInfo(
            torch.ones_like(n_changed), n_changed
        )

    return Sampler(init, step)
