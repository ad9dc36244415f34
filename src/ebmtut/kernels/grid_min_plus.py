"""Min-plus products along the axes of a grid: compiled, or on a GPU by Triton.

The plain reference is :func:`ebmtut.transport.min_plus_reference`. Along an axis whose
cost is strictly Monge, as of squared distances, the sources of the minima are in the
order of their targets. So the target in the middle is taken first, and a target looks
only at sources between those of its neighbours, in all lanes of a tile together.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import compiled, in_threads, inlined
from ebmtut._gpu import runs_triton
from ebmtut.kernels.tiles import smaller

# Lanes of one tile: a line of 64 pixels and its lanes fill the level-1 cache, and 100,
# 200 or 400 images waste few.
_LANES = 104
_SOURCES = 4  # pixels that are taken together


@inlined
def _lower(best, line, cost):  # type: ignore[no-untyped-def]
    """Lower one target's minima by four sources more."""
    x0, x1, x2, x3 = line[0], line[1], line[2], line[3]
    c0, c1, c2, c3 = cost[0], cost[1], cost[2], cost[3]
    for lane in range(_LANES):
        a = smaller(x0[lane] + c0, x1[lane] + c1)
        b = smaller(x2[lane] + c2, x3[lane] + c3)
        best[lane] = smaller(smaller(a, b), best[lane])


@inlined
def _reaches(line, cost, reach):  # type: ignore[no-untyped-def]
    """Whether one of four sources comes as low as reach in any lane."""
    x0, x1, x2, x3 = line[0], line[1], line[2], line[3]
    c0, c1, c2, c3 = cost[0], cost[1], cost[2], cost[3]
    n_low = np.int32(0)
    for lane in range(_LANES):
        a = smaller(x0[lane] + c0, x1[lane] + c1)
        b = smaller(x2[lane] + c2, x3[lane] + c3)
        n_low = np.int32(n_low + np.int32(smaller(a, b) <= reach[lane]))
    return n_low > 0


@compiled
def axis_min_plus(values, cost, steps, begin, end, out):  # type: ignore[no-untyped-def]
    """out[a, i, b] = min over k of values[a, k, b] + cost[i, k].

    values (n_outer, n, n_inner) is contiguous. ``cost`` (n, n_blocks, 4) is padded with
    infinities. Of the tiles, lines of n pixels in 104 lanes, those from begin to end
    are done. ``steps`` (n, 4) lists the targets in their order: each with the earlier
    targets whose sources bound its own from below and above, n for none, and whether
    it bounds later ones.
    """
    _, n, n_inner = values.shape
    n_blocks, n_tiles = cost.shape[1], (n_inner + _LANES - 1) // _LANES
    line = np.full((n_blocks, _SOURCES, _LANES), np.inf, values.dtype)
    best, reach = np.empty(_LANES, values.dtype), np.empty(_LANES, values.dtype)
    rounding = values.dtype.type(2 * np.finfo(values.dtype).eps)
    low, high = np.zeros(n + 1, np.int64), np.full(n + 1, n_blocks - 1)
    for tile in range(begin, end):
        a, start = tile // n_tiles, tile % n_tiles * _LANES
        width = min(_LANES, n_inner - start)
        for k in range(n):
            row = line[k // _SOURCES, k % _SOURCES]
            for lane in range(width):
                row[lane] = values[a, k, start + lane]
            row[width:] = np.inf
        for step in range(n):
            target, left, right = steps[step, 0], steps[step, 1], steps[step, 2]
            first, last, c = low[left], high[right], cost[target]
            best[:] = np.inf
            for block in range(first, last + 1):
                _lower(best, line[block], c[block])
            out[a, target, start : start + width] = best[:width]
            if steps[step, 3]:
                for lane in range(_LANES):
                    reach[lane] = best[lane] + rounding * abs(best[lane])
                    reach[lane] = reach[lane] if best[lane] < np.inf else -np.inf
                while first < last and not _reaches(line[first], c[first], reach):
                    first += 1
                while first < last and not _reaches(line[last], c[last], reach):
                    last -= 1
                low[target], high[target] = first, last


def _halving(n: int) -> NDArray[np.int64]:
    """Return the steps that take the middle target first, then those of each half."""
    order, gaps = [], [(-1, n)]
    for left, right in gaps:  # grows
        if right - left > 1:
            middle = (left + right) // 2
            order.append((middle, left if left >= 0 else n, right, right - left > 2))
            gaps += [(left, middle), (middle, right)]
    return np.array(order)


@lru_cache(maxsize=16)
def _prepared(cost: bytes, n: int, dtype: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cut a cost into blocks, and find its steps: by halving if it is strictly Monge.

    By its bytes, as working them out takes as long as the minima of a few small images.
    """
    given = np.frombuffer(cost, dtype).reshape(n, n)
    padded = np.pad(given, ((0, 0), (0, -n % _SOURCES)), constant_values=np.inf)
    exact = given.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinite costs
        bend = np.diff(np.diff(exact, axis=0), axis=1)
    rounding = np.finfo(np.float64).eps * np.abs(exact).max()
    steps = np.array([(target, n, n, False) for target in range(n)])
    if (bend < -8 * rounding).all():
        steps = _halving(n)
    return padded.reshape(n, -1, _SOURCES), steps


def _along_axis(values: NDArray[Any], cost: NDArray[Any]) -> NDArray[Any]:
    """Return what `axis_min_plus` fills in, with threads where they are worth it."""
    n_outer, n, n_inner = values.shape
    blocks, steps = _prepared(cost.tobytes(), n, cost.dtype.str)
    out = np.empty_like(values)

    def work(tiles: slice) -> None:
        axis_min_plus(values, blocks, steps, tiles.start, tiles.stop, out)

    # By halving, a target looks at about a quarter of the sources.
    in_threads(work, n_outer * -(-n_inner // _LANES), values.size * n // 4)
    return out


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
    inner = _along_axis(values, columns.numpy()).reshape(1, height, width * n)
    out = _along_axis(inner, rows.numpy()).reshape(height, width, n)
    return torch.from_numpy(out).permute(2, 0, 1)
