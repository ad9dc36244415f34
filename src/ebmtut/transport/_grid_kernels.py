"""Compiled min-plus products along the axes of a grid.

The reference is :func:`ebmtut.transport.min_plus_reference`, which is what a
reader is shown.
"""

import numpy as np

from ebmtut._compiled import compiled

__all__ = ["axis_min_plus"]

# Lanes of one tile: a line of 64 pixels and its lanes fill the level-1 cache, and
# 200 or 400 images waste few.
_LANES = 112


@compiled
def smaller(a, b):  # type: ignore[no-untyped-def]
    """One minimum instruction; the builtin's care for NaN is several."""
    return a if a < b else b


@compiled
def axis_min_plus(values, cost, out):  # type: ignore[no-untyped-def]
    """out[a, i, b] = min over k of values[a, k, b] + cost[i, k].

    values (n_outer, n, n_inner) and out of the same shape are contiguous;
    cost is padded with infinities to an even number of rows and a multiple
    of four columns.
    """
    n_outer, n, n_inner = values.shape
    n_rows, n_columns = cost.shape
    line = np.zeros((n_columns, _LANES), values.dtype)
    best = np.empty((2, _LANES), values.dtype)
    for a in range(n_outer):
        for start in range(0, n_inner, _LANES):
            width = min(_LANES, n_inner - start)
            for k in range(n):
                line[k, :width] = values[a, k, start : start + width]
            for i in range(0, n_rows, 2):
                best[:] = np.inf
                best0, best1 = best[0], best[1]
                for k in range(0, n_columns, 4):
                    first, second = cost[i, k : k + 4], cost[i + 1, k : k + 4]
                    a0, a1, a2, a3 = first[0], first[1], first[2], first[3]
                    b0, b1, b2, b3 = second[0], second[1], second[2], second[3]
                    l0, l1, l2, l3 = line[k], line[k + 1], line[k + 2], line[k + 3]
                    # Four sources against two targets: six loads for eight terms.
                    for lane in range(_LANES):
                        w, x, y, z = l0[lane], l1[lane], l2[lane], l3[lane]
                        u = smaller(smaller(w + a0, x + a1), smaller(y + a2, z + a3))
                        best0[lane] = smaller(u, best0[lane])
                        u = smaller(smaller(w + b0, x + b1), smaller(y + b2, z + b3))
                        best1[lane] = smaller(u, best1[lane])
                out[a, i, start : start + width] = best[0, :width]
                if i + 1 < n:
                    out[a, i + 1, start : start + width] = best[1, :width]
