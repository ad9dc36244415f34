"""Simulation of a flow in discrete time steps, with its weights.

*Path weights*, the paper's, integrate xi_t along the simulated states: exact for
continuous time. *Discrete-time weights* compare the probability of each step with that
of its reversal. Their mean is Z_1 / Z_0 for Euler steps that do not overflow; for
tau-leaping it is at most that, since reversed one-way rates may flip two sites at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, DivergenceError, OneOf, check_range, checked
from ebmtut.flows.rates import Flow, FlowTerms, RatioInfo
from ebmtut.paths import AnnealingPath, Time
from ebmtut.random import bernoulli, categorical, check_generator
from ebmtut.samplers import dmala, run_chain
from ebmtut.tensor_checks import check_shape

__all__ = ["Kernel", "Rollout", "dmala_kernel", "gibbs_kernel", "simulate"]


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
    n_jumps
        Sites that changed, mean over the states, without the kernel's changes.
    log_weights
        Integrals of xi_t along the path.
    chain_log_weights
        Discrete-time log-weights, -inf where the reversed chain cannot step.
    states
        All states, ``(n_steps + 1, n, n_sites)``, where ``keep_states``.
    xi
        xi_t there, ``(n_steps + 1, n)``.
    n_overflows
        Steps whose rates were too large for a probability.
    n_clipped
        Log-ratios that the flow clipped.
    """

    x: Tensor
    log_weights: Tensor
    chain_log_weights: Tensor | None
    states: Tensor | None
    xi: Tensor | None
    n_jumps: float
    n_overflows: int
    n_clipped: int


@checked
def gibbs_kernel(path: AnnealingPath, colors: Tensor) -> Kernel:
    """One Gibbs sweep by colour class at time t of a path.

    Sites of more than two states are sampled from the softmax of the log-ratios.

    Parameters
    ----------
    colors
        Colour of each site; sites of one colour must not interact (`lattice_coloring`).

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing, lattice_coloring
    >>> from ebmtut.flows import gibbs_kernel
    >>> from ebmtut.paths import AnnealingPath
    >>> from ebmtut.random import make_generator
    >>> kernel = gibbs_kernel(AnnealingPath(LatticeIsing(4, 0.2)), lattice_coloring(4))
    >>> kernel(torch.zeros(5, 16), 0.5, generator=make_generator(0)).shape
    torch.Size([5, 16])
    """
    check_shape("colors", colors, (path.n_sites,))
    masks = [colors == color for color in torch.unique(colors)]
    classes = [(mask, mask.nonzero()[:, 0]) for mask in masks]
    is_binary = path.n_states == 2

    @torch.no_grad()
    def kernel(x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        for mask, sites in classes:
            log_ratios = path.log_ratios(x, t, sites)
            if is_binary:
                flip = bernoulli(log_ratios.sigmoid(), generator=generator)
                new = (x - flip).abs()
            else:
                new = categorical(log_ratios, generator=generator).to(x)
            x = torch.where(mask.to(x.device), new, x)
        return x

    return kernel


@checked
def dmala_kernel(path: AnnealingPath, step_size: float, n_steps: Count = 1) -> Kernel:
    """Some steps of the discrete Metropolis-adjusted Langevin algorithm.

    Parameters
    ----------
    step_size, n_steps
        alpha of Zhang et al. (2022), and steps per call.
    """
    check_range("n_states of the path", path.n_states, low=2, high=2)

    def kernel(x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        sampler = dmala(path.at(t), step_size, ratios="exact")
        return run_chain(sampler, x, n_steps, generator=generator).x_final

    return kernel


@torch.no_grad()
@checked
def simulate(
    flow: Flow,
    n: Count,
    n_steps: Count,
    *,
    generator: torch.Generator,
    method: Annotated[str, OneOf(_STEPS)] = "tau_leaping",
    quadrature: Annotated[str, OneOf(("trapezoid", "left"))] = "trapezoid",
    refine: Kernel | None = None,
    chain_weights: bool = False,
    keep_states: bool = False,
    start: Float[Tensor, "n n_sites"] | None = None,
) -> Rollout:
    """Follow a flow from t = 0 to 1 in equal steps of time.

    Parameters
    ----------
    n, n_steps
        Chains; steps, each one evaluation of the network, two for chain weights.
    method
        "euler": at most one site jumps per step (Equation 2); "tau_leaping": every site
        may.
    quadrature
        "trapezoid", or the "left" sum of xi, which has an error of first order.
    refine
        Kernel applied after every step at its time.
    chain_weights
        Whether to compute the weights of the discrete chain as well.
    keep_states
        Whether to keep all states and xi.
    start
        States at t = 0 instead of samples of p_0.

    Raises
    ------
    DivergenceError
        If xi_t is not finite somewhere; names the step and the largest ratio.

    Examples
    --------
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.flows import Flow, OddLatticeNetwork, simulate
    >>> from ebmtut.paths import AnnealingPath
    >>> from ebmtut.random import make_generator
    >>> network = OddLatticeNetwork(4, width=8, n_hidden=8, generator=make_generator(0))
    >>> flow = Flow(AnnealingPath(LatticeIsing(4, 0.2)), network)
    >>> simulate(flow, 5, 20, generator=make_generator(1)).log_weights.shape
    torch.Size([5])
    """
    path = flow.path
    x = path.sample_start(n, generator=generator) if start is None else start
    check_shape("start", x, (n, path.n_sites))
    check_generator(generator, x.device)
    step, log_step = _STEPS[method]
    dt = 1 / n_steps
    watched = WatchedFlow(flow)
    here, info = watched.evaluate(x, 0.0)
    log_weights = torch.zeros_like(here.xi)
    chain = torch.zeros_like(log_weights) if chain_weights else None
    states, xis = [x], [here.xi]
    # Counted where the states lie, and read at the end: no step waits for a GPU.
    n_jumps = torch.zeros((), dtype=torch.long, device=x.device)
    n_overflows, n_clipped = torch.zeros_like(n_jumps), info.n_clipped
    for k in range(n_steps):
        old, t_old, t_new = x, k * dt, min((k + 1) * dt, 1.0)
        x, overflows = step(old, here.outward, dt, generator=generator)
        n_overflows += overflows
        n_jumps += (x != old).sum()
        if chain is not None:
            back = watched.terms(x, t_old)
            chain += path.log_density(x, t_new) - path.log_density(old, t_old)
            chain += log_step(x, old, back.inward, dt)
            chain -= log_step(old, x, here.outward, dt)
        if refine is not None:
            x = refine(x, t_new, generator=generator)
        there, info = watched.evaluate(x, t_new)
        n_clipped = n_clipped + info.n_clipped
        if quadrature == "left":
            log_weights += dt * here.xi
        else:
            log_weights += dt / 2 * (here.xi + there.xi)
        here = there
        if keep_states:
            states.append(x)
            xis.append(here.xi)
    watched.check(n_steps)
    return Rollout(
        x,
        log_weights,
        chain,
        torch.stack(states) if keep_states else None,
        torch.stack(xis) if keep_states else None,
        int(n_jumps) / n,
        int(n_overflows),
        int(n_clipped),
    )


class WatchedFlow:
    """A flow whose terms are watched; no evaluation waits for a GPU.

    Terms and information of one evaluation do not say when a value was first lost.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        # Of each look: the first time at which a value was not finite, or infinity.
        self._lost: list[Tensor] = []
        self._largest: list[Tensor] = []

    def terms(self, x: Tensor, t: Time) -> FlowTerms:
        """Return the flow's own terms, whose xi_t is watched."""
        return self.evaluate(x, t)[0]

    def evaluate(self, x: Tensor, t: Time) -> tuple[FlowTerms, RatioInfo]:
        """Return the flow's own terms, whose xi_t is watched, and the log-ratios."""
        terms, info = self._flow.evaluate(x, t)
        self._largest.append(info.largest)
        self.note(terms.xi, t)
        return terms, info

    def note(self, values: Float[Tensor, " batch"], t: Time) -> None:
        """Watch what else a simulation reads at some times."""
        self._lost.append(torch.where(values.isfinite(), math.inf, t).min())

    def check(self, n_steps: int | None = None) -> None:
        """Raise an error that names the first time of a value that is not finite.

        Raises
        ------
        DivergenceError
            If there is one; names its time and the largest log-ratio, NaN left out.
        """
        times = torch.stack(self._lost).tolist()
        if (t := min(times)) == math.inf:
            return
        step = times.index(t) if n_steps is None else round(t * n_steps)
        where = "" if n_steps is None else f"step {step}, "
        met = [v for v in map(float, self._largest) if not math.isnan(v)]
        raise DivergenceError(
            f"flow diverged at {where}t = {t:.3g}: its largest log-ratio was "
            f"{max(met, default=math.nan):.3g}",
            step,
        )


def neighbor_at(x: Tensor, move: Tensor, n_states: int) -> Tensor:
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
) -> tuple[Tensor, int | Tensor]:
    """Make at most one jump, from the categorical distribution 1 + R dt."""
    n_states = 2 if rates.ndim == 2 else rates.shape[2]
    jump = rates.flatten(1) * dt
    total = jump.sum(1)
    move = bernoulli(total.clamp(max=1), generator=generator) == 1
    y = x.clone()
    if move.any():
        site = categorical(jump[move].log(), generator=generator)
        y[move] = neighbor_at(x[move], site, n_states)
    return y, (total > 1).sum()


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
) -> tuple[Tensor, int | Tensor]:
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


_Step = Callable[..., tuple[Tensor, int | Tensor]]
_LogStep = Callable[[Tensor, Tensor, Tensor, float], Tensor]
_STEPS: dict[str, tuple[_Step, _LogStep]] = {
    "euler": (_euler, _log_euler),
    "tau_leaping": (_tau_leaping, _log_tau_leaping),
}
