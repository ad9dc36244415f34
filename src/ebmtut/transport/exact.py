"""Exact and entropic transport by POT: the reference and a competing method."""

from __future__ import annotations

import math
from types import ModuleType
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, Positive, checked
from ebmtut.transport._problem import check_problem, weighted_sum
from ebmtut.transport.duals import best_h, feasible_duals_of

__all__ = ["ExactOT", "exact_ot", "sinkhorn"]

_MAX_PIVOTS = 10_000_000
_NOTHING = 1e-9  # of a mass of 1


class ExactOT(NamedTuple):
    """An optimal coupling and optimal potentials.

    Attributes
    ----------
    value
        W(p, q).
    plan
        Z.
    g, h
        Potentials, g_i - h_j <= M_ij for all i and j.
    """

    value: float
    plan: Float[Tensor, "m1 m2"]
    g: Float[Tensor, " m1"]
    h: Float[Tensor, " m2"]


def exact_ot(
    p: Float[Tensor, " m1"], q: Float[Tensor, " m2"], cost: Float[Tensor, "m1 m2"]
) -> ExactOT:
    """Solve one transport problem by POT's network simplex, in float64.

    Parameters
    ----------
    p, q, cost
        Masses and M; +inf forbids a pair.

    Raises
    ------
    ImportError
        Without POT, the extra ``transport``.
    RuntimeError
        If no plan avoids the forbidden pairs, or the plan is not optimal to nine
        digits.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.transport import exact_ot
    >>> p, q = torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0])
    >>> exact_ot(p, q, torch.tensor([[0.0, 4.0], [1.0, 1.0]])).value
    0.5
    """
    ot = _pot()
    check_problem(p, q, cost, batched=False)
    wide = cost.detach().double().cpu()
    masses = [x.detach().double().cpu() for x in (p, q)]
    rows, columns = (x.nonzero().squeeze(1) for x in masses)
    a, b = (x[x > 0] / x.sum() for x in masses)
    M = wide[rows[:, None], columns]
    # The solver's tolerances are absolute, so it gets costs from 0 to 1. What every
    # plan pays in a row or in a column changes no plan.
    least = M.amin(1)
    reduced = M - least[:, None]
    reduced = reduced - reduced.amin(0).where(reduced.amin(0).isfinite(), 0)
    cap = float(reduced[reduced.isfinite()].max())
    while True:
        plan, u = _simplex(ot, a, b, reduced, cap)
        stray = float(plan[reduced.isinf()].sum())
        if stray > _NOTHING:
            raise RuntimeError(
                f"exact_ot: {stray:.3g} of the mass must go where cost=inf"
            )
        plan = plan.where(reduced.isfinite(), 0)
        used = plan > _NOTHING
        largest = float(reduced[used].max())
        slack = weighted_sum(plan, reduced - u[:, None] + best_h(reduced, u)).sum()
        rounding = torch.finfo(torch.float64).eps * sum(plan.shape)
        allowed = 1e-9 * float(weighted_sum(plan, reduced).sum())
        allowed += rounding * (largest + float(M[used].abs().max()))
        missing = float((plan.sum(1) - a).abs().sum() + (plan.sum(0) - b).abs().sum())
        if float(slack) <= allowed and missing <= _NOTHING:
            break
        # Next to costs that no plan needs, the others may have been lost in rounding.
        before, cap = cap, 2 * min(plan.shape) * largest
        if not cap < before:
            raise RuntimeError(
                "exact_ot: no plan could be certified: costs of "
                f"{float(M[M.isfinite()].min()):g} to {float(M[M.isfinite()].max()):g}"
                f" leave a duality gap of {float(slack):.3g}"
            )
    whole = torch.zeros_like(wide)
    whole[rows[:, None], columns] = plan
    value = float(weighted_sum(whole.flatten(), wide.flatten()))
    g = torch.zeros_like(masses[0]).index_copy(0, rows, u + least)
    duals = feasible_duals_of(p, q, cost, g=g.to(p))
    return ExactOT(value, whole.to(p), duals.g, duals.h)


def _simplex(
    ot: ModuleType, a: Tensor, b: Tensor, cost: Tensor, cap: float
) -> tuple[Tensor, Tensor]:
    """Solve with costs from 0 to the cap; what is dearer is used only where it must."""
    unit = 2.0 ** -math.frexp(cap)[1] if cap else 1.0
    # Dearer than any detour over pairs below the cap, or nearly as dear as safe.
    dear = 2 * cap * unit * min(cost.shape) + 1
    plan, log = ot.emd(
        a.numpy(),
        b.numpy(),
        (cost * unit).where(cost <= cap, dear).numpy(),
        numItermax=_MAX_PIVOTS,
        log=True,
    )
    if log["warning"]:
        raise RuntimeError(f"exact_ot: the solver gave up, {log['warning']}")
    return torch.from_numpy(plan), torch.from_numpy(log["u"]) / unit


@checked
def sinkhorn(
    p: Float[Tensor, " m1"],
    q: Float[Tensor, " m2"],
    cost: Float[Tensor, "m1 m2"],
    regularization: Positive,
    n_iterations: Count,
    *,
    log_domain: bool = False,
) -> Float[Tensor, "m1 m2"]:
    """Couple by entropic regularisation, iterative Bregman projections, by POT.

    Parameters
    ----------
    p, q, cost
        Masses and M; +inf forbids a pair.
    regularization, n_iterations
        epsilon > 0, and pairs of projections, all of them done.
    log_domain
        Keep logarithms, which neither under- nor overflow but take much longer.

    Raises
    ------
    ImportError
        Without POT, the extra ``transport``.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.transport import sinkhorn
    >>> p = torch.tensor([0.5, 0.5])
    >>> sinkhorn(p, p, torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 0.1, 100)
    tensor([[4.9998e-01, 2.2699e-05],
            [2.2699e-05, 4.9998e-01]])
    """
    ot = _pot()
    check_problem(p, q, cost, batched=False)
    # Only between places with mass: POT divides zero by zero elsewhere, and stops.
    rows, columns = (x.detach().cpu().nonzero().squeeze(1) for x in (p, q))
    a, b, M = (x.detach().cpu() for x in (p, q, cost))
    coupling = torch.zeros_like(M)
    coupling[rows[:, None], columns] = torch.from_numpy(
        ot.sinkhorn(
            a[rows].numpy(),
            b[columns].numpy(),
            M[rows[:, None], columns].numpy(),
            reg=regularization,
            method="sinkhorn_log" if log_domain else "sinkhorn",
            numItermax=n_iterations,
            stopThr=-math.inf,
            warn=False,
        )
    )
    return coupling.to(p)


def _pot() -> ModuleType:
    try:
        import ot
    except ImportError as error:
        raise ImportError("this needs POT: pip install 'ebmtut[transport]'") from error
    module: ModuleType = ot
    return module
