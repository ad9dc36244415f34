"""A Wasserstein loss for torch.autograd, with any oracle behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Real
from torch import Tensor

from ebmtut.checks import Count, Positive, check_type, checked
from ebmtut.transport._problem import as_temperatures, check_problem
from ebmtut.transport.duals import feasible_duals_of
from ebmtut.transport.exact import exact_ot
from ebmtut.transport.gibbs_ot import GibbsOTState, gibbs_ot

__all__ = [
    "Oracle",
    "exact_oracle",
    "gibbs_ot_oracle",
    "sinkhorn_oracle",
    "wasserstein_loss",
]

#: (p, q, cost) -> (value, U, L), for masses (m1,) or (batch, m1).
Oracle = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


@checked
def wasserstein_loss(
    p: Float[Tensor, "... m1"],
    q: Float[Tensor, "... m2"],
    cost: Float[Tensor, "m1 m2"],
    *,
    oracle: Oracle,
) -> Float[Tensor, "*batch"]:
    """Transport cost that autograd can differentiate in p and in q.

    The gradients are U and -L of the oracle (Section 5), each less its mean:
    masses that sum to 1 can only move along directions that sum to 0.

    Parameters
    ----------
    p, q
        Masses; a single distribution is paired with every row of the other's batch.
    oracle
        :func:`gibbs_ot_oracle`, :func:`sinkhorn_oracle`, :func:`exact_oracle` or one
        of your own.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.transport import exact_oracle, wasserstein_loss
    >>> p = torch.tensor([[0.5, 0.5]], requires_grad=True)
    >>> q, cost = torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 4.0], [1.0, 1.0]])
    >>> wasserstein_loss(p, q, cost, oracle=exact_oracle())
    tensor([0.5000], grad_fn=<_WassersteinLossBackward>)
    """
    if isinstance(p, Tensor) and isinstance(q, Tensor):
        if p.dim() == 1 and q.dim() == 2:
            p = p.expand(len(q), -1)
        elif p.dim() == 2 and q.dim() == 1:
            q = q.expand(len(p), -1)
    check_problem(p, q, cost)
    value: Tensor = _WassersteinLoss.apply(p, q, cost, oracle)
    return value


class _WassersteinLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor, cost: Tensor, oracle: Oracle) -> Tensor:
        value, U, L = oracle(p.detach(), q.detach(), cost.detach())
        ctx.save_for_backward(_centered(U), _centered(-L))
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_p, grad_q = ctx.saved_tensors
        (upstream,) = grads
        return upstream[..., None] * grad_p, upstream[..., None] * grad_q, None, None


def _centered(x: Tensor) -> Tensor:
    finite = torch.isfinite(x)
    mean = x.where(finite, 0).sum(-1, keepdim=True) / finite.sum(-1, keepdim=True)
    return x - mean


@checked
def gibbs_ot_oracle(
    temperatures: Sequence[float] | Real[Tensor, " n_half_steps"],
    *,
    generator: torch.Generator,
) -> Oracle:
    """Make an oracle of Gibbs-OT that continues where its last call ended.

    Returns
    -------
    oracle
        Its value is the feasible dual value. It starts anew where the sizes have
        changed.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.transport import (
    ...     constant_temperatures, cost_matrix, gibbs_ot_oracle, wasserstein_loss
    ... )
    >>> x = torch.arange(3).double()
    >>> p, q = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]).double()
    >>> cold = constant_temperatures(1e-3, 2000)
    >>> oracle = gibbs_ot_oracle(cold, generator=make_generator(0))
    >>> bound = wasserstein_loss(p, q, cost_matrix(x, x), oracle=oracle)
    >>> float(bound) <= 0.6 + 1e-12  # the exact cost
    True
    """
    double = torch.empty(0, dtype=torch.float64, device="cpu")
    schedule = as_temperatures(temperatures, double).flatten()
    check_type("generator", generator, torch.Generator)
    state: GibbsOTState | None = None

    def oracle(p: Tensor, q: Tensor, cost: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nonlocal state
        if state is not None and state.g.shape != p.shape:
            state = None
        end = gibbs_ot(p, q, cost, schedule, state=state, generator=generator)
        state = end.state
        return feasible_duals_of(p, q, cost, g=end.U).value, end.U, end.L

    return oracle


@checked
def sinkhorn_oracle(regularization: Positive, n_iterations: Count) -> Oracle:
    """Make an oracle of Sinkhorn's iteration, likewise, in the log domain.

    Parameters
    ----------
    regularization, n_iterations
        epsilon > 0, and pairs of projections of every call.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.transport import sinkhorn_oracle, wasserstein_loss
    >>> p = torch.tensor([[0.5, 0.5]], requires_grad=True)
    >>> q, cost = torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 4.0], [1.0, 1.0]])
    >>> wasserstein_loss(p, q, cost, oracle=sinkhorn_oracle(0.01, 10))
    tensor([0.5000], grad_fn=<_WassersteinLossBackward>)
    """
    g: Tensor | None = None

    def oracle(p: Tensor, q: Tensor, cost: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nonlocal g
        g = torch.zeros_like(p) if g is None or g.shape != p.shape else g
        kernel = -cost / regularization
        for _ in range(n_iterations):
            log_v = q.log() - (kernel + (g / regularization)[..., None]).logsumexp(-2)
            log_u = p.log() - (kernel + log_v[..., None, :]).logsumexp(-1)
            g, h = regularization * log_u, -regularization * log_v
        return feasible_duals_of(p, q, cost, g=g).value, g, h

    return oracle


def exact_oracle() -> Oracle:
    """Make an oracle of POT's network simplex, one problem at a time.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.transport import cost_matrix, exact_oracle, wasserstein_loss
    >>> x = torch.arange(3).double()
    >>> p, q = torch.eye(3).double()[[0, 2]]
    >>> wasserstein_loss(p, q, cost_matrix(x, x), oracle=exact_oracle())
    tensor(4., dtype=torch.float64)
    """

    def oracle(p: Tensor, q: Tensor, cost: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if p.dim() == 1:
            solved = exact_ot(p, q, cost)
            return p.new_tensor(solved.value), solved.g, solved.h
        rows = [oracle(*row, cost) for row in zip(p, q, strict=True)]
        value, U, L = (torch.stack(part) for part in zip(*rows, strict=True))
        return value, U, L

    return oracle
