"""Compiled max-product sweeps of pairwise models: plain arrays in, updated in place.

Kept are not the messages N, but M = N - h with h = w / 2, for which one update is
shorter::

    max(0, P + w) - max(0, P) - h = (|q + h| - |q - h|) / 2,    q = P + h.

Both directions of a pair lie at the same place, ``a`` from its row to its column
and ``b`` back, so that nothing is read across, and the sums of the next sweep are
collected in the same pass. Dense models go chain by chain: one chain's messages
stay in the cache for all sweeps. On sparse graphs the chains are innermost.
"""

from functools import partial

import numpy as np

from ebmtut._compiled import compiled as _compiled

__all__ = ["bipartite_sweeps", "dense_sweeps", "sparse_sweeps"]

# Sums in any order: the only freedom that vectors need.
compiled = partial(_compiled, fastmath={"reassoc", "contract", "nsz"})


@compiled
def dense_sweeps(half, unaries, belief, a, b, fresh, start, n_sweeps, keep, move):  # type: ignore[no-untyped-def]
    """Sweep all pairs i < j of a dense model, one chain after the other.

    ``half`` (n_pairs) are half weights, rows one after the other; ``unaries``
    (n_chains, n) include the sum of a site's half weights. ``a`` and ``b`` are
    (n_chains, n_pairs), or (1, n_pairs) if messages need not be kept; if ``fresh``
    they start at ``start * half``. ``belief`` (n_chains, n) is filled. The
    numbers ``start``, ``keep`` (the damping) and ``move``, half of what is not
    kept, have the dtype of the arrays.
    """
    n_chains, n = unaries.shape
    p, sums = np.empty(n, half.dtype), np.empty(n, half.dtype)
    for c in range(n_chains):
        a_c, b_c = a[min(c, len(a) - 1)], b[min(c, len(b) - 1)]
        if fresh:
            a_c[:] = start * half
            b_c[:] = start * half
        sums[:] = unaries[c]
        at = 0
        for i in range(n - 1):
            heard = sums[i]
            for j in range(i + 1, n):
                heard += b_c[at]
                sums[j] += a_c[at]
                at += 1
            sums[i] = heard
        for _ in range(n_sweeps):
            p[:] = sums
            sums[:] = unaries[c]
            at = 0
            for i in range(n - 1):
                p_i, heard = p[i], sums[i]
                row = at - i - 1
                for j in range(i + 1, n):
                    # Unsigned indices spare a test for negative ones.
                    k, e = np.uint64(j), np.uint64(row + j)
                    q = p_i - b_c[e]  # all that i hears, but for j
                    r = p[k] - a_c[e]
                    h = half[e]
                    to_j = keep * a_c[e] + move * (abs(q + h) - abs(q - h))
                    to_i = keep * b_c[e] + move * (abs(r + h) - abs(r - h))
                    a_c[e], b_c[e] = to_j, to_i
                    sums[k] += to_j
                    heard += to_i
                sums[i] = heard
                at += n - 1 - i
        belief[c] = sums


@compiled
def bipartite_sweeps(half, unaries, belief, a, b, fresh, start, n_sweeps, keep, move):  # type: ignore[no-untyped-def]
    """Sweep a model whose pairs are rows against columns, chain by chain.

    As `dense_sweeps`, with ``half`` (n_rows, n_columns), ``a`` and ``b``
    (n_chains or 1, n_rows, n_columns); the sites are the columns, then the rows.
    """
    n_chains = len(unaries)
    n_rows, n_columns = half.shape
    p = np.empty(n_columns + n_rows, half.dtype)
    sums = np.empty(n_columns + n_rows, half.dtype)
    for c in range(n_chains):
        a_c, b_c = a[min(c, len(a) - 1)], b[min(c, len(b) - 1)]
        sums[:] = unaries[c]
        for i in range(n_rows):
            if fresh:
                a_c[i] = start * half[i]
                b_c[i] = start * half[i]
            sums[:n_columns] += a_c[i]
            sums[n_columns + i] += b_c[i].sum()
        for _ in range(n_sweeps):
            p[:] = sums
            sums[:] = unaries[c]
            for i in range(n_rows):
                p_i, heard = p[n_columns + i], sums[n_columns + i]
                a_i, b_i, half_i = a_c[i], b_c[i], half[i]
                for j in range(n_columns):
                    k = np.uint64(j)
                    q = p_i - b_i[k]
                    r = p[k] - a_i[k]
                    h = half_i[k]
                    to_j = keep * a_i[k] + move * (abs(q + h) - abs(q - h))
                    to_i = keep * b_i[k] + move * (abs(r + h) - abs(r - h))
                    a_i[k], b_i[k] = to_j, to_i
                    sums[k] += to_j
                    heard += to_i
                sums[n_columns + i] = heard
        belief[c] = sums


@compiled
def sparse_sweeps(first, second, half, unaries, belief, a, b, n_sweeps, keep, move):  # type: ignore[no-untyped-def]
    """Sweep the edges of a graph, all chains at once.

    ``unaries`` and ``belief`` are (n_sites, n_chains), ``a`` (first to second)
    and ``b`` (back) (n_edges, n_chains), filled with where the messages start.
    """
    n_chains = unaries.shape[1]
    p = np.empty_like(unaries)
    belief[:] = unaries
    for e in range(half.size):
        belief[second[e]] += a[e]
        belief[first[e]] += b[e]
    for _ in range(n_sweeps):
        p[:] = belief
        belief[:] = unaries
        for e in range(half.size):
            h = half[e]
            p_i, p_j = p[first[e]], p[second[e]]
            to_i, to_j = belief[first[e]], belief[second[e]]
            a_e, b_e = a[e], b[e]
            for c in range(n_chains):
                q = p_i[c] - b_e[c]
                r = p_j[c] - a_e[c]
                new_a = keep * a_e[c] + move * (abs(q + h) - abs(q - h))
                new_b = keep * b_e[c] + move * (abs(r + h) - abs(r - h))
                a_e[c] = new_a
                b_e[c] = new_b
                to_j[c] += new_a
                to_i[c] += new_b
