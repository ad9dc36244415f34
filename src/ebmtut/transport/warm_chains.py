"""The inexact oracle of Section 5: chains that follow a model's masses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Real
from torch import Tensor

from ebmtut.checks import InputError, check_type, checked
from ebmtut.transport._problem import as_temperatures, check_masses, check_problem
from ebmtut.transport.gibbs_ot import (
    GibbsOTResult,
    GibbsOTState,
    advance,
    chain_for,
    start_of,
)

__all__ = ["WarmChains"]


class WarmChains:
    """Gradients of many transport costs while one side's masses move.

    Every call is :func:`~ebmtut.transport.gibbs_ot` with a warm start and new masses p,
    without preparing the cost.

    Parameters
    ----------
    q, cost
        Masses of the data, and M; zeros take no part.
    """

    @checked
    def __init__(
        self,
        q: Float[Tensor, "batch m2"],
        cost: Float[Tensor, "m1 m2"],
        *,
        state: GibbsOTState | None = None,
    ) -> None:
        check_masses("q", q)
        if q.dim() != 2:
            raise InputError(f"q must have shape (batch, m2), got {tuple(q.shape)}")
        p = q.new_full((len(q), len(cost)), 1 / len(cost))
        check_problem(p, q, cost)
        self._chain = chain_for(p, q, cost, start_of(state, p))
        self._moved = False

    def __call__(
        self,
        p: Float[Tensor, "batch m1"],
        temperatures: Sequence[float] | Real[Tensor, " n_half_steps"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, "batch m1"]:
        """Continue at T^(1), ..., T^(2N); the next call overwrites U."""
        chain = self._chain
        check_masses("p", p)
        if p.shape != chain.p.shape or p.dtype != chain.p.dtype:
            raise InputError(
                f"p must have shape {tuple(chain.p.shape)} and {chain.p.dtype}, "
                f"got {tuple(p.shape)} and {p.dtype}"
            )
        schedule = as_temperatures(temperatures, p)
        check_type("generator", generator, torch.Generator)
        chain.set_p(p.detach())
        advance(chain, schedule, generator)
        self._moved = True
        return chain.U

    def dual_value(self) -> Float[Tensor, " batch"]:
        """Lower bounds of the costs at the last p, by c-transforms.

        Raises
        ------
        RuntimeError
            Before the first call.
        """
        self._require_a_call()
        return self._chain.dual_value()

    def result(self, *, complete: bool = True) -> GibbsOTResult:
        """All of the last iteration, as :func:`~ebmtut.transport.gibbs_ot`'s.

        Raises
        ------
        RuntimeError
            Before the first call.
        """
        self._require_a_call()
        g, h, U, L = self._chain.statistics(complete)
        return GibbsOTResult(GibbsOTState(g, h), U, L)

    def _require_a_call(self) -> None:
        if not self._moved:
            raise RuntimeError("WarmChains has done no iteration yet: call it first")
