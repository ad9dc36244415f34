"""Exact simulation of a flow by thinning, and a bound of the log-likelihood.

The weights of the exact simulation have the mean Z_1 / Z_0. Along exactly simulated
states the path weights have this mean, too, and are more useful: only there does their
effective sample size measure how well the rates are learned.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, InputError, Positive, checked
from ebmtut.flows.rates import Flow
from ebmtut.flows.simulation import WatchedFlow, neighbor_at
from ebmtut.random import categorical, check_generator
from ebmtut.tensor_checks import check_shape

__all__ = ["ExactRollout", "reverse_elbo", "simulate_exact"]


class ExactRollout(NamedTuple):
    """What :func:`simulate_exact` returns.

    Attributes
    ----------
    x
        Last states, ``(n, n_sites)``.
    log_weights
        Log-weights of the exact simulation.
    path_log_weights
        Integral of xi_t along the states, by the trapezoid.
    n_candidates
        Evaluations of the network, mean over the states.
    n_jumps
        Jumps, mean over the states.
    n_exceeded
        Candidates whose rate was above the bound; must be 0 for exactness.
    """

    x: Tensor
    log_weights: Tensor
    path_log_weights: Tensor | None
    n_candidates: float
    n_jumps: float
    n_exceeded: int


@torch.no_grad()
@checked
def simulate_exact(
    flow: Flow,
    n: Count,
    *,
    bound: Positive,
    generator: torch.Generator,
    path_weights: bool = False,
) -> ExactRollout:
    """Sample the chain in continuous time, by thinning.

    Candidates come at the constant rate ``bound``; one is a jump with probability R /
    bound. The weight compares with the reversed process, thinned at the same times: a
    jump's ratio cancels, another candidate contributes (bound - total inward) / (bound
    - total outward). There is no time step.

    Parameters
    ----------
    flow
        What to simulate; it must not clip its ratios.
    bound
        Larger than the total rate outward and inward of every state met.
    path_weights
        Whether to integrate xi_t as well, for one more evaluation per jump.

    Raises
    ------
    DivergenceError
        If a rate or an energy is not finite; names the time and the largest ratio.

    Examples
    --------
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.flows import Flow, OddLatticeNetwork, simulate_exact
    >>> from ebmtut.paths import AnnealingPath
    >>> from ebmtut.random import make_generator
    >>> network = OddLatticeNetwork(3, width=4, n_hidden=4, generator=make_generator(0))
    >>> flow = Flow(AnnealingPath(LatticeIsing(3, 0.2)), network)
    >>> simulate_exact(flow, 5, bound=20, generator=make_generator(1)).x.shape
    torch.Size([5, 9])
    """
    start = flow.path.sample_start(n, generator=generator)
    return _thin(flow, start, bound, generator=generator, path_weights=path_weights)


@torch.no_grad()
@checked
def reverse_elbo(
    flow: Flow,
    x: Float[Tensor, "n n_sites"],
    *,
    bound: Positive,
    generator: torch.Generator,
) -> Float[Tensor, " n"]:
    """Bound the log-likelihood of states under the flow from below.

    Over the exactly simulated reversed paths, log p_0 times the ratio of both processes
    has a mean of at most the log-probability of the state (Ou, Zhang and Li 2025,
    Appendix D.1).

    Parameters
    ----------
    flow
        What to evaluate; it must not clip its ratios.

    Returns
    -------
    bound
        A random value per state, in nats; the mean of its exponential is the
        probability.

    Raises
    ------
    DivergenceError
        As in `simulate_exact`.
    """
    check_shape("x", x, (None, flow.path.n_sites))
    found = _thin(flow, x.clone(), bound, generator=generator, reverse=True)
    if found.n_exceeded:
        raise InputError(
            f"bound must be above every total rate, got {bound:g}, which was "
            f"exceeded {found.n_exceeded} times"
        )
    end = flow.path.log_density(x, 1.0)
    return end - flow.path.log_partition_start - found.log_weights


class _Integral:
    """Integral of xi_t along states that jump between evaluations."""

    def __init__(self, flow: WatchedFlow, x: Tensor) -> None:
        self.flow = flow
        self.xi = flow.terms(x, 0.0).xi
        self.total = torch.zeros_like(self.xi)

    def wait(self, rows: Tensor, passed: Tensor, xi: Tensor) -> None:
        """Add a stretch of time without a jump, at whose end xi is given."""
        self.total[rows] += passed * (self.xi[rows] + xi) / 2
        self.xi[rows] = xi

    def jump(self, rows: Tensor, x: Tensor, t: Tensor) -> None:
        """Begin anew in other states."""
        self.xi[rows] = self.flow.terms(x, t).xi


def _thin(
    flow: Flow,
    x: Tensor,
    bound: float,
    *,
    generator: torch.Generator,
    reverse: bool = False,
    path_weights: bool = False,
) -> ExactRollout:
    """Simulate either process exactly, changing ``x`` to its last states."""
    path, n = flow.path, len(x)
    if flow.max_log_ratio is not None:
        raise InputError(
            "max_log_ratio must be None for an exact simulation, got "
            f"{flow.max_log_ratio:g}"
        )
    check_generator(generator, x.device)
    watched = WatchedFlow(flow)
    integral = _Integral(watched, x) if path_weights else None
    passed = x.new_zeros(n)
    log_weights = x.new_zeros(n)
    n_candidates = n_jumps = n_exceeded = 0
    alive = torch.arange(n, device=x.device)
    while len(alive):
        wait = x.new_empty(len(alive)).exponential_(bound, generator=generator)
        now = (passed[alive] + wait).clamp(max=1.0)
        here = x[alive]
        step = now - passed[alive]
        derivative = path.time_derivative(here)
        watched.note(derivative, 1 - now if reverse else now)
        log_weights[alive] += step * derivative
        passed[alive] = now
        if integral is not None and bool((over := now == 1).any()):
            xi = watched.terms(here[over], 1.0).xi
            integral.wait(alive[over], step[over], xi)
        on = now < 1
        alive, now, here, step = alive[on], now[on], here[on], step[on]
        if not len(alive):
            break
        terms = watched.terms(here, 1 - now if reverse else now)
        if integral is not None:
            integral.wait(alive, step, terms.xi)
        outward, inward = (v.flatten(1) / bound for v in (terms.outward, terms.inward))
        total_out, total_in = outward.sum(1), inward.sum(1)
        n_candidates += len(alive)
        n_exceeded += int(((total_out >= 1) | (total_in >= 1)).sum())
        rates, total = (inward, total_in) if reverse else (outward, total_out)
        chance = torch.rand(
            len(alive), generator=generator, device=x.device, dtype=torch.float32
        )
        jump = chance < total
        stay = (-total_in[~jump]).log1p() - (-total_out[~jump]).log1p()
        log_weights[alive[~jump]] += stay
        n_jumps += int(jump.sum())
        if jump.any():
            move = categorical(rates[jump].log(), generator=generator)
            x[alive[jump]] = y = neighbor_at(here[jump], move, path.n_states)
            if integral is not None:
                integral.jump(alive[jump], y, now[jump])
    watched.check()
    integrated = None if integral is None else integral.total
    return ExactRollout(
        x, log_weights, integrated, n_candidates / n, n_jumps / n, n_exceeded
    )
