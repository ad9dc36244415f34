"""Exact and entropic transport by POT, which judge and rival Gibbs-OT."""

from __future__ import annotations

import math
from types import ModuleType
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, Positive, checked
from ebmtut.transport._problem import check_problem, weighted_sum
from ebmtut.transport.duals import feasible_duals_of

__all__ = ["ExactOT", "exact_ot", "sinkhorn"]

_MAX_PIVOTS = 10_000_000


class ExactOT(NamedTuple):
    """An optimal coupling and optimal potentials.

    Attributes
    ----------
    value
        W(p, q).
    plan
        Z.
    g
        Potentials of the one side, g_i - h_j <= M_ij for all i and j.
    h
        Those of the other.
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
    p, q
        Masses.
    cost
        M; +inf forbids a pair.

    Returns
    -------
    solved
        Of the masses' dtype.

    Raises
    ------
    InputError
        If the problem is malformed.
    ImportError
        Without POT, the extra ``transport``.
    RuntimeError
        If no plan avoids the forbidden pairs, or the solver gives up.

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
    allowed = torch.isfinite(wide)
    # Dearer than any detour over allowed pairs, or nearly as dear as safe.
    dear = 2 * wide[allowed].abs().max() * min(wide.shape) + 1
    a, b = (x.detach().double().cpu() for x in (p, q))
    finite = wide.where(allowed, dear)
    plan, log = ot.emd(
        (a / a.sum()).numpy(),
        (b / b.sum()).numpy(),
        finite.numpy(),
        numItermax=_MAX_PIVOTS,
        log=True,
    )
    if log["warning"]:
        raise RuntimeError(f"exact_ot: the solver gave up, {log['warning']}")
    plan = torch.as_tensor(plan)
    stray = float(plan[~allowed].sum())
    if stray > 1e-9:
        raise RuntimeError(f"exact_ot: {stray:.3g} of the mass must go where cost=inf")
    plan = plan.where(allowed, 0)
    value = float(weighted_sum(plan.flatten(), wide.flatten()))
    duals = feasible_duals_of(p, q, cost, g=torch.as_tensor(log["u"]).to(p))
    return ExactOT(value, plan.to(p), duals.g, duals.h)


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
    p, q
        Masses.
    cost
        M; +inf forbids a pair.
    regularization
        epsilon > 0.
    n_iterations
        Pairs of projections, all of them done.
    log_domain
        Whether logarithms are kept, which neither under- nor overflows but
        takes several times as long.

    Returns
    -------
    coupling
        The coupling reached.

    Raises
    ------
    InputError
        If the problem is malformed.
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
    coupling[rows[:, None], columns] = torch.as_tensor(
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
