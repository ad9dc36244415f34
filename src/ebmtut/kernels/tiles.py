"""Which parts of the cost can hold an extreme: exact pruning for Gibbs-OT.

The rows and the columns are put in an order in which neighbours have similar costs, and
each tile of eight rows and 16 columns keeps its slack, the least M_ij - G_i + H_j for
potentials of an earlier iteration. Since then no row's x = -g or h has fallen by more
than some a, so that no pair brings its column's minimum below (H or -G) + slack - a: a
tile whose columns all know less already is left out. Results are equal to the last bit.
Slacks are renewed, or the whole cost is walked, where they spare little.

The cost is kept tile by tile, once for each side, so that a tile is 16 lines of memory
one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import compiled, fused, inlined_fused

HEIGHT = 8  # rows of a tile
WIDTH = 16  # its columns
GROUP = 8  # tiles, one below the other, that are kept or left out together
_HEIGHT, _WIDTH, _GROUP = np.uint64(HEIGHT), np.uint64(WIDTH), np.uint64(GROUP)
_1, _2, _3, _4, _5, _6, _7 = (np.uint64(k) for k in range(1, HEIGHT))

_SMALLEST = 2**16  # pairs: below it walking through all takes no longer
_LANDMARKS = 16  # rows (columns) by whose costs the columns (rows) are ordered
_LONGEST = 256.0  # iterations over the whole cost
_SPARING = 0.6  # of the tiles: where more are left, walking through all is faster
_RENEWAL = 1.0  # what new slacks cost, in looks at all tiles


class Side(NamedTuple):
    """What the pruning of one side's minima keeps from iteration to iteration.

    Attributes
    ----------
    rows, columns
        The order of the rows and of the columns, the last repeated up to whole tiles.
    tiles
        (n_tiles, n_blocks, HEIGHT * WIDTH), the cost in this order.
    x, low
        The potential of the rows and minima of the columns that the slacks are for.
    slack, hints
        (n_tiles, n_groups * GROUP), infinite where there are no rows; the block to look
        at first.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    tiles: NDArray[np.floating]
    x: NDArray[np.floating]
    low: NDArray[np.floating]
    slack: NDArray[np.floating]
    hints: NDArray[np.uint64]


class Pruning(NamedTuple):
    """A problem's cost and what is known about its tiles.

    Attributes
    ----------
    cost, cost_t, columns
        (m1, n) and room for its transpose, of the columns 0, ..., n - 1 that have mass.
    size
        The largest finite cost.
    to_columns, to_rows
        The sides of -L, minima over rows of cost, and of U, over those of cost_t.
    control
        The iterations left before slacks are computed; how many the next time if they
        spare little; the least fraction of tiles evaluated with these slacks, or -1;
        the sum beyond it; whether cost_t is filled.
    """

    cost: NDArray[np.floating]
    cost_t: NDArray[np.floating]
    columns: NDArray[np.int64]
    size: np.floating
    to_columns: Side
    to_rows: Side
    control: NDArray[np.float64]


_WHOLE, _NEXT, _LEAST, _VAIN, _FILLED = range(5)


def transposed(x: Float[Tensor, "m1 m2"]) -> Float[Tensor, "m2 m1"]:
    """Copy the transpose."""
    # numpy asks for large pages of memory, torch for small ones, which cost a third
    # of the time of a large copy.
    return torch.from_numpy(np.empty_like(x.T.numpy(), order="C")).copy_(x.T)


def pruning_for(cost: Float[Tensor, "m1 n"]) -> Pruning | None:
    """Order and lay out the cost; None where it is not worth it."""
    if min(cost.shape) < 32 or cost.numel() < _SMALLEST:
        return None
    least, most = cost.aminmax()
    if most == torch.inf:
        most = cost.masked_fill(cost == torch.inf, least.item()).max()
    size = max(abs(least.item()), abs(most.item()))
    given = cost.contiguous().numpy()
    m1, n = given.shape
    rows = _similar_together(given[:, :: max(1, n // _LANDMARKS)], most.item())
    columns = _similar_together(given[:: max(1, m1 // _LANDMARKS)].T, most.item())
    # In one piece, for which numpy asks for large pages of memory sooner.
    tiles = np.empty((2, len(rows) * len(columns)), given.dtype)
    to_columns = _side(rows, columns, tiles[0])
    to_rows = _side(columns, rows, tiles[1])
    lay_out_tiles(given, rows, columns, to_columns.tiles, to_rows.tiles)
    return Pruning(
        given,
        np.empty((n, m1), given.dtype),
        np.arange(n),
        given.dtype.type(size),
        to_columns,
        to_rows,
        np.array([1.0, 1.0, -1.0, 0.0, 0.0]),
    )


def _similar_together(costs: NDArray[np.floating], most: float) -> NDArray[np.int64]:
    """Order points so that neighbours have similar costs to the others, and fill up."""
    profiles = np.ascontiguousarray(np.where(costs == np.inf, most, costs))
    order = np.empty(-(-len(costs) // WIDTH) * WIDTH, np.int64)
    order[: len(costs)] = np.arange(len(costs))
    bisect(profiles, order[: len(costs)])
    order[len(costs) :] = order[len(costs) - 1]
    return order


def _side(
    rows: NDArray[np.int64], columns: NDArray[np.int64], tiles: NDArray[np.floating]
) -> Side:
    n_tiles, n_blocks = len(columns) // WIDTH, len(rows) // HEIGHT
    slack = np.full((n_tiles, -(-n_blocks // GROUP) * GROUP), np.inf, tiles.dtype)
    slack[:, :n_blocks] = -np.inf  # so that the first iteration looks at all
    return Side(
        rows,
        columns,
        tiles.reshape(n_tiles, n_blocks, HEIGHT * WIDTH),
        np.zeros(len(rows), tiles.dtype),
        np.zeros(len(columns), tiles.dtype),
        slack,
        np.zeros(n_tiles, np.uint64),
    )


@compiled
def _farthest(profiles, some, c):  # type: ignore[no-untyped-def]
    """Which of some points differs most from c, and at which two landmarks.

    The point whose costs differ from those of c by the most unequal amounts.
    """
    farthest = nearer = farther = 0
    widest = profiles.dtype.type(-1)
    for k in range(len(some)):
        point = some[k]
        low = high = profiles[point, 0] - profiles[c, 0]
        at_low = at_high = 0
        for m in range(1, profiles.shape[1]):
            difference = profiles[point, m] - profiles[c, m]
            if difference < low:
                low, at_low = difference, m
            if difference > high:
                high, at_high = difference, m
        if high - low > widest:
            widest = high - low
            farthest, nearer, farther = point, at_low, at_high
    return farthest, nearer, farther


@compiled
def bisect(profiles, order):  # type: ignore[no-untyped-def]
    """Split the points by halves, each along its longest extent, as a k-d tree does.

    ``profiles`` (n, n_landmarks) are costs to landmarks. The difference of two of them
    is, of squared distances, the coordinate along the line from one to the other
    (Faloutsos and Lin, 1995); of two points far apart those are taken that differ most.
    """
    todo = [(0, len(order))]
    while len(todo) > 0:
        low, high = todo.pop()
        if high - low <= HEIGHT:
            continue
        some = order[low:high].copy()
        one, _, _ = _farthest(profiles, some, some[0])
        _, nearer, farther = _farthest(profiles, some, one)
        key = np.empty(len(some), profiles.dtype)
        for k in range(len(some)):
            key[k] = profiles[some[k], farther] - profiles[some[k], nearer]
        order[low:high] = some[np.argsort(key)]
        # Whole tiles on the left, and at last blocks.
        unit = WIDTH if len(some) > WIDTH else HEIGHT
        middle = low + (len(some) // 2 + unit - 1) // unit * unit
        todo.append((low, middle))
        todo.append((middle, high))


def _extremum(comparison: str):  # type: ignore[no-untyped-def]
    """Make the larger or smaller of two numbers, neither of them NaN.

    LLVM vectorises such a loop only where told that no NaN occurs and that the sign of
    zero does not matter.
    """

    @intrinsic
    def choose(typing_context, a, b):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            flags = ("nnan", "nsz")
            first = builder.fcmp_ordered(comparison, *arguments, flags=flags)
            return builder.select(first, *arguments, flags=flags)

        return a(a, a), generate

    return choose


smaller = _extremum("<")
larger = _extremum(">")


@inlined_fused
def added(m, x, factor):  # type: ignore[no-untyped-def]
    """m + x, as a fused instruction where there is a factor, which is 1."""
    if factor is None:
        return m + x
    return factor * m + x


@compiled
def lay_out_tiles(cost, rows, columns, tiles, tiles_t):  # type: ignore[no-untyped-def]
    """Fill the tiles of both sides."""
    for i in range(len(rows)):
        row, block, at = cost[rows[i]], i // HEIGHT, i % HEIGHT * WIDTH
        for tile in range(len(columns) // WIDTH):
            line = tiles[tile, block, at : at + WIDTH]
            for k in range(WIDTH):
                line[k] = row[columns[tile * WIDTH + k]]
    # A tile of 16 rows and 8 columns holds halves of two of the others.
    for tile in range(len(rows) // WIDTH):
        for block in range(len(columns) // HEIGHT):
            line = tiles_t[tile, block]
            for i in range(WIDTH):
                other = tiles[block // 2, 2 * tile + i // HEIGHT]
                at = i % HEIGHT * WIDTH + block % 2 * HEIGHT
                for k in range(HEIGHT):
                    line[k * WIDTH + i] = other[at + k]


@compiled
def transpose_once(kept):  # type: ignore[no-untyped-def]
    """Fill cost_t, if it is not."""
    if kept.control[_FILLED] == 0:
        kept.control[_FILLED] = 1
        cost, cost_t = kept.cost, kept.cost_t
        for begin in range(0, len(cost_t), WIDTH):
            for r in range(len(cost)):
                for c in range(begin, min(begin + WIDTH, len(cost_t))):
                    cost_t[c, r] = cost[r, c]


# Indices are unsigned: of signed ones numba asks whether they count from the end, which
# takes longer than a tile.


@inlined_fused
def _furthest(x, y, begin, n):  # type: ignore[no-untyped-def]
    """max (x_c - y_c) over the n columns from begin on."""
    most = x[begin] - y[begin]
    for k in range(n):
        most = larger(most, x[begin + k] - y[begin + k])
    return most


@fused
def _size(x):  # type: ignore[no-untyped-def]
    """Largest absolute value among the finite ones."""
    most = x.dtype.type(0)
    for i in range(len(x)):
        size = abs(x[i])
        most = larger(most, size if size < np.inf else x.dtype.type(0))
    return most


@inlined_fused
def _lower(out, x, row, tile, begin, factor):  # type: ignore[no-untyped-def]
    """out_c = min(out_c, M_rc + x_r) over the tile that begins at row and begin."""
    # Each by itself, for unpacking a slice asks how long it is.
    x0, x1, x2, x3 = x[row], x[row + _1], x[row + _2], x[row + _3]
    x4, x5, x6, x7 = x[row + _4], x[row + _5], x[row + _6], x[row + _7]
    for k in range(_WIDTH):
        a = smaller(
            added(tile[k], x0, factor), added(tile[_1 * _WIDTH + k], x1, factor)
        )
        b = smaller(
            added(tile[_2 * _WIDTH + k], x2, factor),
            added(tile[_3 * _WIDTH + k], x3, factor),
        )
        c = smaller(
            added(tile[_4 * _WIDTH + k], x4, factor),
            added(tile[_5 * _WIDTH + k], x5, factor),
        )
        d = smaller(
            added(tile[_6 * _WIDTH + k], x6, factor),
            added(tile[_7 * _WIDTH + k], x7, factor),
        )
        least = smaller(smaller(a, b), smaller(c, d))
        out[begin + k] = smaller(out[begin + k], least)


@fused
def renew_slacks(x, minima, side, factor):  # type: ignore[no-untyped-def]
    """Work out all slacks for a potential and its minima."""
    zero, then, low = side.tiles.dtype.type(0), side.x, side.low
    for i in range(len(then)):
        value = x[side.rows[i]]
        then[i] = value if abs(value) < np.inf else zero
    for k in range(len(low)):
        value = minima[side.columns[k]]
        low[k] = value if abs(value) < np.inf else zero
    sums = np.empty(WIDTH, then.dtype)
    for tile in range(np.uint64(side.tiles.shape[0])):
        for block in range(np.uint64(side.tiles.shape[1])):
            sums[:] = np.inf
            m = side.tiles[tile, block]
            _lower(sums, then, _HEIGHT * block, m, np.uint64(0), factor)
            least = then.dtype.type(np.inf)
            for k in range(_WIDTH):
                least = smaller(least, sums[k] - low[_WIDTH * tile + k])
            side.slack[tile, block] = least


@fused
def tile_minima(x, minima, side, size, factor):  # type: ignore[no-untyped-def]
    """Set minima_c = min_r (M_rc + x_r) exactly; return how many tiles were looked at.

    size is the largest finite cost; factor as in `added`.
    """
    slack, hints, low = side.slack, side.hints, side.low
    n_tiles, n_blocks = np.uint64(len(slack)), np.uint64(side.tiles.shape[1])
    n_groups = np.uint64(slack.shape[1] // GROUP)
    now, out = np.empty_like(side.x), np.empty_like(low)
    for i in range(len(now)):
        now[i] = x[side.rows[i]]
    # By how much the rows of each block have moved at least; 0 beyond the last.
    moved = np.zeros(slack.shape[1], x.dtype)
    for block in range(n_blocks):
        moved[block] = -_furthest(side.x, now, _HEIGHT * block, _HEIGHT)
    # What rounding can hide when bounds are compared, generously.
    hidden = x.dtype.type(32 * np.finfo(x.dtype).eps) * (
        size + _size(now) + _size(side.x) + _size(low)
    )
    out[:] = np.inf
    looks = 0
    for tile in range(n_tiles):
        begin, tiles = _WIDTH * tile, side.tiles[tile]
        hint = best_block = hints[tile]
        _lower(out, now, _HEIGHT * hint, tiles[hint], begin, factor)
        known = _furthest(out, low, begin, _WIDTH) + hidden
        for group in range(n_groups):
            first = _GROUP * group
            best = slack[tile, first] + moved[first]
            for k in range(_GROUP):
                best = smaller(best, slack[tile, first + k] + moved[first + k])
            if best >= known:
                continue
            for block in range(first, first + _GROUP):
                if slack[tile, block] + moved[block] < known and block != hint:
                    _lower(out, now, _HEIGHT * block, tiles[block], begin, factor)
                    best_block = block
                    looks += 1
            least = _furthest(out, low, begin, _WIDTH) + hidden
            if least < known:
                known = least
                hints[tile] = best_block
    for k in range(len(out)):
        minima[side.columns[k]] = out[k]
    return looks


@fused
def walks(control):  # type: ignore[no-untyped-def]
    """Whether the next iteration is to walk through the whole cost.

    The very first one does it tile by tile.
    """
    return control[_WHOLE] > 0 and control[_NEXT] > 1


@fused
def note_looks(control, share):  # type: ignore[no-untyped-def]
    """Whether slacks are to be worked out now, after an iteration.

    share: of the tiles, those that were looked at.
    """
    if control[_WHOLE] > 0:
        control[_WHOLE] -= 1
        if control[_WHOLE] > 0:
            return False
    elif control[_LEAST] < 0:
        control[_LEAST] = share
        if share > _SPARING:
            control[_WHOLE] = control[_NEXT]
            control[_NEXT] = min(8 * control[_NEXT], _LONGEST)
        else:
            control[_NEXT] = 1
        return False
    else:
        control[_LEAST] = min(control[_LEAST], share)
        control[_VAIN] += share - control[_LEAST]
        if control[_VAIN] < _RENEWAL:
            return False
    control[_LEAST], control[_VAIN] = -1, 0
    return True
