"""Compiled max-product sweeps of pairwise models: plain arrays in, beliefs out.

With h = w / 2 and d the damping, messages N are kept as

    S = (N - h) / c,    c = (1 - d) sgn(h),

for then an update needs no sign, no half and no product with 1 - d::

    q = belief - c S_back                 all that the sender hears but this, + h
    S <- d S + min(max(q, -|h|), |h|),

as max(0, q + h) - max(0, q - h) - h = sgn(h) min(max(q, -|h|), |h|). Both ways
share c and |h|. They lie at the same place, ``out`` from a row's site to a
column's and ``back``, so that nothing is read across, and the sums of the next
sweep are collected in the same pass. Matrices go chain by chain: one chain's
messages stay in the cache for all sweeps. On sparse graphs the chains are
innermost.
"""

import math
from functools import partial

import numpy as np

from ebmtut._compiled import compiled as _compiled

__all__ = ["row_sweeps", "sparse_sweeps"]

# Sums in any order: the only freedom that vectors need.
compiled = partial(_compiled, fastmath={"reassoc", "contract", "nsz"})


@compiled
def renewed(message, belief, answer, c, height, keep):  # type: ignore[no-untyped-def]
    """Update one S, whose sender has this belief and was answered this."""
    q = belief - c * answer
    q = q if q < height else height
    q = q if q > -height else -height
    return keep * message + q


@compiled
def row_sweeps(  # type: ignore[no-untyped-def]
    half,
    slots,
    first,
    place,
    n_columns,
    unaries,
    belief,
    before,
    after,
    way,
    start,
    n_sweeps,
    keep,
    new,
):
    """Sweep all pairs of rows and columns, one chain after the other.

    ``half``, ``slots``, ``first``, ``place`` and ``n_columns`` are those of
    `ebmtut.message_passing._rows.Rows`. ``unaries`` (n_chains, n_places), the
    columns' first, include the sum of a site's half weights; ``belief``, of its
    shape, is filled. ``before`` (n_chains, 2, n_pairs) are the N to start from,
    ``way`` being the one from rows to columns; if there are none, (0, 2, n_pairs),
    all start at S = ``start`` |h|. ``after``, likewise, takes the last N. The
    numbers ``start``, ``keep`` = d and ``new`` = 1 - d have the arrays' dtype.
    """
    n_chains, n_places = unaries.shape
    p, sums = np.empty(n_places, half.dtype), np.empty(n_places, half.dtype)
    out, back = np.zeros_like(half), np.zeros_like(half)
    for chain in range(n_chains):
        if len(before):
            for e in range(len(slots)):
                at = slots[e]
                c = math.copysign(new, half[at])
                out[at] = (before[chain, way, e] - half[at]) / c
                back[at] = (before[chain, 1 - way, e] - half[at]) / c
        else:
            for e in range(half.size):
                out[e] = back[e] = start * abs(half[e])
        sums[:] = unaries[chain]
        at = 0
        for r in range(len(first)):
            heard, row = half.dtype.type(0), at - first[r]
            for column in range(first[r], n_columns):
                # Unsigned indices spare a test for negative ones.
                k, i = np.uint64(column), np.uint64(row + column)
                c = math.copysign(new, half[i])
                sums[k] += c * out[i]
                heard += c * back[i]
            sums[place[r]] += heard
            at += n_columns - first[r]
        for _ in range(n_sweeps):
            p[:] = sums
            sums[:] = unaries[chain]
            at = 0
            for r in range(len(first)):
                p_row, heard, row = p[place[r]], half.dtype.type(0), at - first[r]
                for column in range(first[r], n_columns):
                    k, i = np.uint64(column), np.uint64(row + column)
                    c, height = math.copysign(new, half[i]), abs(half[i])
                    to_column = renewed(out[i], p_row, back[i], c, height, keep)
                    to_row = renewed(back[i], p[k], out[i], c, height, keep)
                    out[i], back[i] = to_column, to_row
                    sums[k] += c * to_column
                    heard += c * to_row
                sums[place[r]] += heard
                at += n_columns - first[r]
        belief[chain] = sums
        if len(after):
            for e in range(len(slots)):
                at = slots[e]
                c = math.copysign(new, half[at])
                after[chain, way, e] = c * out[at] + half[at]
                after[chain, 1 - way, e] = c * back[at] + half[at]


@compiled
def sparse_sweeps(  # type: ignore[no-untyped-def]
    first, second, half, unaries, belief, out, back, n_sweeps, keep, new
):
    """Sweep the edges of a graph, all chains at once.

    ``unaries`` and ``belief`` are (n_sites, n_chains), the S ``out`` (first to
    second) and ``back`` (n_edges, n_chains), filled with where they start.
    """
    n_chains = unaries.shape[1]
    p = np.empty_like(unaries)
    belief[:] = unaries
    for e in range(half.size):
        c = math.copysign(new, half[e])
        belief[second[e]] += c * out[e]
        belief[first[e]] += c * back[e]
    for _ in range(n_sweeps):
        p[:] = belief
        belief[:] = unaries
        for e in range(half.size):
            c, height = math.copysign(new, half[e]), abs(half[e])
            p_first, p_second = p[first[e]], p[second[e]]
            to_first, to_second = belief[first[e]], belief[second[e]]
            out_e, back_e = out[e], back[e]
            for chain in range(n_chains):
                a, b = out_e[chain], back_e[chain]
                new_a = renewed(a, p_first[chain], b, c, height, keep)
                new_b = renewed(b, p_second[chain], a, c, height, keep)
                out_e[chain], back_e[chain] = new_a, new_b
                to_second[chain] += c * new_a
                to_first[chain] += c * new_b
