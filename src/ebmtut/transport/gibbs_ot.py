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

from ebmtut.checks import InputError, check_finite, check_range
from ebmtut.transport._problem import as_temperatures, check_problem
from ebmtut.transport.duals import chain_value, dual_value

__all__ = [
    "GibbsOTResult",
    "GibbsOTState",
    "GibbsOTTrace",
    "gibbs_ot",
    "gibbs_ot_iteration",
    "gibbs_ot_reference",
]


class GibbsOTState(NamedTuple):
    """The sampler's coordinates, enough to go on from.

    Attributes
    ----------
    g : Tensor
        ``(..., m1)``; U where p has no mass, whose g has no law.
    h : Tensor
        ``(..., m2)``; L where q has no mass.
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
        V(z^(2t)), which is no bound, ``(k,)``.
    dual : Tensor
        The feasible dual value, a lower bound, ``(k,)``.
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
        ``(..., m1)``, the gradient of the loss in p.
    L : Tensor
        ``(..., m2)``; minus the gradient in q.
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
    generator: torch.Generator,
) -> GibbsOTResult:
    """Run Algorithm 1, the Gibbs sampler with a cooling schedule.

    Parameters
    ----------
    p, q : Tensor
        Masses, ``(m1,)`` and ``(m2,)``, floating. Entries of zero take no
        part; their U and L are what the others imply.
    cost : Tensor
        M, ``(m1, m2)``, of the same dtype; +inf forbids a pair.
    temperatures : sequence of float or Tensor
        T^(1), ..., T^(2N), one for each half step; see
        :func:`~ebmtut.transport.temperatures_of`.
    state : GibbsOTState, optional
        Where to start, zeros by default. Only its g matters.
    trace_every : int, optional
        Note V and the feasible dual value after every so many iterations.
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
        a NaN or a row of infinities, or a temperature is not positive.

    See Also
    --------
    gibbs_ot_reference : the same in a few lines of torch.

    References
    ----------
    Ye, Wang and Li, A simulated annealing based inexact oracle for
    Wasserstein loss minimization, 2017, Algorithm 1.
    """
    return gibbs_ot_reference(
        p,
        q,
        cost,
        temperatures,
        state=state,
        trace_every=trace_every,
        generator=generator,
    )


def gibbs_ot_reference(
    p: Tensor,
    q: Tensor,
    cost: Tensor,
    temperatures: Sequence[float] | Tensor,
    *,
    state: GibbsOTState | None = None,
    trace_every: int | None = None,
    generator: torch.Generator,
) -> GibbsOTResult:
    """Run :func:`gibbs_ot` in plain torch, on any device, with the same draws."""
    check_problem(p, q, cost)
    schedule = as_temperatures(temperatures, p)
    if trace_every is not None:
        check_range("trace_every", trace_every, low=1, integer=True)
    g = start_of(state, p, q).g.masked_fill(p == 0, -torch.inf)
    noted = []
    for n, temperature in enumerate(schedule, start=1):
        theta = standard_exponential(len(p) + len(q), p, generator)
        (g, h), U, L = gibbs_ot_iteration(
            g, p, q, cost, temperature, theta[: len(q)], theta[len(q) :]
        )
        if trace_every and n % trace_every == 0:
            noted.append((n, chain_value(p, q, U, L), dual_value(p, q, cost, h=L)))
    state = GibbsOTState(torch.where(p > 0, g, U), torch.where(q > 0, h, L))
    return GibbsOTResult(state, U, L, as_trace(noted, trace_every))


def gibbs_ot_iteration(
    g: Tensor,
    p: Tensor,
    q: Tensor,
    cost: Tensor,
    temperature: Tensor,
    theta_h: Tensor,
    theta_g: Tensor,
) -> tuple[GibbsOTState, Tensor, Tensor]:
    """One iteration: h given g (Eq. 12), then g given h (Eq. 13).

    Parameters
    ----------
    g : Tensor
        ``(m1,)``.
    p, q, cost : Tensor
        The problem.
    temperature : Tensor
        The two half steps', ``(2,)``.
    theta_h, theta_g : Tensor
        Draws of the exponential law of mean 1, ``(m2,)`` and ``(m1,)``.
        Where there is no mass they count as infinite: that entry is left out.

    Returns
    -------
    tuple of GibbsOTState, Tensor, Tensor
        The new (g, h), then U and L.
    """
    L = (g[:, None] - cost).amax(0)
    h = L + theta_h * temperature[0] / q
    U = (cost + h).amin(1)
    g = U - theta_g * temperature[1] / p
    return GibbsOTState(g, h), U, L


def standard_exponential(
    n: int, like: Tensor, generator: torch.Generator, *, rows: int | None = None
) -> Tensor:
    """Exponentials of mean 1, never 0, ``(n,)`` or ``(rows, n)``.

    By inversion, which torch vectorises, at a fifth of the time of
    ``Tensor.exponential_``; the draws do not depend on how they are grouped.
    """
    shape = (n,) if rows is None else (rows, n)
    u = torch.rand(shape, generator=generator, dtype=like.dtype, device=like.device)
    tiny = torch.finfo(like.dtype).tiny
    return u.neg_().log1p_().neg_().clamp_(min=tiny)


def start_of(state: GibbsOTState | None, p: Tensor, q: Tensor) -> GibbsOTState:
    """The given state, checked, or zeros."""
    if state is None:
        return GibbsOTState(torch.zeros_like(p), torch.zeros_like(q))
    for name, x, like in (("g", state.g, p), ("h", state.h, q)):
        if x.shape != like.shape or x.dtype != like.dtype:
            raise InputError(
                f"state.{name} must have shape {tuple(like.shape)} and {like.dtype}, "
                f"got {tuple(x.shape)} and {x.dtype}"
            )
    check_finite("state.g", state.g.where(p > 0, 0))
    return state


def as_trace(
    noted: list[tuple[int, Tensor, Tensor]], trace_every: int | None
) -> GibbsOTTrace | None:
    """Gather what was noted, if anything was asked for."""
    if trace_every is None:
        return None
    iterations = torch.tensor([n for n, _, _ in noted])
    rows = [(float(V), float(dual)) for _, V, dual in noted]
    values = torch.tensor(rows, dtype=torch.float64)
    return GibbsOTTrace(iterations, *values.view(-1, 2).T)
