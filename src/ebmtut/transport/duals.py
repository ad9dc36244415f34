"""Dual values, feasible potentials and couplings from a state of the chain."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, checked
from ebmtut.tensor_checks import check_shape
from ebmtut.transport._problem import (
    check_potential,
    check_problem,
    check_temperature,
    weighted_sum,
)
from ebmtut.transport.conditionals import distribution_of_L, distribution_of_U

__all__ = [
    "FeasibleDuals",
    "Plan",
    "c_transform",
    "chain_value",
    "dual_value",
    "feasible_duals",
    "feasible_plan",
    "marginal_error",
    "transport_plan",
]


def c_transform(
    cost: Float[Tensor, "m1 m2"],
    *,
    g: Float[Tensor, " m1"] | None = None,
    h: Float[Tensor, " m2"] | None = None,
) -> Float[Tensor, " m1"] | Float[Tensor, " m2"]:
    """Best potential of one side, given that of the other (Eqs. 6 and 7).

    Parameters
    ----------
    g, h
        One of both: then h_j = max_i (g_i - M_ij) or g_i = min_j (M_ij + h_j) is
        returned.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.transport import c_transform
    >>> c_transform(torch.tensor([[0.0, 4.0], [1.0, 1.0]]), h=torch.zeros(2))
    tensor([0., 1.])
    """
    if (g is None) == (h is None):
        both_or_none = "none" if g is None else "both"
        raise InputError(f"just one of g and h must be given, got {both_or_none}")
    check_shape("cost", cost, (None, None))
    if h is not None:
        check_potential("h", h, cost[0])
        return best_g(cost, h)
    assert g is not None
    check_potential("g", g, cost[:, 0])
    return best_h(cost, g)


def best_g(cost: Tensor, h: Tensor) -> Tensor:
    """g_i = min_j (M_ij + h_j)."""
    return (cost + h).amin(1)


def best_h(cost: Tensor, g: Tensor) -> Tensor:
    """h_j = max_i (g_i - M_ij)."""
    return (g[:, None] - cost).amax(0)


def chain_value(
    p: Float[Tensor, "*batch m1"],
    q: Float[Tensor, "*batch m2"],
    U: Float[Tensor, "*batch m1"],
    L: Float[Tensor, "*batch m2"],
) -> Float[Tensor, "*batch"]:
    """V(z) = <p, U> - <q, L> of Remark 4.

    (U, L) is not dual feasible: V can lie above the cost; :func:`dual_value` is the
    bound.
    """
    return weighted_sum(p, U) - weighted_sum(q, L)


class FeasibleDuals(NamedTuple):
    """A point of the dual domain.

    Attributes
    ----------
    g, h
        Potentials, g_i - h_j <= M_ij for all i and j.
    value
        <p, g> - <q, h>, a lower bound of the transport cost.
    """

    g: Float[Tensor, "*batch m1"]
    h: Float[Tensor, "*batch m2"]
    value: Float[Tensor, "*batch"]


def feasible_duals(
    p: Float[Tensor, "*batch m1"],
    q: Float[Tensor, "*batch m2"],
    cost: Float[Tensor, "m1 m2"],
    *,
    g: Float[Tensor, "*batch m1"] | None = None,
    h: Float[Tensor, "*batch m2"] | None = None,
) -> FeasibleDuals:
    """Make a feasible pair of potentials by c-transforms.

    No feasible pair that contains the given potential has a better value.

    Parameters
    ----------
    g, h
        Just one, any potential: U or L of a chain, say.
    """
    if (g is None) == (h is None):
        both_or_none = "none" if g is None else "both"
        raise InputError(f"just one of g and h must be given, got {both_or_none}")
    check_problem(p, q, cost)
    if h is None:
        check_potential("g", g, p)
    else:
        check_potential("h", h, q)
    return feasible_duals_of(p, q, cost, g=g, h=h)


def feasible_duals_of(
    p: Tensor,
    q: Tensor,
    cost: Tensor,
    *,
    g: Tensor | None = None,
    h: Tensor | None = None,
) -> FeasibleDuals:
    """Do what `feasible_duals` does, problem by problem, as memory wants it."""
    if p.dim() == 2:
        side, given = ("g", g) if h is None else ("h", h)
        assert given is not None
        pairs = [
            feasible_duals_of(a, b, cost, **{side: x})
            for a, b, x in zip(p, q, given, strict=True)
        ]
        return FeasibleDuals(*(torch.stack(part) for part in zip(*pairs, strict=True)))
    if h is not None:
        g = best_g(cost, h.masked_fill(q == 0, torch.inf))
    assert g is not None
    h = best_h(cost, g.masked_fill(p == 0, -torch.inf))
    g = best_g(cost, h.masked_fill(q == 0, torch.inf))
    h = best_h(cost, g.masked_fill(g == torch.inf, -torch.inf))
    return FeasibleDuals(g, h, chain_value(p, q, g, h))


def dual_value(
    p: Float[Tensor, "*batch m1"],
    q: Float[Tensor, "*batch m2"],
    cost: Float[Tensor, "m1 m2"],
    *,
    g: Float[Tensor, "*batch m1"] | None = None,
    h: Float[Tensor, "*batch m2"] | None = None,
) -> Float[Tensor, "*batch"]:
    """Lower bound of the transport cost from any potential.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.transport import cost_matrix, dual_value, exact_ot
    >>> x = torch.linspace(0, 1, 5).double()
    >>> p, q = torch.eye(5).double()[[0, 4]]  # all mass at one end, at the other
    >>> cost = cost_matrix(x, x)
    >>> dual_value(p, q, cost, g=-2 * x), exact_ot(p, q, cost).value
    (tensor(1., dtype=torch.float64), 1.0)
    """
    return feasible_duals(p, q, cost, g=g, h=h).value


class Plan(NamedTuple):
    """A coupling and how far it is from one.

    Attributes
    ----------
    coupling
        Z, non-negative, of total mass 1.
    marginal_error
        Sum of the absolute errors of both marginals.
    """

    coupling: Float[Tensor, "m1 m2"]
    marginal_error: float


@checked
def transport_plan(
    p: Float[Tensor, " m1"],
    q: Float[Tensor, " m2"],
    cost: Float[Tensor, "m1 m2"],
    U: Float[Tensor, " m1"],
    L: Float[Tensor, " m2"],
    *,
    temperature: float | None = None,
) -> Plan:
    """Recover a coupling from the chain (Eq. 22).

    Half of p_i goes to J(i) = argmin_j (M_ij + L_j), half of q_j comes from
    I(j) = argmax_i (U_i - M_ij). Where an optimal plan splits mass, one partner gets
    it all, so the marginals are wrong, however cold the chain.

    With a temperature the masses are spread by the probabilities that constraints are
    active in the next half step. At equilibrium that coupling has the right marginals
    on average, at any temperature. :func:`feasible_plan` repairs the marginals.

    Parameters
    ----------
    p, q, cost, U, L
        The problem, and statistics of the chain.
    temperature
        T at which the constraints are weighed; None takes the active ones.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.transport import (
    ...     annealed_temperatures, cost_matrix, gibbs_ot, transport_plan
    ... )
    >>> x, p = torch.linspace(0, 1, 4).double(), torch.full((4,), 0.25).double()
    >>> cost, g = cost_matrix(x, x), make_generator(0)
    >>> end = gibbs_ot(p, p, cost, annealed_temperatures(500, 4), generator=g)
    >>> transport_plan(p, p, cost, end.U, end.L).coupling.diagonal()  # all mass stays
    tensor([0.2500, 0.2500, 0.2500, 0.2500], dtype=torch.float64)
    """
    check_problem(p, q, cost, batched=False)
    check_potential("U", U, p)
    check_potential("L", L, q)
    if temperature is not None:
        check_temperature(temperature)
        to = distribution_of_U(cost, temperature, L, q).probability
        come_from = distribution_of_L(cost, temperature, U, p).probability
        coupling = (p[:, None] * to + q * come_from.T) / 2
        return Plan(coupling, marginal_error(coupling, p, q))
    best_j = (cost + L.masked_fill(q == 0, torch.inf)).argmin(1)
    best_i = (U.masked_fill(p == 0, -torch.inf)[:, None] - cost).argmax(0)
    coupling = torch.zeros_like(cost)
    coupling[torch.arange(len(p), device=p.device), best_j] += p / 2
    coupling[best_i, torch.arange(len(q), device=q.device)] += q / 2
    return Plan(coupling, marginal_error(coupling, p, q))


def feasible_plan(
    coupling: Float[Tensor, "m1 m2"], p: Float[Tensor, " m1"], q: Float[Tensor, " m2"]
) -> Float[Tensor, "m1 m2"]:
    """Round a coupling to the exact marginals.

    Rows, then columns, are scaled down to their masses, and what is missing is added as
    a product (Altschuler, Weed and Rigollet, 2017, Algorithm 2). The cost of the result
    is an upper bound of the transport cost, infinite if a forbidden pair gets mass.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.transport import feasible_plan
    >>> p, q = torch.tensor([[0.5, 0.5], [0.2, 0.8]]).double()
    >>> plan = feasible_plan(torch.tensor([[0.5, 0.0], [0.0, 0.5]]).double(), p, q)
    >>> plan.sum(0)  # the masses q
    tensor([0.2000, 0.8000], dtype=torch.float64)
    """
    tiny = torch.finfo(coupling.dtype).tiny
    z = coupling * (p / coupling.sum(1).clamp(min=tiny)).clamp(max=1)[:, None]
    z = z * (q / z.sum(0).clamp(min=tiny)).clamp(max=1)
    missing_p = (p - z.sum(1)).clamp(min=0)
    missing_q = (q - z.sum(0)).clamp(min=0)
    total = missing_p.sum().clamp(min=tiny)
    return z + missing_p[:, None] * (missing_q / total)


def marginal_error(
    coupling: Float[Tensor, "m1 m2"], p: Float[Tensor, " m1"], q: Float[Tensor, " m2"]
) -> float:
    """Sum of the absolute errors of both marginals."""
    return float((coupling.sum(1) - p).abs().sum() + (coupling.sum(0) - q).abs().sum())
