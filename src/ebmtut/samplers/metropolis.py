"""What the informed samplers share: states with ratios, and acceptance."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import check_choice
from ebmtut.energies import EnergyFunction
from ebmtut.neighbors import neighbor_log_ratios, taylor_log_ratios
from ebmtut.random import exponential
from ebmtut.samplers.chain import StepInfo, start_energy

__all__ = ["InformedState", "metropolis_log_acceptance"]

_Ratios = Callable[
    [EnergyFunction, Float[Tensor, "batch n_sites"]], Float[Tensor, "batch n_sites"]
]

_RATIOS: dict[str, _Ratios] = {
    "taylor": taylor_log_ratios,
    "exact": neighbor_log_ratios,
}


class InformedState(NamedTuple):
    """Bits, their energy, and log p(flip_i x) - log p(x) for every site i."""

    x: Float[Tensor, "batch n_sites"]
    energy: Float[Tensor, " batch"]
    log_ratios: Float[Tensor, "batch n_sites"]


def ratio_function(ratios: str) -> _Ratios:
    """First-order log-ratios, from one gradient, or exact ones, by name."""
    check_choice("ratios", ratios, tuple(_RATIOS))
    return _RATIOS[ratios]


def informed_state(
    energy: EnergyFunction, x: Float[Tensor, "batch n_sites"], ratios: str
) -> InformedState:
    """Attach energies and log-ratios to bits."""
    if ratios == "exact":
        return InformedState(x, energy(x), neighbor_log_ratios(energy, x))
    seen: list[Tensor] = []

    def remember(y: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        seen.append(energy(y))
        return seen[-1]

    # The gradient's forward pass is all that the energy itself needs.
    log_ratios = taylor_log_ratios(remember, x)
    return InformedState(x, seen[0].detach(), log_ratios)


@torch.no_grad()
def start_informed(
    energy: EnergyFunction, ratios: str, x: Float[Tensor, "batch n_sites"]
) -> InformedState:
    """State of the chains' start, refused as by `start_energy`."""
    start_energy(energy, x)
    return informed_state(energy, x, ratios)


def metropolis_log_acceptance(
    log_ratio: Float[Tensor, "*shape"],
    log_forward: Float[Tensor, "*shape"],
    log_backward: Float[Tensor, "*shape"],
) -> Float[Tensor, "*shape"]:
    """Log-probability of accepting y, proposed at x.

    It is min(0, log_ratio + log_backward - log_forward).

    Parameters
    ----------
    log_ratio
        log p(y) - log p(x), exact.
    log_forward, log_backward
        log q(y | x) and log q(x | y).
    """
    return (log_ratio + log_backward - log_forward).clamp(max=0)


def accept_or_stay(
    state: InformedState,
    proposal: InformedState,
    log_acceptance: Float[Tensor, " batch"],
    *,
    generator: torch.Generator,
) -> tuple[InformedState, StepInfo]:
    """Move each chain to its proposal with the given log-probability."""
    noise = exponential(
        log_acceptance.shape,
        generator=generator,
        dtype=log_acceptance.dtype,
        device=log_acceptance.device,
    )
    # A state without probability is refused, whatever the log-ratios there are.
    outside = proposal.energy == torch.inf
    log_acceptance = torch.where(outside, -torch.inf, log_acceptance)
    # An energy that is NaN compares as False: the chain stays where it is.
    accept = log_acceptance > -noise
    column = accept[:, None]
    new = InformedState(
        x=torch.where(column, proposal.x, state.x),
        energy=torch.where(accept, proposal.energy, state.energy),
        log_ratios=torch.where(column, proposal.log_ratios, state.log_ratios),
    )
    n_changed = (new.x - state.x).abs().sum(1)
    return new, StepInfo(log_acceptance.exp(), n_changed)
