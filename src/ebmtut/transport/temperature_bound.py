"""The temperature bound of Appendix A, and the martingale behind it.

The distribution of a half step determines the expected change of V (Eq. 21), the
temperature at which V would not change in expectation (Eq. 24), and Theorem A.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float, Real
from torch import Tensor

from ebmtut.checks import Count, InputError, OneOf, Positive, Range, checked
from ebmtut.transport._problem import (
    as_temperatures,
    check_potential,
    check_problem,
    check_temperature,
    weighted_sum,
)
from ebmtut.transport.conditionals import distribution_of_L, distribution_of_U
from ebmtut.transport.gibbs_ot import (
    GibbsOTResult,
    GibbsOTState,
    gibbs_ot,
    standard_exponential,
)
from ebmtut.transport.temperatures import constant_temperatures

__all__ = [
    "BoundedRun",
    "Martingale",
    "bounded_gibbs_ot",
    "simulate_martingale",
    "temperature_bound",
]


class Drift(NamedTuple):
    """Expected change of V in a half step, O(z, T) of Eq. 21, and what bounds it."""

    change: Float[Tensor, "*batch"]
    c: Float[Tensor, "*batch"]
    d: Float[Tensor, "*batch"]

    def bound(self, temperature: float | Tensor) -> Float[Tensor, "*batch"]:
        """Eq. 24, at the temperature of the half step."""
        return temperature - self.change / self.c


def drift(
    p: Float[Tensor, " m1"],
    q: Float[Tensor, " m2"],
    cost: Float[Tensor, "m1 m2"],
    U: Float[Tensor, "*batch m1"],
    L: Float[Tensor, "*batch m2"],
    temperature: float | Float[Tensor, ""],
    following: str,
) -> Drift:
    """Eq. 21 and the constants of Theorem A.2; `following` is "L" or "U"."""
    if following == "L":
        mean, phi, _ = distribution_of_L(cost, temperature, U, p)
        change = weighted_sum(q, L) - weighted_sum(q, mean)
        spread = regret(cost.T - U[..., None, :], p)
        return Drift(change, weighted_sum(q, phi), weighted_sum(q, spread))
    mean, phi, _ = distribution_of_U(cost, temperature, L, q)
    change = weighted_sum(p, mean) - weighted_sum(p, U)
    spread = regret(cost + L[..., None, :], q)
    return Drift(change, weighted_sum(p, phi), weighted_sum(p, spread))


def regret(
    x: Float[Tensor, "*batch n_points n_others"], weights: Float[Tensor, " n_others"]
) -> Float[Tensor, "*batch n_points"]:
    """R(x; w) of Theorem A.2: the weighted mean less the smallest."""
    smallest = x.masked_fill(weights == 0, torch.inf).amin(-1)
    return weighted_sum(weights, x) - smallest


@checked
def temperature_bound(
    p: Float[Tensor, " m1"],
    q: Float[Tensor, " m2"],
    cost: Float[Tensor, "m1 m2"],
    U: Float[Tensor, "*batch m1"],
    L: Float[Tensor, "*batch m2"],
    temperature: float | Float[Tensor, ""],
    *,
    following: Annotated[str, OneOf(("L", "U"))] = "L",
) -> Float[Tensor, "*batch"]:
    """Temperature below which V is expected to fall next (Eq. 24).

    The expected change is C (T - bound). The bound depends on T: Eq. 24 is the bound at
    this T, not a solution for all.

    Parameters
    ----------
    following
        Which is sampled next: ``"L"`` after an iteration, ``"U"`` in the middle of one.
    """
    check_problem(p, q, cost, batched=False)
    check_temperature(temperature)
    check_potential("U", U, p, leading=True)
    check_potential("L", L, q, leading=True)
    return drift(p, q, cost, U, L, temperature, following).bound(temperature)


class Martingale(NamedTuple):
    """Independent chains, half step by half step.

    Attributes
    ----------
    V
        V(z^n), n = 1, ..., 2 N.
    r
        r^n of Eq. 23: V less its expected changes.
    bound
        The temperature bound at z^n.
    """

    V: Float[Tensor, "n_chains n_half_steps"]
    r: Float[Tensor, "n_chains n_half_steps"]
    bound: Float[Tensor, "n_chains n_half_steps"]
    c: Float[Tensor, "n_chains n_half_steps"]
    d: Float[Tensor, "n_chains n_half_steps"]


@checked
def simulate_martingale(
    p: Float[Tensor, " m1"],
    q: Float[Tensor, " m2"],
    cost: Float[Tensor, "m1 m2"],
    temperatures: Sequence[float] | Real[Tensor, " n_half_steps"],
    *,
    n_chains: Count,
    generator: torch.Generator,
) -> Martingale:
    """Run Algorithm 1 from g = U = 0 and keep r^n of Theorem A.2.

    That r^n is a martingale and falls by at most C^n T^(n) holds. Eqs. 25 and 26 do not
    follow: Azuma's inequality needs steps bounded on both sides.

    Parameters
    ----------
    p, q, cost, temperatures
        The problem, all masses positive, and T^(1), ..., T^(2N).
    """
    check_problem(p, q, cost, batched=False)
    for name, mass in (("p", p), ("q", q)):
        if bool((mass == 0).any()):
            raise InputError(f"{name} must be positive here, got a mass of 0")
    U = p.new_zeros(n_chains, len(p))
    g, noted, predicted = U, [], U.new_zeros(n_chains)
    for t_h, t_g in as_temperatures(temperatures, p):
        L = (g[..., None] - cost).amax(-2)
        for temperature, following in ((t_h, "U"), (t_g, "L")):
            if following == "L":
                theta = standard_exponential(*L.shape, generator=generator).to(p)
                h = L + theta * t_h / q
                U = (cost + h[..., None, :]).amin(-1)
                theta = standard_exponential(*U.shape, generator=generator).to(p)
                g = U - theta * t_g / p
            now = drift(p, q, cost, U, L, temperature, following)
            V = weighted_sum(p, U) - weighted_sum(q, L)
            bound = now.bound(temperature)
            noted.append((V, V - predicted, bound, now.c, now.d))
            predicted = predicted + now.change
    return Martingale(*(torch.stack(x, -1) for x in zip(*noted, strict=True)))


class BoundedRun(NamedTuple):
    """A run whose temperatures followed the bound.

    Attributes
    ----------
    result
        Of the last iteration.
    temperatures
        T of each iteration.
    bounds
        The bound at the end of each block.
    """

    result: GibbsOTResult
    temperatures: Float[Tensor, " n_iterations"]
    bounds: Float[Tensor, " n_blocks"]


@checked
def bounded_gibbs_ot(
    p: Float[Tensor, " m1"],
    q: Float[Tensor, " m2"],
    cost: Float[Tensor, "m1 m2"],
    n_iterations: Count,
    *,
    start: Positive,
    fraction: Annotated[float, Range(0, 1, include_low=False)] = 0.5,
    every: Count = 10,
    state: GibbsOTState | None = None,
    generator: torch.Generator,
) -> BoundedRun:
    """Run Algorithm 1 at temperatures that respect the bound of Eq. 24.

    After every few iterations the temperature falls to a fraction of the bound, if that
    is lower and positive (the heuristic of Appendix A, with eta in [0.1, 0.9]).

    Parameters
    ----------
    n_iterations, start, fraction
        N, the first temperature, and eta in (0, 1].
    every
        Iterations between two bounds, each of which costs about as much as ten
        iterations.
    """
    check_problem(p, q, cost, batched=False)
    temperature, used, bounds = start, [], []
    for done in range(0, n_iterations, every):
        n = min(every, n_iterations - done)
        schedule = constant_temperatures(temperature, n)
        result = gibbs_ot(p, q, cost, schedule, state=state, generator=generator)
        state = result.state
        used += [temperature] * n
        now = drift(p, q, cost, result.U, result.L, temperature, "L")
        bounds.append(float(now.bound(temperature)))
        if 0 < fraction * bounds[-1] < temperature:
            temperature = fraction * bounds[-1]
    return BoundedRun(
        result,
        torch.tensor(used, dtype=torch.float32, device="cpu"),
        torch.tensor(bounds, dtype=torch.float32, device="cpu"),
    )
