"""Min-plus products along the axes of a grid: compiled, or on a GPU by Triton.

The plain reference is :func:`ebmtut.transport.min_plus_reference`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import compiled, inlined
from ebmtut._gpu import runs_triton
from ebmtut.kernels.tiles import larger, smaller

# Lanes of one tile: a line of 64 pixels and its lanes fill the level-1 cache, and 100,
# 200 or 400 images waste few.
_LANES = 104
_SOURCES = 4  # pixels that are taken, or left out, together


@inlined
def _lower(best, top, line, cost):  # type: ignore[no-untyped-def]
    """Lower four targets' minima by four sources more; top is the largest of them."""
    x0, x1, x2, x3 = line[0], line[1], line[2], line[3]
    top[:] = -np.inf
    for i in range(_SOURCES):
        out, c = best[i], cost[i]
        c0, c1, c2, c3 = c[0], c[1], c[2], c[3]
        for lane in range(_LANES):
            a = smaller(x0[lane] + c0, x1[lane] + c1)
            b = smaller(x2[lane] + c2, x3[lane] + c3)
            out[lane] = smaller(smaller(a, b), out[lane])
            top[lane] = larger(top[lane], out[lane])


@compiled
def axis_min_plus(values, cost, least, order, out):  # type: ignore[no-untyped-def]
    """out[a, i, b] = min over k of values[a, k, b] + cost[i, k].

    values (n_outer, n, n_inner) is contiguous. ``cost`` (m, m, 4, 4) is in blocks,
    padded with infinities, ``least`` (m, m) holds the least of each, and ``order`` the
    blocks of each four targets, nearest first. Where all lanes know a minimum below
    what a block can give, it is left out: roundings keep order, so this is exact.
    """
    n_outer, n, n_inner = values.shape
    line = np.full((len(cost), _SOURCES, _LANES), np.inf, values.dtype)
    low = np.empty((len(cost), _LANES), values.dtype)
    best, top = np.empty_like(line[0]), np.empty_like(low[0])
    for a in range(n_outer):
        for start in range(0, n_inner, _LANES):
            width = min(_LANES, n_inner - start)
            low[:] = np.inf
            for k in range(n):
                row, least_of = line[k // _SOURCES, k % _SOURCES], low[k // _SOURCES]
                for lane in range(width):
                    row[lane] = values[a, k, start + lane]
                    least_of[lane] = smaller(least_of[lane], row[lane])
            for target in range(len(cost)):
                best[:], top[:] = np.inf, np.inf
                for block in order[target]:
                    bound, floor = least[target, block], low[block]
                    n_open = np.int32(0)
                    for lane in range(_LANES):
                        is_open = np.int32(floor[lane] + bound < top[lane])
                        n_open = np.int32(n_open + is_open)
                    if n_open > 0:
                        _lower(best, top, line[block], cost[target, block])
                first = _SOURCES * target
                for i in range(min(_SOURCES, n - first)):
                    out[a, first + i, start : start + width] = best[i, :width]


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
    inner, out = np.empty((2, height, width, n), values.dtype)
    shape = (1, height, width * n)
    axis_min_plus(values, *_blocks(columns), inner)
    axis_min_plus(inner.reshape(shape), *_blocks(rows), out.reshape(shape))
    return torch.from_numpy(out).permute(2, 0, 1)


def _blocks(cost: Tensor) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Cut a cost into blocks of 4 x 4, as the kernel wants them."""
    pad = -len(cost) % _SOURCES
    padded = torch.nn.functional.pad(cost, (0, pad, 0, pad), value=torch.inf)
    size = (-1, _SOURCES)
    blocks = padded.unflatten(0, size).unflatten(2, size).transpose(1, 2).contiguous()
    least = blocks.amin((2, 3))
    return blocks.numpy(), least.numpy(), least.argsort(stable=True).numpy()
