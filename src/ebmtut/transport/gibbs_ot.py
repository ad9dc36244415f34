"""Gibbs-OT: a Gibbs sampler of the dual transport problem that is cooled.

At temperature T the Boltzmann law exp(V(g, h) / T) on the dual domain
g_i - h_j <= M_ij has independent exponential conditionals (Proposition 4.1),
and as T falls its draws gather at the optimal potentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ebmtut.checks import InputError, check_range
from ebmtut.tensor_checks import check_finite
from ebmtut.transport._chains import (
    Chain,
    CompiledChain,
    PlainChain,
    gibbs_ot_iteration,
)
from ebmtut.transport._noise_kernels import exponentials
from ebmtut.transport._problem import (
    as_temperatures,
    check_generator,
    check_problem,
)
from ebmtut.transport.duals import chain_value

__all__ = [
    "GibbsOTResult",
    "GibbsOTState",
    "GibbsOTTrace",
    "gibbs_ot",
    "gibbs_ot_iteration",
    "gibbs_ot_reference",
    "standard_exponential",
]

_DRAWS = 2**16  # exponentials held at a time: they stay in the cache


class GibbsOTState(NamedTuple):
    """The sampler's coordinates, enough to go on from.

    Attributes
    ----------
    g : Tensor
        ``(m1,)`` or ``(batch, m1)``; U where p has no mass, as g has no law.
    h : Tensor
        ``(m2,)`` or ``(batch, m2)``; L where q has no mass.
    """

    g: Tensor
    h: Tensor


class GibbsOTTrace(NamedTuple):
    """What was noted along the way.

    Attributes
    ----------
    iterations : Tensor
        After which iterations, ``(k,)``, the first being 1.
    V : Tensor
        V(z^(2t)), which is no bound, ``(k,)`` or ``(k, batch)``, float64.
    dual : Tensor
        The feasible dual value, a lower bound, of the same shape.
    """

    iterations: Tensor
    V: Tensor
    dual: Tensor


class GibbsOTResult(NamedTuple):
    """The last iteration's coordinates and statistics.

    Attributes
    ----------
    state : GibbsOTState
        Give it to the next call for a warm start.
    U : Tensor
        ``(m1,)`` or ``(batch, m1)``, the gradient of the loss in p.
    L : Tensor
        ``(m2,)`` or ``(batch, m2)``; minus the gradient in q.
    trace : GibbsOTTrace or None
        Where asked for.
    """

    state: GibbsOTState
    U: Tensor
    L: Tensor
    trace: GibbsOTTrace | None = None


def gibbs_ot(
    p: Tensor,
    q: Tensor,
    cost: Tensor,
    temperatures: Sequence[float] | Tensor,
    *,
    state: GibbsOTState | None = None,
    trace_every: int | None = None,
    complete: bool = True,
    generator: torch.Generator,
) -> GibbsOTResult:
    """Run Algorithm 1, the Gibbs sampler with a cooling schedule.

    On the CPU by compiled code, in ``torch.get_num_threads()`` threads where
    there are several problems. Tensors on another device take the way of
    :func:`gibbs_ot_reference`, problem by problem, which is slow.

    Parameters
    ----------
    p, q : Tensor
        Masses, ``(m1,)`` and ``(m2,)``, floating; or ``(batch, m1)`` and
        ``(batch, m2)``, many problems with one cost. Entries of zero take no
        part, so that every problem has the support that it needs.
    cost : Tensor
        M, ``(m1, m2)``, of the same dtype; +inf forbids a pair. No gradient
        flows into masses or cost: see :func:`~ebmtut.transport.wasserstein_loss`.
    temperatures : sequence of float or Tensor
        T^(1), ..., T^(2N), one for each half step; see
        :func:`~ebmtut.transport.temperatures_of`.
    state : GibbsOTState, optional
        Where to start, zeros by default. Only its g matters.
    trace_every : int, optional
        Note V and the feasible dual value after every so many iterations.
    complete : bool
        Whether U and L are worked out where there is no mass too, from the
        other side's potential. For a batch this can cost more than an
        iteration; without it they are +inf and -inf there.
    generator : torch.Generator
        Source of the exponentials. Neither tracing nor splitting a run in two
        by `state` changes what is drawn.

    Returns
    -------
    GibbsOTResult

    Raises
    ------
    InputError
        If masses are negative or don't sum to 1, the cost has another shape,
        a NaN or a row of infinities, a temperature is not positive, the state
        does not fit, or there is no generator.

    See Also
    --------
    gibbs_ot_reference : the same in plain torch.

    References
    ----------
    Ye, Wang and Li, A simulated annealing based inexact oracle for
    Wasserstein loss minimization, 2017, Algorithm 1.
    """
    return _run(None, p, q, cost, temperatures, state, trace_every, complete, generator)


def gibbs_ot_reference(
    p: Tensor,
    q: Tensor,
    cost: Tensor,
    temperatures: Sequence[float] | Tensor,
    *,
    state: GibbsOTState | None = None,
    trace_every: int | None = None,
    complete: bool = True,
    generator: torch.Generator,
) -> GibbsOTResult:
    """Run :func:`gibbs_ot` in plain torch, on any device, with the same draws.

    Parameters
    ----------
    p, q, cost, temperatures, state, trace_every, complete, generator
        As for :func:`gibbs_ot`.

    Returns
    -------
    GibbsOTResult
    """
    return _run(
        PlainChain, p, q, cost, temperatures, state, trace_every, complete, generator
    )


def _run(
    kind: type[PlainChain] | None,
    p: Tensor,
    q: Tensor,
    cost: Tensor,
    temperatures: Sequence[float] | Tensor,
    state: GibbsOTState | None,
    trace_every: int | None,
    complete: bool,
    generator: torch.Generator,
) -> GibbsOTResult:
    check_problem(p, q, cost)
    p, q, cost = p.detach(), q.detach(), cost.detach()
    schedule = as_temperatures(temperatures, p)
    if trace_every is not None:
        check_range("trace_every", trace_every, low=1, integer=True)
    check_generator(generator)
    g = start_of(state, p)
    chain = (kind or kind_for(p))(*map(torch.atleast_2d, (p, q, cost, g)))
    noted = []
    for block in schedule.split(trace_every or len(schedule)):
        advance(chain, block, generator)
        if len(block) == trace_every:
            noted.append(_values(chain))
    g, h, U, L = (x.view(*p.shape[:-1], -1) for x in chain.statistics(complete))
    trace = None
    if trace_every is not None:
        iterations = torch.arange(1, len(noted) + 1) * trace_every
        values = torch.tensor(noted, dtype=torch.float64).view(-1, 2, len(chain.p))
        shape = (-1, *p.shape[:-1])
        trace = GibbsOTTrace(iterations, *(x.reshape(shape) for x in values.unbind(1)))
    return GibbsOTResult(GibbsOTState(g, h), U, L, trace)


def kind_for(x: Tensor) -> type[PlainChain] | type[CompiledChain]:
    """Choose by the device."""
    return CompiledChain if x.device.type == "cpu" else PlainChain


def advance(chain: Chain, schedule: Tensor, generator: torch.Generator) -> None:
    """Do the iterations of a schedule, (n, 2), with fresh draws."""
    for chunk in schedule.split(max(1, _DRAWS // chain.n_draws)):
        theta = standard_exponential(len(chunk), chain.n_draws, generator=generator)
        chain.advance(chunk, theta)


def standard_exponential(rows: int, n: int, *, generator: torch.Generator) -> Tensor:
    """Draw exponentials of mean 1, never 0: how noise is made here.

    In float32, as noise needs no more digits; by inversion of uniform numbers
    of 24 bits, two from each 64-bit draw, which takes a tenth of the time of
    ``Tensor.exponential_``. Rows do not depend on how they are grouped.

    Parameters
    ----------
    rows, n : int
        Sizes.
    generator : torch.Generator
        Source of the bits; the draws are on its device.

    Returns
    -------
    Tensor
        ``(rows, n)``, float32.
    """
    check_generator(generator)
    draws = torch.empty(rows, -(-n // 2), dtype=torch.int64, device=generator.device)
    bits = draws.random_(generator=generator).view(torch.int32)[:, :n]
    if bits.device.type == "cpu":
        theta = torch.empty(rows, n)
        exponentials(bits.reshape(-1).numpy(), theta.view(-1).numpy())
        return theta
    u = (bits & 0xFFFFFF).float().mul_(2.0**-24).clamp_(min=2.0**-25)
    return u.log_().neg_()


def start_of(state: GibbsOTState | None, p: Tensor) -> Tensor:
    """Pick the g to start from."""
    if state is None:
        return torch.zeros_like(p)
    if not isinstance(state, GibbsOTState):
        raise InputError(f"state must be a GibbsOTState, got {type(state).__name__}")
    if state.g.shape != p.shape or state.g.dtype != p.dtype:
        raise InputError(
            f"state.g must have shape {tuple(p.shape)} and {p.dtype}, "
            f"got {tuple(state.g.shape)} and {state.g.dtype}"
        )
    check_finite("state.g", state.g.where(p > 0, 0))
    return state.g


def _values(chain: Chain) -> list[list[float]]:
    """V and the feasible dual value of every problem."""
    now = chain.statistics(complete=False)
    V = chain_value(chain.p, chain.q, now.U, now.L)
    return [V.tolist(), chain.dual_value().tolist()]
