"""Min-plus products along the axes of a grid: compiled, or on a GPU by Triton.

The plain reference is :func:`ebmtut.transport.min_plus_reference`.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import compiled
from ebmtut._gpu import runs_triton

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

    values (n_outer, n, n_inner) is contiguous; cost is padded with infinities to an
    even number of rows and a multiple of four columns.
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


def grid_least_sums(
    h: Float[Tensor, "batch height width"],
    rows: Float[Tensor, "height height"],
    columns: Float[Tensor, "width width"],
) -> Float[Tensor, "batch height width"] | None:
    """Sum along the rows' pixels, then from row to row; None where no kernel runs."""
    if runs_triton(h):
        from ebmtut.kernels.min_plus_triton import least_sums_over

        between = least_sums_over(h.transpose(1, 2), columns.T)
        return least_sums_over(between, rows.T).transpose(1, 2)
    if h.device.type != "cpu":
        return None
    n, height, width = h.shape
    values = h.detach().permute(1, 2, 0).contiguous().numpy()
    inner, out = torch.empty((2, height, width, n), dtype=h.dtype, device="cpu").numpy()
    shape = (1, height, width * n)
    axis_min_plus(values, _padded(columns), inner)
    axis_min_plus(inner.reshape(shape), _padded(rows), out.reshape(shape))
    return torch.from_numpy(out).permute(2, 0, 1)


def _padded(cost: Tensor) -> NDArray[np.floating]:
    """Pad with infinities, as the kernel wants."""
    n = len(cost)
    pad = (0, -n % 4, 0, n % 2)
    padded: NDArray[np.floating] = torch.nn.functional.pad(
        cost, pad, value=torch.inf
    ).numpy()
    return padded
