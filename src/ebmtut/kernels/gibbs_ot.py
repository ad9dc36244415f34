"""Gibbs-OT compiled: a batch of chains with one cost, over what carries mass.

The reference is :class:`ebmtut.transport.gibbs_ot.PlainChain`. Both half steps share
one walk through the cost, in which L_j gives h_j and so row j's part in U; a single
large problem evaluates only what `tiles` or `monge` leave. ``one`` is 1, unknown to the
compiler: x - one * m becomes a fused instruction, which rounds as a difference does and
leaves to the maxima the units that subtract. On Zen 1 and 2 maxima share the units of
fused instructions instead, and the walk subtracts (``factor`` is None, else ``one``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Protocol, TypeVar

import llvmlite.binding
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut._compiled import fused, in_threads, inlined_fused
from ebmtut._gpu import Recorded, runs_triton
from ebmtut.kernels.monge import monge_minima, monge_of
from ebmtut.kernels.tiles import (
    added,
    larger,
    note_looks,
    pruning_for,
    renew_slacks,
    smaller,
    tile_minima,
    transpose_once,
    transposed,
    walks,
)


class _Iterates(Protocol):
    iteration: Callable[..., tuple[Tensor, ...]]


Plain = TypeVar("Plain", bound=_Iterates)
_FEW = 16  # problems, below which plain torch finds the extremes on a GPU
_FUSES = llvmlite.binding.get_host_cpu_name() not in ("znver1", "znver2")


def chain_by_kernel(
    plain: Callable[..., Plain],
    p: Float[Tensor, "batch m1"],
    q: Float[Tensor, "batch m2"],
    cost: Float[Tensor, "m1 m2"],
    g: Float[Tensor, "batch m1"],
) -> Plain | CompiledChain:
    """Make the chain that is fastest on the tensors' device.

    ``plain`` makes the reference, also with another iteration.
    """
    # A tile of the kernel holds problems side by side: with few it is mostly empty.
    by_triton = runs_triton(p) and len(p) >= _FEW
    if p.device.type == "cpu" and not by_triton:
        return CompiledChain(p, q, cost, g)
    chain = plain(p, q, cost, g)
    if by_triton:
        from ebmtut.kernels.min_plus_triton import iteration_over

        chain.iteration = iteration_over(cost)
    if p.device.type == "cuda":  # an iteration is some eighteen short launches
        chain.iteration = Recorded(chain.iteration)
    return chain


@inlined_fused
def _add_noise(L, theta, temperature, inverse_q, h, low, high):  # type: ignore[no-untyped-def]
    for d in range(low, high):
        h[d] = L[d] + theta[d] * temperature * inverse_q[d]


@inlined_fused
def _difference(x, m, factor):  # type: ignore[no-untyped-def]
    if factor is None:
        return x - m
    return x - factor * m


@inlined_fused
def _walk(g, U, h, L, cost_t, columns, theta, temperature, inverse_q, factor):  # type: ignore[no-untyped-def]
    """Set L, h and U of one problem by one walk through its whole cost."""
    n_rows, stop = len(g), len(L)
    U[:] = np.inf
    k = 0
    while k + 4 <= stop:
        m0, m1 = cost_t[columns[k]], cost_t[columns[k + 1]]
        m2, m3 = cost_t[columns[k + 2]], cost_t[columns[k + 3]]
        l0 = l1 = l2 = l3 = g.dtype.type(-np.inf)
        for i in range(n_rows):
            x = g[i]
            l0 = larger(l0, _difference(x, m0[i], factor))
            l1 = larger(l1, _difference(x, m1[i], factor))
            l2 = larger(l2, _difference(x, m2[i], factor))
            l3 = larger(l3, _difference(x, m3[i], factor))
        L[k], L[k + 1], L[k + 2], L[k + 3] = l0, l1, l2, l3
        _add_noise(L, theta, temperature, inverse_q, h, k, k + 4)
        h0, h1, h2, h3 = h[k], h[k + 1], h[k + 2], h[k + 3]
        for i in range(n_rows):
            low = smaller(added(m0[i], h0, factor), added(m1[i], h1, factor))
            high = smaller(added(m2[i], h2, factor), added(m3[i], h3, factor))
            U[i] = smaller(U[i], smaller(low, high))
        k += 4
    for d in range(k, stop):
        m0 = cost_t[columns[d]]
        most = g.dtype.type(-np.inf)
        for i in range(n_rows):
            most = larger(most, g[i] - m0[i])
        L[d] = most
        _add_noise(L, theta, temperature, inverse_q, h, d, d + 1)
        lowest = h[d]
        for i in range(n_rows):
            U[i] = smaller(U[i], m0[i] + lowest)


@fused
def gibbs_iterations(  # type: ignore[no-untyped-def]
    begin,
    end,
    g,
    before,
    U,
    h,
    L,
    cost_t,
    columns,
    offsets,
    inverse_p,
    inverse_q,
    temperatures,
    theta,
    factor,
):
    """Advance the problems begin, ..., end - 1 of a batch in place.

    U (B, m1); before (B, m1) receives the g that the last L was made of. Problem b's
    columns of positive mass are columns[offsets[b] : offsets[b + 1]]; h, L and
    inverse_q are flat along them. cost_t (m2, m1); temperatures (n, 2); theta (n,
    len(columns) + B m1), those of h first. Where p is zero, inverse_p is infinite and g
    -inf.
    """
    n_rows = g.shape[1]
    for b in range(begin, end):
        start, stop = offsets[b], offsets[b + 1]
        theta_g = len(columns) + b * n_rows
        for n in range(temperatures.shape[0]):
            t_h, t_g = temperatures[n]
            _walk(
                g[b],
                U[b],
                h[start:stop],
                L[start:stop],
                cost_t,
                columns[start:stop],
                theta[n, start:stop],
                t_h,
                inverse_q[start:stop],
                factor,
            )
            before[b] = g[b]
            _lower_by_noise(
                U[b], theta[n, theta_g : theta_g + n_rows], t_g, inverse_p[b], g[b]
            )


@inlined_fused
def _lower_by_noise(U, theta, temperature, inverse_p, g):  # type: ignore[no-untyped-def]
    for i in range(len(g)):
        g[i] = U[i] - theta[i] * temperature * inverse_p[i]


@fused
def pruned_iterations(  # type: ignore[no-untyped-def]
    g, before, U, h, L, inverse_p, inverse_q, temperatures, theta, factor, kept
):
    """Advance one problem as `gibbs_iterations` would, by what matters of its cost.

    kept is a `Pruning` of its cost.
    """
    n, m1 = kept.cost_t.shape
    x, minima = np.empty(m1, g.dtype), np.empty(n, g.dtype)
    for step in range(temperatures.shape[0]):
        t_h, t_g = temperatures[step]
        theta_h, theta_g = theta[step, :n], theta[step, n:]
        share = 1.0
        for i in range(m1):
            x[i] = -g[i]
        if walks(kept.control):
            transpose_once(kept)
            cost_t, columns = kept.cost_t, kept.columns
            _walk(g, U, h, L, cost_t, columns, theta_h, t_h, inverse_q, factor)
        else:
            to_columns, to_rows = kept.to_columns, kept.to_rows
            looks = tile_minima(x, minima, to_columns, kept.size, factor)
            for d in range(n):
                L[d] = -minima[d]
            _add_noise(L, theta_h, t_h, inverse_q, h, 0, n)
            looks += tile_minima(h, U, to_rows, kept.size, factor)
            share = looks / (to_columns.slack.size + to_rows.slack.size)
        if note_looks(kept.control, share):
            # Of U and L, which have no noise: g and h then move away from them, not
            # towards the constraints.
            for i in range(m1):
                x[i] = -U[i]
            for d in range(n):
                minima[d] = -L[d]
            renew_slacks(x, minima, kept.to_columns, factor)
            renew_slacks(L, U, kept.to_rows, factor)
        before[:] = g
        _lower_by_noise(U, theta_g, t_g, inverse_p, g)


@fused
def monge_iterations(  # type: ignore[no-untyped-def]
    g, before, U, h, L, inverse_p, inverse_q, temperatures, theta, one, kept
):
    """Advance one problem as `gibbs_iterations` would, if its cost is of Monge.

    kept is a `Monge`; one is 1.
    """
    n, m1 = kept.cost_t.shape
    cost, cost_t, size, margin = kept.cost, kept.cost_t, kept.size, kept.margin
    x = np.empty(m1, g.dtype)
    for step in range(temperatures.shape[0]):
        t_h, t_g = temperatures[step]
        for i in range(m1):
            x[i] = -g[i]
        monge_minima(x, L, cost, cost_t, size, margin, one)
        for d in range(n):
            L[d] = -L[d]
        _add_noise(L, theta[step, :n], t_h, inverse_q, h, 0, n)
        monge_minima(h, U, cost_t, cost, size, margin, one)
        before[:] = g
        _lower_by_noise(U, theta[step, n:], t_g, inverse_p, g)


@fused
def fill_maxima(g, cost_t, L):  # type: ignore[no-untyped-def]
    """Put max_i (g_i - M_ij) where L (B, m2) is -inf; arrays as above."""
    for b in range(len(g)):
        g_b = g[b]
        for j in range(L.shape[1]):
            if L[b, j] == -np.inf:
                row = cost_t[j]
                largest = g.dtype.type(-np.inf)
                for i in range(g.shape[1]):
                    largest = larger(largest, g_b[i] - row[i])
                L[b, j] = largest


class CompiledChain:
    """What ``PlainChain`` is, over the entries that have mass."""

    def __init__(
        self,
        p: Float[Tensor, "batch m1"],
        q: Float[Tensor, "batch m2"],
        cost: Float[Tensor, "m1 m2"],
        g: Float[Tensor, "batch m1"],
    ) -> None:
        self.q, self.cost = q, cost
        used = (p > 0).any(0)
        self.unused = (~used).nonzero()[:, 0]
        # Slicing is free, and most often all is used.
        self.rows = used.nonzero()[:, 0] if len(self.unused) else slice(None)
        self.batch, self.columns = (q > 0).nonzero(as_tuple=True)
        self.offsets = np.searchsorted(self.batch.numpy(), np.arange(len(p) + 1))
        self.inverse_q = q[self.batch, self.columns].reciprocal()
        self.g = g[:, self.rows].clone()
        self.before, self.U = torch.empty_like(self.g), self.g.clone()
        self.h = torch.empty_like(self.inverse_q)
        self.L = torch.empty_like(self.inverse_q)
        self.monge, self.pruning = None, None
        if len(p) == 1:
            some = slice(None) if len(self.columns) == q.shape[1] else self.columns
            whole = cost[self.rows][:, some]
            self.monge = monge_of(whole)
            self.pruning = pruning_for(whole) if self.monge is None else None
        self.n_draws = self.h.numel() + self.g.numel()
        self.set_p(p)

    @cached_property
    def cost_t(self) -> Float[Tensor, "m2 m1"]:
        """Copy the transpose, which a single large problem most often does without."""
        return transposed(self.cost[self.rows])

    def set_p(self, p: Float[Tensor, "batch m1"]) -> None:
        """Go on with other masses, on the same rows."""
        self.p = p
        self.inverse_p = p[:, self.rows].reciprocal()
        # An entry that had no mass has no g but a U, and the other way round.
        self.g = torch.where(self.g == -torch.inf, self.U, self.g)
        self.g.masked_fill_(self.inverse_p == torch.inf, -torch.inf)

    def advance(
        self,
        temperatures: Float[Tensor, "n_iterations 2"],
        theta: Float[Tensor, "n_iterations n_draws"],
    ) -> None:
        """Iterate with these exponentials."""
        self._iterate(self.g, self.before, self.U, self.h, self.L, temperatures, theta)

    def _iterate(self, *tensors: Tensor) -> None:
        *coordinates, temperatures, theta = (x.numpy() for x in tensors)
        inverse_p, inverse_q = self.inverse_p.numpy(), self.inverse_q.numpy()
        one = inverse_p.dtype.type(1)
        factor = one if _FUSES else None
        state = [x.reshape(-1) for x in (*coordinates, inverse_p, inverse_q)]
        if self.monge is not None:
            monge_iterations(*state, temperatures, theta, one, self.monge)
            return
        if self.pruning is not None:
            pruned_iterations(*state, temperatures, theta, factor, self.pruning)
            return

        cost_t, columns = self.cost_t.numpy(), self.columns.numpy()

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
                factor,
            )

        n_entries = len(columns) * cost_t.shape[1]
        # An iteration looks at them twice, for the rows and for the columns.
        in_threads(work, len(self.p), 2 * len(temperatures) * n_entries)

    def statistics(self, complete: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the last g, h, U and L; complete: where there is no mass too."""
        U = torch.full_like(self.p, torch.inf)
        U[:, self.rows] = self.U
        L = torch.full_like(self.q, -torch.inf)
        L[self.batch, self.columns] = self.L
        if complete and (len(self.unused) or len(self.columns) < L.numel()):
            self._complete(U, L)
        g, h = U.clone(), L.clone()
        g[:, self.rows] = torch.where(self.g == -torch.inf, self.U, self.g)
        h[self.batch, self.columns] = self.h
        return g, h, U, L

    def _complete(
        self, U: Float[Tensor, "batch m1"], L: Float[Tensor, "batch m2"]
    ) -> None:
        """Fill in what carries no mass, by the iteration's own extremes."""
        before, cost_t, maxima = self.before.numpy(), self.cost_t.numpy(), L.numpy()

        def fill(problems: slice) -> None:
            fill_maxima(before[problems], cost_t, maxima[problems])

        in_threads(fill, len(L), maxima.size * cost_t.shape[1])
        for b, (start, stop) in enumerate(pairwise(self.offsets)):
            if len(self.unused):
                rest = self.cost[self.unused][:, self.columns[start:stop]]
                U[b, self.unused] = (rest + self.h[start:stop]).amin(1)

    def dual_value(self) -> Float[Tensor, " batch"]:
        """Return the lower bounds that U gives by c-transforms."""
        # An iteration without noise is a pair of c-transforms.
        g = self.U.masked_fill(self.inverse_p == torch.inf, -torch.inf)
        U, h, L = map(torch.empty_like, (g, self.h, self.L))
        # Of the type of all exponentials: kernels are compiled for no second one.
        no_noise = g.new_zeros(1, self.n_draws, dtype=torch.float32)
        self._iterate(g, torch.empty_like(g), U, h, L, g.new_ones(1, 2), no_noise)
        mass = self.p[:, self.rows]
        value = (mass * U.masked_fill(mass == 0, 0)).sum(-1)
        return value.index_add(0, self.batch, -self.q[self.batch, self.columns] * L)
