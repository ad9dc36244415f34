"""A batch of Gibbs-OT chains with one cost: in plain torch, and compiled.

Both take the exponentials as an argument, ``(n, n_draws)``: for each
iteration those of h, problem by problem along the entries of q that have
mass, then those of g along the entries that have mass in any problem's p.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ebmtut._compiled import in_threads
from ebmtut.transport._gibbs_ot_kernels import fill_maxima, gibbs_iterations
from ebmtut.transport._problem import weighted_sum
from ebmtut.transport.duals import dual_value

__all__ = ["Chain", "CompiledChain", "PlainChain", "Statistics", "gibbs_ot_iteration"]


class Statistics(NamedTuple):
    """Coordinates and statistics, ``(batch, m1)`` or ``(batch, m2)`` each."""

    g: Tensor
    h: Tensor
    U: Tensor
    L: Tensor


class Chain(Protocol):
    """What runs, whatever it is made of."""

    p: Tensor
    q: Tensor
    cost: Tensor
    n_draws: int

    def set_p(self, p: Tensor) -> None:
        """Go on with other masses, on the same rows."""

    def advance(self, temperatures: Tensor, theta: Tensor) -> None:
        """Do len(temperatures) iterations, temperatures (n, 2)."""

    def statistics(self, complete: bool) -> Statistics:
        """Return the last iteration's; complete: where there is no mass too."""

    def dual_value(self) -> Tensor:
        """Return the lower bounds that U gives by c-transforms, (batch,)."""


def gibbs_ot_iteration(
    g: Tensor,
    p: Tensor,
    q: Tensor,
    cost: Tensor,
    temperature: Tensor,
    theta_h: Tensor,
    theta_g: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One iteration: h given g (Eq. 12), then g given h (Eq. 13).

    Parameters
    ----------
    g : Tensor
        ``(m1,)``.
    p, q, cost : Tensor
        The problem. What has no mass gets g = -inf or h = +inf: left out.
    temperature : Tensor
        The two half steps', ``(2,)``.
    theta_h, theta_g : Tensor
        Draws of the exponential law of mean 1, ``(m2,)`` and ``(m1,)``.

    Returns
    -------
    tuple of Tensor
        The new g and h, U and L.
    """
    L = (g[:, None] - cost).amax(0)
    h = torch.where(q > 0, L + theta_h * temperature[0] / q, torch.inf)
    U = (cost + h).amin(1)
    g = torch.where(p > 0, U - theta_g * temperature[1] / p, -torch.inf)
    return g, h, U, L


class PlainChain:
    """The reference: one problem, one iteration at a time."""

    def __init__(self, p: Tensor, q: Tensor, cost: Tensor, g: Tensor) -> None:
        self.q, self.cost = q, cost
        self.rows = (p > 0).any(0)
        self.n_draws = int((q > 0).sum()) + len(p) * int(self.rows.sum())
        self.g = self.U = g
        self.set_p(p)

    def set_p(self, p: Tensor) -> None:
        """Go on with other masses, on the same rows."""
        self.p = p
        g = torch.where(self.g == -torch.inf, self.U, self.g)
        self.g = g.masked_fill(p == 0, -torch.inf)

    def advance(self, temperatures: Tensor, theta: Tensor) -> None:
        """Do len(temperatures) iterations."""
        for temperature, draws in zip(temperatures, theta.to(self.p), strict=True):
            for_h, for_g = draws.tensor_split([int((self.q > 0).sum())])
            theta_h, theta_g = torch.ones_like(self.q), torch.ones_like(self.p)
            theta_h[self.q > 0] = for_h
            theta_g[:, self.rows] = for_g.view(len(self.p), -1)
            batch = zip(self.g, self.p, self.q, theta_h, theta_g, strict=True)
            moved = [
                gibbs_ot_iteration(g, p, q, self.cost, temperature, for_h, for_g)
                for g, p, q, for_h, for_g in batch
            ]
            parts = zip(*moved, strict=True)
            self.g, self.h, self.U, self.L = (torch.stack(part) for part in parts)

    def statistics(self, complete: bool) -> Statistics:
        """Return the last iteration's, always complete."""
        g = torch.where(self.p > 0, self.g, self.U)
        h = torch.where(self.q > 0, self.h, self.L)
        return Statistics(g, h, self.U, self.L)

    def dual_value(self) -> Tensor:
        """Return the lower bounds that U gives by c-transforms."""
        return dual_value(self.p, self.q, self.cost, g=self.U)


class CompiledChain:
    """The same by compiled code, over the entries that have mass."""

    def __init__(self, p: Tensor, q: Tensor, cost: Tensor, g: Tensor) -> None:
        self.q, self.cost = q, cost
        used = (p > 0).any(0)
        self.unused = (~used).nonzero()[:, 0]
        # Slicing is free, and most often all is used.
        self.rows = used.nonzero()[:, 0] if len(self.unused) else slice(None)
        self.batch, self.columns = (q > 0).nonzero(as_tuple=True)
        self.offsets = np.searchsorted(self.batch.numpy(), np.arange(len(p) + 1))
        self.cost_t = cost[self.rows].T.contiguous()
        self.inverse_q = q[self.batch, self.columns].reciprocal()
        self.g = g[:, self.rows].clone()
        self.before, self.U = torch.empty_like(self.g), self.g.clone()
        self.h = torch.empty_like(self.inverse_q)
        self.L = torch.empty_like(self.inverse_q)
        self.n_draws = self.h.numel() + self.g.numel()
        self.set_p(p)

    def set_p(self, p: Tensor) -> None:
        """Go on with other masses, on the same rows."""
        self.p = p
        self.inverse_p = p[:, self.rows].reciprocal()
        # An entry that had no mass has no g but a U, and the other way round.
        self.g = torch.where(self.g == -torch.inf, self.U, self.g)
        self.g.masked_fill_(self.inverse_p == torch.inf, -torch.inf)

    def advance(self, temperatures: Tensor, theta: Tensor) -> None:
        """Do len(temperatures) iterations."""
        self._iterate(self.g, self.before, self.U, self.h, self.L, temperatures, theta)

    def _iterate(self, *tensors: Tensor) -> None:
        *coordinates, temperatures, theta = (x.numpy() for x in tensors)
        problem = (self.cost_t, self.columns, self.inverse_p, self.inverse_q)
        cost_t, columns, inverse_p, inverse_q = (x.numpy() for x in problem)

        def work(problems: slice) -> None:
            gibbs_iterations(
                problems.start,
                problems.stop,
                *coordinates,
                cost_t,
                columns,
                self.offsets,
                inverse_p,
                inverse_q,
                temperatures,
                theta,
                cost_t.dtype.type(1),
            )

        n_entries = len(columns) * cost_t.shape[1]
        # An iteration looks at them twice, for the rows and for the columns.
        in_threads(work, len(self.p), 2 * len(temperatures) * n_entries)

    def statistics(self, complete: bool) -> Statistics:
        """Return the last iteration's."""
        U = torch.full_like(self.p, torch.inf)
        U[:, self.rows] = self.U
        L = torch.full_like(self.q, -torch.inf)
        L[self.batch, self.columns] = self.L
        if complete and (len(self.unused) or len(self.columns) < L.numel()):
            self._complete(U, L)
        g, h = U.clone(), L.clone()
        g[:, self.rows] = torch.where(self.g == -torch.inf, self.U, self.g)
        h[self.batch, self.columns] = self.h
        return Statistics(g, h, U, L)

    def _complete(self, U: Tensor, L: Tensor) -> None:
        """Fill in what carries no mass, by the iteration's own extremes."""
        before, cost_t, maxima = self.before.numpy(), self.cost_t.numpy(), L.numpy()

        def fill(problems: slice) -> None:
            fill_maxima(before[problems], cost_t, maxima[problems])

        in_threads(fill, len(L), maxima.size * cost_t.shape[1])
        for b, (start, stop) in enumerate(pairwise(self.offsets)):
            if len(self.unused):
                rest = self.cost[self.unused][:, self.columns[start:stop]]
                U[b, self.unused] = (rest + self.h[start:stop]).amin(1)

    def dual_value(self) -> Tensor:
        """Return the lower bounds that U gives by c-transforms."""
        # An iteration without noise is a pair of c-transforms.
        g = self.U.masked_fill(self.inverse_p == torch.inf, -torch.inf)
        U, h, L = (
            torch.empty_like(g),
            torch.empty_like(self.h),
            torch.empty_like(self.L),
        )
        no_noise = g.new_zeros(1, self.n_draws)
        self._iterate(g, torch.empty_like(g), U, h, L, g.new_ones(1, 2), no_noise)
        value = weighted_sum(self.p[:, self.rows], U)
        return value.index_add(0, self.batch, -self.q[self.batch, self.columns] * L)
