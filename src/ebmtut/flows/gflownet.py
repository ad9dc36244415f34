"""GFlowNets on bits: states are filled in site by site, in an order that is learned.

The forward policy picks a blank site and a bit for it, the backward policy a site to
blank again; with both trained to trajectory balance, the last state is a sample of p(x)
proportional to exp(-E(x)) (Malkin et al., 2022; Zhang et al., 2022).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ebmtut._layers import linear
from ebmtut.checks import (
    Count,
    InputError,
    Probability,
    Range,
    check_range,
    check_type,
    checked,
)
from ebmtut.energies import EnergyFunction, energies_of
from ebmtut.random import categorical, check_generator
from ebmtut.states import index_to_states
from ebmtut.tensor_checks import check_bits, check_states

__all__ = [
    "BitsGFlowNet",
    "Trajectories",
    "back_and_forth",
    "backward_trajectories",
    "forward_trajectories",
    "terminal_distribution",
    "trajectory_balance_loss",
]

#: How a blank is written among the bits 0 and 1.
BLANK = -1.0

_MOST_ENUMERATED_SITES = 12


class Trajectories(NamedTuple):
    """Complete trajectories from the blank state to bits, with their probabilities.

    Attributes
    ----------
    x
        Last states, bits.
    log_forward
        Log-probability of the trajectory under the forward policy.
    log_backward
        Under the backward policy, given its end.
    """

    x: Float[Tensor, "batch n_sites"]
    log_forward: Float[Tensor, " batch"]
    log_backward: Float[Tensor, " batch"]


class BitsGFlowNet(nn.Module):
    """Both policies of a GFlowNet on bits, and its log Z: one network.

    Parameters
    ----------
    hidden, n_layers
        Units of a hidden layer, and linear layers.

    Attributes
    ----------
    log_z
        Estimate of log Z, learned.

    Examples
    --------
    >>> from ebmtut.flows import BitsGFlowNet, forward_trajectories
    >>> from ebmtut.random import make_generator
    >>> policy = BitsGFlowNet(6, hidden=16, generator=make_generator(0))
    >>> forward_trajectories(policy, 5, generator=make_generator(1)).x.shape
    torch.Size([5, 6])
    """

    @checked
    def __init__(
        self,
        n_sites: Count,
        hidden: Count = 256,
        n_layers: Annotated[int, Range(low=2)] = 3,
        *,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        check_generator(generator)
        self.n_sites = n_sites
        widths = [2 * n_sites] + [hidden] * (n_layers - 1) + [3 * n_sites]
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(widths):
            layers += [linear(n_in, n_out, generator), nn.SiLU()]
        self.net = nn.Sequential(*layers[:-1])
        self.log_z = nn.Parameter(torch.zeros((), dtype=torch.float32, device="cpu"))

    def forward(
        self, partial: Float[Tensor, "batch n_sites"]
    ) -> tuple[Float[Tensor, "batch n_moves"], Float[Tensor, "batch n_sites"]]:
        """Log-probabilities of both policies' moves from bits and blanks (-1).

        Returns
        -------
        logits
            Of writing a 0, of writing a 1, and of blanking each site; -inf where
            impossible.
        """
        check_states("partial", partial, self.n_sites)
        filled = partial != BLANK
        inputs = torch.cat([partial * filled, filled.to(partial)], 1)
        out = self.net(inputs)
        n_moves = 2 * self.n_sites
        # A value instead of -inf, so that a row without a move has no NaN.
        forth = _masked(out[:, :n_moves], ~filled.repeat(1, 2))
        return forth, _masked(out[:, n_moves:], filled)


@checked
def forward_trajectories(
    policy: BitsGFlowNet,
    n: Count,
    *,
    generator: torch.Generator,
    explore: Probability = 0,
) -> Trajectories:
    """Sample trajectories from the blank state to bits, differentiably.

    Parameters
    ----------
    explore
        Probability of a uniform move; the log-probabilities are still the policy's.
    """
    check_generator(generator, policy.log_z.device)
    blank = policy.log_z.detach().new_full((n, policy.n_sites), BLANK)
    return _fill(policy, blank, generator=generator, explore=explore)


@checked
def backward_trajectories(
    policy: BitsGFlowNet,
    x: Float[Tensor, "batch n_sites"],
    *,
    generator: torch.Generator,
) -> Trajectories:
    """Sample trajectories that end in given bits, backwards, differentiably."""
    _check_ends(policy, x)
    check_generator(generator, x.device)
    way = _erase(policy, x, policy.n_sites, generator=generator)
    return way._replace(x=x)


@checked
@torch.no_grad()
def back_and_forth(
    policy: BitsGFlowNet,
    energy: EnergyFunction,
    x: Float[Tensor, "batch n_sites"],
    n_sites: Count,
    *,
    generator: torch.Generator,
) -> tuple[Float[Tensor, "batch n_sites"], Bool[Tensor, " batch"]]:
    """Take one Metropolis-Hastings step that blanks some sites and fills them anew.

    Returns the new states, and whether each chain accepted its proposal.

    The backward policy picks the sites, the forward policy fills them (Zhang et al.,
    2022). The move x -> x' is accepted with probability min(1, r),

        r = exp(E(x) - E(x')) P_B(tau' | x') P_F(tau) / (P_B(tau | x) P_F(tau')),

    where the trajectory tau leads from the partial state to x and tau' from there to
    x'. The step leaves exp(-E) invariant whatever the policies are.
    """
    _check_ends(policy, x)
    check_range("n_sites", n_sites, low=1, high=policy.n_sites, integer=True)
    check_generator(generator, x.device)
    back = _erase(policy, x, n_sites, generator=generator)
    forth = _fill(policy, back.x, generator=generator)
    log_ratio = energies_of(energy, x) - energies_of(energy, forth.x)
    log_ratio = log_ratio + forth.log_backward - forth.log_forward
    log_ratio = log_ratio + back.log_forward - back.log_backward
    chance = torch.rand(
        len(x), generator=generator, device=x.device, dtype=torch.float32
    )
    accepted = chance.log() < log_ratio
    return torch.where(accepted[:, None], forth.x, x), accepted


def _check_ends(policy: BitsGFlowNet, x: Tensor) -> None:
    """Require bits in the dtype of the policy's weights."""
    check_type("policy", policy, BitsGFlowNet)
    check_bits("x", x, policy.n_sites)
    if x.dtype != policy.log_z.dtype:
        raise InputError(
            f"x must have the dtype of the policy, {policy.log_z.dtype}, got {x.dtype}"
        )


def explored(
    logits: Float[Tensor, "batch n_moves"],
    explore: float,
    *,
    generator: torch.Generator,
) -> Int[Tensor, " batch"]:
    """Sample moves by their log-probabilities, a fraction of them uniformly."""
    drawn = logits.detach()
    if explore:
        chance = torch.rand(
            len(drawn), 1, generator=generator, device=drawn.device, dtype=torch.float32
        )
        drawn = torch.where((chance < explore) & (drawn > -torch.inf), 0.0, drawn)
    return categorical(drawn, generator=generator)


def _fill(
    policy: BitsGFlowNet,
    partial: Tensor,
    *,
    generator: torch.Generator,
    explore: float = 0,
) -> Trajectories:
    """Follow the forward policy from states with as many blanks each."""
    n, d = partial.shape
    log_forward = log_backward = policy.log_z.new_zeros(n)
    forth, _ = policy(partial)
    for _ in range(int((partial == BLANK).sum()) // max(n, 1)):
        move = explored(forth, explore, generator=generator)[:, None]
        log_forward = log_forward + forth.gather(1, move).squeeze(1)
        site, bit = move % d, (move // d).to(partial)
        partial = partial.scatter(1, site, bit)
        forth, back = policy(partial)
        log_backward = log_backward + back.gather(1, site).squeeze(1)
    return Trajectories(partial, log_forward, log_backward)


def _erase(
    policy: BitsGFlowNet, x: Tensor, n_sites: int, *, generator: torch.Generator
) -> Trajectories:
    """Follow the backward policy from bits; return partial states and trajectories."""
    log_forward = log_backward = x.new_zeros(len(x))
    partial = x
    _, back = policy(partial)
    for _ in range(n_sites):
        site = categorical(back.detach(), generator=generator)[:, None]
        log_backward = log_backward + back.gather(1, site).squeeze(1)
        move = site + policy.n_sites * partial.gather(1, site).long()
        partial = partial.scatter(1, site, BLANK)
        forth, back = policy(partial)
        log_forward = log_forward + forth.gather(1, move).squeeze(1)
    return Trajectories(partial, log_forward, log_backward)


def trajectory_balance_loss(
    policy: BitsGFlowNet, energy: EnergyFunction, ways: Trajectories
) -> Float[Tensor, ""]:
    """Mean of (log Z + log P_F(tau) - log P_B(tau | x) + E(x))^2 over trajectories tau.

    If it is zero for every trajectory, the policy samples x from exp(-E(x)) / Z.
    """
    with torch.no_grad():
        target = -energies_of(energy, ways.x)
    balance = policy.log_z + ways.log_forward - ways.log_backward - target
    return balance.square().mean()


@checked
def terminal_distribution(policy: BitsGFlowNet) -> Float[Tensor, " n_states"]:
    """Exact log-probabilities of the last states, by summing over trajectories.

    Parameters
    ----------
    policy
        Of at most 12 sites: there are 3**n_sites partial states.

    Returns
    -------
    log_probabilities
        In the order of `enumerate_states`.
    """
    d = policy.n_sites
    check_range("n_sites", d, low=1, high=_MOST_ENUMERATED_SITES, integer=True)
    # Digits 0, 1, 2 for bits and blank; a move adds to the number of the state.
    partial = index_to_states(torch.arange(3**d, device="cpu"), d, 3).to(policy.log_z)
    partial = torch.where(partial == 2, BLANK, partial)
    with torch.no_grad():
        forth, _ = policy(partial)
    place = 3 ** torch.arange(d - 1, -1, -1, device="cpu")
    jump = torch.cat([-2 * place, -place])
    distribution = forth.new_full((3**d,), -torch.inf)
    distribution[-1] = 0
    n_blank = (partial == BLANK).sum(1)
    for blanks in range(d, 0, -1):
        here = (n_blank == blanks).nonzero()[:, 0]
        flow = distribution[here, None] + forth[here]
        row, move = (flow > -torch.inf).nonzero(as_tuple=True)
        to = here[row] + jump[move]
        found = flow[row, move]
        # The sum of exponentials over the largest, which does not underflow.
        top = torch.full_like(distribution, -torch.inf).scatter_reduce(
            0, to, found, "amax"
        )
        mass = torch.zeros_like(distribution).index_add(0, to, (found - top[to]).exp())
        distribution = torch.where(mass > 0, top + mass.log(), distribution)
    return distribution[n_blank == 0]


def _masked(logits: Tensor, possible: Tensor) -> Tensor:
    """Log-softmax over what is possible, -inf elsewhere."""
    logits = logits.masked_fill(~possible, torch.finfo(logits.dtype).min)
    return logits.log_softmax(1).masked_fill(~possible, -torch.inf)
