"""Minima over a cost of Monge, as on a line: each lies between its neighbours'.

If M_rc + M_r'c' < M_rc' + M_r'c for all r < r' and c < c', the row that attains
min_r (M_rc + x_r) never moves up as c grows (Aggarwal, Klawe, Moran, Shor and Wilber,
1987), so rows are found by halving. Where all differences of the two sides exceed four
times a sum's rounding, the minima are those of all rows, to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import fused
from ebmtut.kernels.tiles import smaller, transposed

_SMALLEST = 2**12  # pairs: below it a look at all takes no longer
_SPARE = 16.0  # roundings of the largest cost that the margin must exceed
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)
_HEIGHT, _WIDTH = np.uint64(4), np.uint64(32)  # of the tiles that are walked


class Monge(NamedTuple):
    """A cost of Monge, both ways.

    Attributes
    ----------
    cost, cost_t, size
        (m1, n) and (n, m1), and the largest absolute cost.
    margin
        By how much M_rc' + M_r'c exceeds M_rc + M_r'c' at least.
    """

    cost: NDArray[np.floating]
    cost_t: NDArray[np.floating]
    size: np.floating
    margin: np.floating


def monge_of(cost: Float[Tensor, "m1 n"]) -> Monge | None:
    """Look whether a cost is of Monge; None if not, or where it is not worth it."""
    if min(cost.shape) < _WIDTH or cost.numel() < _SMALLEST:
        return None
    given = cost.contiguous().numpy()
    size = max(abs(bound.item()) for bound in cost.aminmax())
    if size == np.inf:
        return None
    rounding = np.finfo(given.dtype).eps * size
    # A difference of differences is off by four roundings at most.
    margin = _least_excess(given) - 4 * rounding
    if margin <= _SPARE * rounding:
        return None
    number = given.dtype.type
    return Monge(given, transposed(cost).numpy(), number(size), number(margin))


@fused
def _least_excess(cost):  # type: ignore[no-untyped-def]
    """The least M_rc' + M_r'c - M_rc - M_r'c' of neighbours, while it is positive."""
    least = cost.dtype.type(np.inf)
    for r in range(np.uint64(len(cost) - 1)):
        above, below = cost[r], cost[r + _ONE]
        for c in range(np.uint64(len(above) - 1)):
            next_c = c + _ONE
            excess = (above[next_c] - above[c]) - (below[next_c] - below[c])
            least = smaller(least, excess)
        if least <= 0:
            break
    return least


@fused
def _place_of_least(x, column, first, last, one):  # type: ignore[no-untyped-def]
    """The row from first to last that attains min_r (M_rc + x_r)."""
    least = x.dtype.type(np.inf)
    for r in range(first, last + _ONE):
        least = smaller(least, one * column[r] + x[r])
    r = first
    while one * column[r] + x[r] > least:
        r += _ONE
    return r


@fused
def _lower(out, x, row, cost, begin, one):  # type: ignore[no-untyped-def]
    """out_c = min(out_c, M_rc + x_r) over the tile that begins at row and begin."""
    row1, row2, row3 = row + _ONE, row + _TWO, row + _THREE
    x0, x1, x2, x3 = x[row], x[row1], x[row2], x[row3]
    for k in range(_WIDTH):
        c = begin + k
        first = smaller(one * cost[row, c] + x0, one * cost[row1, c] + x1)
        last = smaller(one * cost[row2, c] + x2, one * cost[row3, c] + x3)
        out[c] = smaller(out[c], smaller(first, last))


@fused
def monge_minima(x, out, cost, cost_t, size, margin, one):  # type: ignore[no-untyped-def]
    """Set out_c = min_r (M_rc + x_r) exactly.

    cost, cost_t, size and margin are a `Monge`'s, either way; one is 1.
    """
    n_rows, n_columns = np.uint64(len(x)), np.uint64(len(out))
    n_tiles = n_columns // _WIDTH
    # Rows that may attain the minima of a tile, and of the columns that are left over.
    first = np.zeros(n_tiles + _ONE, np.uint64)
    last = np.full(n_tiles + _ONE, n_rows - _ONE)
    lowest = x.dtype.type(np.inf)
    for r in range(n_rows):
        lowest = smaller(lowest, x[r])
    rounding = x.dtype.type(np.finfo(x.dtype).eps / 2) * (3 * size + abs(lowest))
    if margin > 4 * rounding:
        _find_places(x, cost_t, one, first, last)
    out[:] = np.inf
    for tile in range(n_tiles):
        for row in range(first[tile], last[tile] + _ONE, _HEIGHT):
            _lower(out, x, min(row, n_rows - _HEIGHT), cost, _WIDTH * tile, one)
    for c in range(_WIDTH * n_tiles, n_columns):
        column = cost_t[c]
        r = _place_of_least(x, column, first[n_tiles], last[n_tiles], one)
        out[c] = one * column[r] + x[r]


@fused
def _find_places(x, cost_t, one, first, last):  # type: ignore[no-untyped-def]
    """Narrow the rows of all tiles by those of their first columns."""
    n_tiles, end = np.uint64(len(first) - 1), np.uint64(len(cost_t) - 1)
    first[0] = _place_of_least(x, cost_t[0], first[0], last[0], one)
    column = cost_t[min(_WIDTH * n_tiles, end)]
    first[n_tiles] = _place_of_least(x, column, first[0], last[n_tiles], one)
    gap = _ONE
    while _TWO * gap < n_tiles:
        gap *= _TWO
    while gap:
        for tile in range(gap, n_tiles, _TWO * gap):
            before, after = first[tile - gap], first[min(tile + gap, n_tiles)]
            column = cost_t[_WIDTH * tile]
            first[tile] = _place_of_least(x, column, before, after, one)
        gap //= _TWO
    last[:-1] = first[1:]
