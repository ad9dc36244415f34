"""Locally informed Metropolis-Hastings: propose the flips that p likes.

A proposal q(i | x) ∝ g(p(flip_i x) / p(x)) with g(t) = t g(1/t) is nearly reversible
(Zanella, 2020); an acceptance test mends the rest. Gibbs-with-gradients (Grathwohl et
al., ICML 2021) reads all the ratios off one gradient.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from ebmtut.checks import check_choice, checked
from ebmtut.energies import EnergyFunction
from ebmtut.random import categorical
from ebmtut.samplers.chain import Sampler, StepInfo
from ebmtut.samplers.gibbs import flip_sites
from ebmtut.samplers.metropolis import (
    InformedState,
    accept_or_stay,
    informed_state,
    metropolis_log_acceptance,
    ratio_function,
    start_informed,
)

__all__ = ["gwg", "gwg_log_proposal"]

_Balancing = Callable[[Float[Tensor, "*shape"]], Float[Tensor, "*shape"]]

_BALANCING: dict[str, _Balancing] = {
    "sqrt": lambda log_t: log_t / 2,
    "barker": logsigmoid,
    "min": lambda log_t: log_t.clamp(max=0),
    "max": lambda log_t: log_t.clamp(min=0),
}


def balancing_function(name: str) -> _Balancing:
    """Return log t -> log g(t) of a function with g(t) = t g(1/t) (Zanella, 2020)."""
    check_choice("balancing", name, tuple(_BALANCING))
    return _BALANCING[name]


def gwg_log_proposal(
    log_ratios: Float[Tensor, "batch n_sites"], balancing: str = "sqrt"
) -> Float[Tensor, "batch n_sites"]:
    """Log-probability of proposing to flip each site."""
    return torch.log_softmax(balancing_function(balancing)(log_ratios), dim=-1)


@checked
def gwg(
    energy: EnergyFunction, balancing: str = "sqrt", ratios: str = "taylor"
) -> Sampler:
    """Gibbs-with-gradients; one step proposes one flip in every chain.

    Parameters
    ----------
    balancing
        g(t): sqrt(t) ``"sqrt"``, the paper's, t / (1 + t) ``"barker"``, or min or max
        of 1 and t.
    ratios
        ``"taylor"``, first-order log-ratios as in Grathwohl et al. (2021), or
        ``"exact"``.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import gwg, run_chain
    >>> x = torch.zeros(5, 9)
    >>> g = make_generator(0)
    >>> run_chain(gwg(LatticeIsing(3, 0.2)), x, 30, generator=g).x_final.shape
    torch.Size([5, 9])
    """
    balancing_function(balancing)
    ratio_function(ratios)

    @torch.no_grad()
    def step(
        state: InformedState, *, generator: torch.Generator
    ) -> tuple[InformedState, StepInfo]:
        forward = gwg_log_proposal(state.log_ratios, balancing)
        site = categorical(forward, generator=generator)
        proposal = informed_state(energy, flip_sites(state.x, site), ratios)
        backward = gwg_log_proposal(proposal.log_ratios, balancing)
        column = site[:, None]
        log_acceptance = metropolis_log_acceptance(
            state.energy - proposal.energy,
            forward.gather(1, column)[:, 0],
            backward.gather(1, column)[:, 0],
        )
        return accept_or_stay(state, proposal, log_acceptance, generator=generator)

    return Sampler(partial(start_informed, energy, ratios), step)
