"""When to stop: the paper's criterion and two that mean something."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, NonNegative, checked
from ebmtut.tensor_checks import check_shape
from ebmtut.transport._problem import check_temperature, weighted_sum
from ebmtut.transport.duals import feasible_duals_of, feasible_plan, transport_plan

__all__ = ["has_mixed", "has_settled", "relative_gap"]


@checked
def has_mixed(
    V: Float[Tensor, " n_iterations"], temperature: float, *, tau: Count = 5
) -> bool:
    """Apply the paper's criterion, V^(t) - V^(t - tau) < 0.01 tau T V^(t).

    It compares a cost with a cost squared, so it depends on the unit, and mostly holds
    at its first evaluation.

    Parameters
    ----------
    V, temperature, tau
        V(z^(2t)) after every iteration so far, T, and iterations apart.
    """
    check_temperature(temperature)
    check_shape("V", V, (None,))
    if len(V) <= tau:
        return False
    return stops_rising(float(V[-1]), float(V[-1 - tau]), temperature, tau)


def stops_rising(value: float, before: float, temperature: float, tau: int) -> bool:
    """Compare V with the V of tau iterations before, as the paper does."""
    return value - before < 0.01 * tau * temperature * value


@checked
def has_settled(
    dual: Float[Tensor, " n_iterations"],
    *,
    window: Count = 10,
    tolerance: NonNegative = 1e-3,
) -> bool:
    """Return whether the best lower bound has stopped rising.

    Parameters
    ----------
    window
        How many of the latest are compared with the best before.
    tolerance
        Relative gain below which it has settled.
    """
    check_shape("dual", dual, (None,))
    if len(dual) <= window:
        return False
    best = dual.max()
    return bool(best - dual[:-window].max() <= tolerance * best.abs())


@checked
def relative_gap(
    p: Float[Tensor, " m1"],
    q: Float[Tensor, " m2"],
    cost: Float[Tensor, "m1 m2"],
    U: Float[Tensor, " m1"],
    L: Float[Tensor, " m2"],
    *,
    temperature: float | None = None,
) -> float:
    """Certified relative error of a feasible plan, (upper - lower) / abs(upper).

    Returns
    -------
    gap
        Infinite if the rounded plan uses a forbidden pair, or costs nothing while lower
        < 0.
    """
    recovered = transport_plan(p, q, cost, U, L, temperature=temperature)
    plan = feasible_plan(recovered.coupling, p, q)
    upper = weighted_sum(plan.flatten(), cost.flatten())
    by_U, by_L = feasible_duals_of(p, q, cost, g=U), feasible_duals_of(p, q, cost, h=L)
    lower = torch.maximum(by_U.value, by_L.value)
    gap = float((upper - lower).clamp(min=0))  # rounding errors can cross over
    if gap == 0 or math.isinf(gap):
        return gap
    return gap / abs(float(upper)) if upper else math.inf
