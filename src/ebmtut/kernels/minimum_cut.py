"""The relaxation of a pairwise model as a minimum cut, compiled for the CPU.

Every bit has two literals, "it is 1" and "it is 0". A cut gives one side to each; a bit
whose literals are on the same side has the relaxed value one half. The least cut solves
the linear program (Boros and Hammer, 2002); Dinic's algorithm finds it, in integers.

The plain reference is the linear program itself, ``method="program"`` of
`ebmtut.message_passing.relax`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ebmtut._compiled import compiled, in_threads, inlined
from ebmtut.energies import PairTerms

# Residual capacities are at most twice this, and 32-bit integers.
_LARGEST = 2**29


class _Arcs(NamedTuple):
    """Both directions of all pairs; those from site i are start[i] to start[i + 1]."""

    start: NDArray[np.int64]
    head: NDArray[np.int32]
    back: NDArray[np.int32]  # the arc from the head to this site
    repels: NDArray[np.int8]  # 1: from "it is 1" to "it is 0" and vice versa
    capacity: NDArray[np.int32]


def relax_by_cut(
    terms: PairTerms, unaries: Float[NDArray, "n_samples n_sites"]
) -> Float[NDArray, "n_samples n_sites"]:
    """Return the relaxed values of all samples: zero, one half or one.

    A bit that several solutions differ in is one half.
    """
    n_sites, n_pairs = len(terms.bias), len(terms.weight)
    weight = np.tile(terms.weight.numpy(), 2)
    tail = np.concatenate([terms.first.numpy(), terms.second.numpy()])
    # The arcs of a site stand together.
    order = np.argsort(tail, kind="stable")
    place = np.empty(2 * n_pairs, np.int32)
    place[order] = np.arange(2 * n_pairs)
    other = np.roll(np.arange(2 * n_pairs), n_pairs)  # of each direction, the opposite
    unit = np.abs(weight).max(initial=0.0) / _LARGEST or 2.0**-500
    units = np.rint(weight / unit).astype(np.int64)
    arcs = _Arcs(
        np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=n_sites))]),
        tail[other][order].astype(np.int32),
        place[other][order],
        (weight < 0).astype(np.int8)[order],
        np.abs(units).astype(np.int32)[order],
    )
    # In spins, and times four, a pair is w s s' + w (s + s') and a unary is 2 b s.
    at_sites, most = np.zeros((2, n_sites), np.int64)
    np.add.at(at_sites, tail, units)
    np.add.at(most, tail, np.abs(units))
    # A larger field decides alone, as it exceeds what pairs can change.
    field = (2 / unit * unaries + at_sites).clip(-most - 1, most + 1)
    excess = np.rint(field).astype(np.int64)
    relaxed = np.empty_like(unaries)
    in_threads(
        lambda rows: _solve(*arcs, excess[rows], relaxed[rows]),
        len(unaries),
        len(unaries) * (20 * n_pairs + n_sites),
    )
    return relaxed


@compiled
def _solve(start, head, back, repels, capacity, excess, relaxed):  # type: ignore[no-untyped-def]
    """Fill relaxed by the sides of the literals, 2i and 2i + 1 of site i."""
    n_samples, n_sites = relaxed.shape
    residual = np.empty((2, len(head)), np.int32)
    level, queue, path = np.empty((3, 2 * n_sites), np.int32)
    # Positive: capacity from the source; negative: to the sink.
    at, left = np.empty((2, 2 * n_sites), np.int64)
    # A row goes on from the flow of the last: what it adds to a unary is still to send.
    residual[:] = capacity
    left[:] = 0
    for row in range(n_samples):
        for i in range(n_sites):
            more = excess[row, i] - (excess[row - 1, i] if row else 0)
            left[2 * i] += more
            left[2 * i + 1] -= more
        while _levels(start, head, repels, residual, left, level, queue):
            for i in range(n_sites):
                at[2 * i] = at[2 * i + 1] = start[i]
            for v in range(2 * n_sites):
                while left[v] > 0 and _find_path(
                    start, head, repels, residual, left, level, at, path, v
                ):
                    _push(head, back, repels, residual, left, at, v)
        # The source reaches those literals that are true in every solution.
        for i in range(n_sites):
            true, false = level[2 * i] >= 0, level[2 * i + 1] >= 0
            relaxed[row, i] = 0.5 + 0.5 * (np.int64(true) - np.int64(false))


@compiled
def _levels(start, head, repels, residual, left, level, queue):  # type: ignore[no-untyped-def]
    """Steps from the source, as far as it reaches; whether it reaches the sink."""
    level[:] = -1
    n_seen, k, last = 0, 0, len(level)
    for v in range(len(level)):
        if left[v] > 0:
            level[v] = 0
            queue[n_seen] = v
            n_seen += 1
    while k < n_seen < len(level) and level[queue[k]] < last:
        v = queue[k]
        k += 1
        side = v & 1
        for arc in range(start[v >> 1], start[(v >> 1) + 1]):
            if residual[side, arc] > 0:
                to = 2 * head[arc] + (side ^ repels[arc])
                if level[to] < 0:
                    level[to] = level[v] + 1
                    queue[n_seen] = to
                    n_seen += 1
                    if left[to] < 0:
                        last = level[to]
    return last < len(level)


@inlined
def _find_path(start, head, repels, residual, left, level, at, path, v):  # type: ignore[no-untyped-def]
    """Look for a way from v to the sink, down the levels; `at` has its arcs."""
    depth = 0
    path[0] = v
    while left[v] >= 0:
        side, end, found = v & 1, start[(v >> 1) + 1], False
        while at[v] < end:
            arc = at[v]
            if residual[side, arc] > 0:
                to = 2 * head[arc] + (side ^ repels[arc])
                if level[to] == level[v] + 1:
                    found = True
                    break
            at[v] += 1
        if found:
            depth += 1
            path[depth] = to
            v = to
        elif depth == 0:
            return False
        else:  # a dead end
            level[v] = -1
            depth -= 1
            v = path[depth]
    return True


@inlined
def _push(head, back, repels, residual, left, at, first):  # type: ignore[no-untyped-def]
    """Send what the way from a literal carries."""
    v, amount = first, left[first]
    while left[v] >= 0:
        side, arc = v & 1, at[v]
        amount = min(amount, residual[side, arc])
        v = 2 * head[arc] + (side ^ repels[arc])
    amount = min(amount, -left[v])
    last, v = v, first
    left[first] -= amount
    left[last] += amount
    while v != last:
        side, arc = v & 1, at[v]
        v = 2 * head[arc] + (side ^ repels[arc])
        residual[side, arc] -= amount
        residual[v & 1, back[arc]] += amount
