"""Simulation of a flow, in steps of time or exactly, with its weights.

Three kinds of log-weights come out, and they are not the same. Those of
*continuous time* integrate xi_t along the simulated states: the paper's, exact
for the chain in continuous time, blind to the error of the steps. Those of the
*discrete chain* compare each step's probability with its reversal's; their
mean is Z_1 / Z_0 for Euler steps that do not overflow, however few they are.
For tau-leaping it is at most that: the reversed chain may flip two sites at
once that one-way rates cannot flip together, a loss of first order in the
step. Those of the *exact simulation* have the mean Z_1 / Z_0. Along exactly
simulated states the weights of continuous time have it, too, and are worth
more: only there does their ESS say how well the rates are learned.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, check_choice, check_range
from ebmtut.flows.rates import Flow
from ebmtut.paths import AnnealingPath
from ebmtut.random import bernoulli, categorical, check_generator
from ebmtut.samplers import dmala, run_chain
from ebmtut.tensor_checks import check_shape

__all__ = [
    "ExactRollout",
    "Kernel",
    "Rollout",
    "dmala_kernel",
    "gibbs_kernel",
    "reverse_elbo",
    "simulate",
    "simulate_exact",
]


@runtime_checkable
class Kernel(Protocol):
    """A Markov kernel that leaves p_t as it is, at any time of a path."""

    def __call__(self, x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        """Return new states for the states ``x`` at time ``t``."""


class Rollout(NamedTuple):
    """What :func:`simulate` returns.

    Attributes
    ----------
    x
        Last states, ``(n, n_sites)``.
    log_weights
        Integral of xi_t along the path, ``(n,)``: weights of continuous time.
    chain_log_weights
        Log-weights of the discrete chain, ``(n,)``; minus infinity where the
        reversed chain cannot make a step.
    states
        All states, ``(n_steps + 1, n, n_sites)``, and
    xi
        xi_t there, ``(n_steps + 1, n)``, where ``keep_states``.
    n_jumps
        Sites that changed, mean over the states, without the kernel's.
    n_overflows
        Steps whose rates were too large for a probability.
    n_clipped
        Log-ratios that the flow cut.
    """

    x: Tensor
    log_weights: Tensor
    chain_log_weights: Tensor | None
    states: Tensor | None
    xi: Tensor | None
    n_jumps: float
    n_overflows: int
    n_clipped: int


class ExactRollout(NamedTuple):
    """What :func:`simulate_exact` returns.

    Attributes
    ----------
    x
        Last states, ``(n, n_sites)``.
    log_weights
        Log-weights of the exact simulation, ``(n,)``.
    path_log_weights
        Integral of xi_t along the exactly simulated states, ``(n,)``, by the
        trapezoid over the candidates.
    n_candidates
        Evaluations of the network, mean over the states.
    n_jumps
        Jumps, mean over the states.
    n_exceeded
        Candidates at which the total rate was above the bound; it must be 0
        for the simulation to be exact.
    """

    x: Tensor
    log_weights: Tensor
    path_log_weights: Tensor | None
    n_candidates: float
    n_jumps: float
    n_exceeded: int


def gibbs_kernel(path: AnnealingPath, colors: Tensor) -> Kernel:
    """One Gibbs sweep by colour class at time t of a path over bits.

    Parameters
    ----------
    path
        Its law at time t is left as it is.
    colors
        Integer colour of each site, ``(n_sites,)``; sites of one colour must
        not interact, see :func:`ebmtut.energies.lattice_coloring`.

    Returns
    -------
    kernel
    """
    check_range("n_states of the path", path.n_states, low=2, high=2)
    check_shape("colors", colors, (path.n_sites,))
    classes = [colors == color for color in torch.unique(colors)]

    @torch.no_grad()
    def kernel(x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        for sites in classes:
            flip = bernoulli(path.log_ratios(x, t).sigmoid(), generator=generator)
            x = torch.where(sites.to(x.device), (x - flip).abs(), x)
        return x

    return kernel


def dmala_kernel(path: AnnealingPath, step_size: float, n_steps: int = 1) -> Kernel:
    """Some steps of the discrete Metropolis-adjusted Langevin algorithm.

    Parameters
    ----------
    path
        Its law at time t is left as it is.
    step_size
        alpha of Zhang et al. (2022).
    n_steps
        Steps a call.

    Returns
    -------
    kernel
    """
    check_range("n_states of the path", path.n_states, low=2, high=2)
    check_range("n_steps", n_steps, low=1, integer=True)

    def kernel(x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        sampler = dmala(path.at(t), step_size, ratios="exact")
        return run_chain(sampler, x, n_steps, generator=generator).x_final

    return kernel


@torch.no_grad()
def simulate(
    flow: Flow,
    n: int,
    n_steps: int,
    *,
    generator: torch.Generator,
    method: str = "tau_leaping",
    quadrature: str = "trapezoid",
    refine: Kernel | None = None,
    chain_weights: bool = False,
    keep_states: bool = False,
    start: Float[Tensor, "n n_sites"] | None = None,
) -> Rollout:
    """Follow a flow from t = 0 to 1 in equal steps of time.

    Parameters
    ----------
    flow
        What to simulate.
    n
        Number of chains.
    n_steps
        Steps, each one evaluation of the network; two for chain weights.
    generator
        Source of all randomness.
    method
        "euler": at most one site jumps a step (the paper's Equation 2);
        "tau_leaping": all sites may, each by its own.
    quadrature
        "trapezoid", or the "left" sum of xi, which is biased by
        -(E_1[d log p_1] - E_0[d log p_0]) / (2 n_steps) for a perfect flow.
    refine
        Kernel applied after every step at its time.
    chain_weights
        Whether to compute the weights of the discrete chain as well.
    keep_states
        Whether to keep all states and xi.
    start
        States at t = 0 instead of draws from p_0.

    Returns
    -------
    rollout

    Raises
    ------
    InputError
        If a number is out of range or a choice unknown.
    """
    check_range("n", n, low=1, integer=True)
    check_range("n_steps", n_steps, low=1, integer=True)
    check_choice("method", method, _STEPS)
    check_choice("quadrature", quadrature, ("trapezoid", "left"))
    path = flow.path
    x = path.sample_start(n, generator=generator) if start is None else start
    check_shape("start", x, (n, path.n_sites))
    check_generator(generator, x.device)
    step, log_step = _STEPS[method]
    dt = 1 / n_steps
    here = flow.terms(x, 0.0)
    log_weights = torch.zeros_like(here.xi)
    chain = torch.zeros_like(log_weights) if chain_weights else None
    states, xis = [x], [here.xi]
    n_jumps, n_overflows, n_clipped = 0.0, 0, here.n_clipped
    for k in range(n_steps):
        old, t_old, t_new = x, k * dt, min((k + 1) * dt, 1.0)
        x, overflows = step(old, here.outward, dt, generator=generator)
        n_overflows += overflows
        n_jumps += float((x != old).sum()) / n
        if chain is not None:
            back = flow.terms(x, t_old)
            chain += path.log_density(x, t_new) - path.log_density(old, t_old)
            chain += log_step(x, old, back.inward, dt)
            chain -= log_step(old, x, here.outward, dt)
        if refine is not None:
            x = refine(x, t_new, generator=generator)
        there = flow.terms(x, t_new)
        n_clipped += there.n_clipped
        if quadrature == "left":
            log_weights += dt * here.xi
        else:
            log_weights += dt / 2 * (here.xi + there.xi)
        here = there
        if keep_states:
            states.append(x)
            xis.append(here.xi)
    return Rollout(
        x,
        log_weights,
        chain,
        torch.stack(states) if keep_states else None,
        torch.stack(xis) if keep_states else None,
        n_jumps,
        n_overflows,
        n_clipped,
    )


@torch.no_grad()
def simulate_exact(
    flow: Flow,
    n: int,
    *,
    bound: float,
    generator: torch.Generator,
    path_weights: bool = False,
) -> ExactRollout:
    """Draw from the chain in continuous time, by thinning.

    Candidates come at the constant rate ``bound``; one is a jump with
    probability R / bound. The reversed process, thinned at the same times,
    gives the weight: a jump's factor is that of the path's law, which cancels
    against the law's own change, and a candidate that stays has
    (bound - total inward) / (bound - total outward). No step of time enters.

    Parameters
    ----------
    flow
        What to simulate; it must not cut its ratios.
    n
        Number of chains.
    bound
        Larger than the total rate outward and inward of every state met.
    generator
        Source of all randomness.
    path_weights
        Whether to integrate xi_t as well, for one more evaluation a jump.

    Returns
    -------
    exact_rollout
        Look at its ``n_exceeded``.

    Raises
    ------
    InputError
        If a number is out of range or the flow cuts its ratios.
    """
    check_range("n", n, low=1, integer=True)
    start = flow.path.sample_start(n, generator=generator)
    integral = _Integral(flow, start) if path_weights else None
    return _thin(flow, start, bound, generator=generator, integral=integral)


@torch.no_grad()
def reverse_elbo(
    flow: Flow,
    x: Float[Tensor, "n n_sites"],
    *,
    bound: float,
    generator: torch.Generator,
) -> Float[Tensor, " n"]:
    """Bound the log-likelihood of states under the flow from below.

    The reversed process, simulated exactly, takes a state back to t = 0. Over
    its paths the log of p_0 times the ratio of both processes has a mean of at
    most the log-probability with which the flow ends in the state (Ou, Zhang
    and Li 2025, Appendix D.1).

    Parameters
    ----------
    flow
        What to judge; it must not cut its ratios.
    x
        States, such as data.
    bound, generator
        As in `simulate_exact`.

    Returns
    -------
    bound
        One draw of the bound a state, in nats; the mean of its exponential is
        the probability itself.

    Raises
    ------
    InputError
        As in `simulate_exact`, or if a total rate is above the bound.
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

    def __init__(self, flow: Flow, x: Tensor) -> None:
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
    integral: _Integral | None = None,
) -> ExactRollout:
    """Simulate either process exactly, changing ``x`` to its last states."""
    path, n = flow.path, len(x)
    check_range("bound", bound, low=0, include_low=False)
    if flow.max_log_ratio is not None:
        raise InputError(
            "max_log_ratio must be None for an exact simulation, got "
            f"{flow.max_log_ratio:g}"
        )
    check_generator(generator, x.device)
    passed = x.new_zeros(n)
    log_weights = x.new_zeros(n)
    n_candidates = n_jumps = n_exceeded = 0
    alive = torch.arange(n, device=x.device)
    while len(alive):
        wait = x.new_empty(len(alive)).exponential_(bound, generator=generator)
        now = (passed[alive] + wait).clamp(max=1.0)
        here = x[alive]
        step = now - passed[alive]
        log_weights[alive] += step * path.time_derivative(here)
        passed[alive] = now
        if integral is not None and bool((over := now == 1).any()):
            xi = flow.terms(here[over], 1.0).xi
            integral.wait(alive[over], step[over], xi)
        on = now < 1
        alive, now, here, step = alive[on], now[on], here[on], step[on]
        if not len(alive):
            break
        terms = flow.terms(here, 1 - now if reverse else now)
        if integral is not None:
            integral.wait(alive, step, terms.xi)
        outward, inward = (v.flatten(1) / bound for v in terms[:2])
        total_out, total_in = outward.sum(1), inward.sum(1)
        n_candidates += len(alive)
        n_exceeded += int(((total_out >= 1) | (total_in >= 1)).sum())
        rates, total = (inward, total_in) if reverse else (outward, total_out)
        jump = torch.rand(len(alive), generator=generator, device=x.device) < total
        stay = (-total_in[~jump]).log1p() - (-total_out[~jump]).log1p()
        log_weights[alive[~jump]] += stay
        n_jumps += int(jump.sum())
        if jump.any():
            move = categorical(rates[jump].log(), generator=generator)
            x[alive[jump]] = y = _neighbor(here[jump], move, path.n_states)
            if integral is not None:
                integral.jump(alive[jump], y, now[jump])
    integrated = None if integral is None else integral.total
    return ExactRollout(
        x, log_weights, integrated, n_candidates / n, n_jumps / n, n_exceeded
    )


def _neighbor(x: Tensor, move: Tensor, n_states: int) -> Tensor:
    """The neighbour at a flat index of the log-ratios."""
    y = x.clone()
    rows = torch.arange(len(x), device=x.device)
    if n_states == 2:
        y[rows, move] = 1 - y[rows, move]
    else:
        y[rows, move // n_states] = (move % n_states).to(y)
    return y


def _euler(
    x: Tensor, rates: Tensor, dt: float, *, generator: torch.Generator
) -> tuple[Tensor, int]:
    """One jump at most: the categorical law 1 + R dt over a state's neighbours."""
    n_states = 2 if rates.ndim == 2 else rates.shape[2]
    jump = rates.flatten(1) * dt
    total = jump.sum(1)
    move = bernoulli(total.clamp(max=1), generator=generator) == 1
    y = x.clone()
    if move.any():
        site = categorical(jump[move].log(), generator=generator)
        y[move] = _neighbor(x[move], site, n_states)
    return y, int((total > 1).sum())


def _log_euler(x: Tensor, y: Tensor, rates: Tensor, dt: float) -> Tensor:
    """Log-probability of `_euler`'s step from x to y."""
    jump = rates.flatten(1) * dt
    total = jump.sum(1)
    scale = total.clamp(min=1)
    changed = x != y
    if rates.ndim == 2:
        probability = (changed * rates * dt).sum(1)
    else:
        to = rates.gather(2, y.long()[..., None]).squeeze(2)
        probability = (changed * to * dt).sum(1)
    stay = 1 - total.clamp(max=1)
    log_p = torch.where(changed.any(1), probability / scale, stay).log()
    return torch.where(changed.sum(1) > 1, -torch.inf, log_p)


def _tau_leaping(
    x: Tensor, rates: Tensor, dt: float, *, generator: torch.Generator
) -> tuple[Tensor, int]:
    """Every site by its own, with the rates of the step's start."""
    if rates.ndim == 2:
        flip = bernoulli(-torch.expm1(-rates * dt), generator=generator)
        return (x - flip).abs(), 0
    total = rates.sum(2)
    move = bernoulli(-torch.expm1(-total * dt), generator=generator) == 1
    target = categorical(rates.log(), generator=generator).to(x)
    return torch.where(move, target, x), 0


def _log_tau_leaping(x: Tensor, y: Tensor, rates: Tensor, dt: float) -> Tensor:
    """Log-probability of `_tau_leaping`'s step from x to y."""
    total = rates if rates.ndim == 2 else rates.sum(2)
    log_move = (-torch.expm1(-total * dt)).log()
    if rates.ndim == 3:
        to = rates.gather(2, y.long()[..., None]).squeeze(2)
        # Where all rates vanish the move is impossible, not undefined.
        log_move = torch.where(to > 0, log_move + (to / total).log(), -torch.inf)
    return torch.where(x != y, log_move, -total * dt).sum(1)


_Step = Callable[..., tuple[Tensor, int]]
_LogStep = Callable[[Tensor, Tensor, Tensor, float], Tensor]
_STEPS: dict[str, tuple[_Step, _LogStep]] = {
    "euler": (_euler, _log_euler),
    "tau_leaping": (_tau_leaping, _log_tau_leaping),
}
