"""Which parts of the cost can hold an extreme: exact pruning for Gibbs-OT.

Each tile of four rows and 32 columns keeps its slack, the least M_ij - G_i + H_j for
potentials of an earlier iteration. Since then no row's x = -g or h has fallen by more
than some a, so that no pair brings its column's minimum below (H or -G) + slack - a: a
tile whose columns all know less already is left out. Results are equal to the last bit.
Slacks are renewed, or the whole cost is walked, where they spare little.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import fused

HEIGHT = 4  # rows of a tile
WIDTH = 32  # its columns
GROUP = 8  # tiles, one below the other, that are kept or left out together
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)
_HEIGHT, _WIDTH, _GROUP = np.uint64(HEIGHT), np.uint64(WIDTH), np.uint64(GROUP)

_SMALLEST = 2**14  # pairs for which slacks are worth their keep
_LONGEST = 64.0  # iterations over the whole cost
_SPARING = 0.4  # of the tiles: where more are left, walking through all is faster
_RENEWAL = 0.5  # what new slacks cost, in looks at all tiles


class Slacks(NamedTuple):
    """What the pruning of one side's minima keeps from iteration to iteration.

    Attributes
    ----------
    x, low
        (n_rows,) and (n_columns,), the potential and minima that the slacks are for.
    slack, hints
        (n_tiles, n_blocks), infinite where there are no rows; the block to look at
        first.
    """

    x: NDArray[np.floating]
    low: NDArray[np.floating]
    slack: NDArray[np.floating]
    hints: NDArray[np.uint64]


class Pruning(NamedTuple):
    """A problem's cost and its transpose, and what is known about their tiles.

    Attributes
    ----------
    cost, cost_t, columns
        (m1, n) and (n, m1), of the columns 0, ..., n - 1 that have mass.
    size
        The largest finite cost.
    to_columns, to_rows
        The slacks of -L, minima over rows of cost, and of U, over those of cost_t.
    control
        The iterations left before slacks are computed; how many the next time if they
        spare little; the least fraction of tiles evaluated with these slacks, or -1;
        the sum beyond it.
    """

    cost: NDArray[np.floating]
    cost_t: NDArray[np.floating]
    columns: NDArray[np.int64]
    size: np.floating
    to_columns: Slacks
    to_rows: Slacks
    control: NDArray[np.float64]


_WHOLE, _NEXT, _LEAST, _VAIN = range(4)


def pruning_for(
    cost: Float[Tensor, "m1 n"], cost_t: Float[Tensor, "n m1"]
) -> Pruning | None:
    """Make room, which the first iteration fills; None where it is not worth it."""
    if min(cost.shape) < WIDTH or cost.numel() < _SMALLEST:
        return None
    both = cost.contiguous().numpy(), cost_t.numpy()
    least, most = cost.aminmax()
    if most == torch.inf:
        most = cost.masked_fill(cost == torch.inf, least.item()).max()
    size = max(abs(least.item()), abs(most.item()))
    return Pruning(
        *both,
        np.arange(len(cost_t)),
        both[0].dtype.type(size),
        _slacks_for(both[0]),
        _slacks_for(both[1]),
        np.array([1.0, 1.0, -1.0, 0.0]),
    )


def _slacks_for(cost: NDArray[np.floating]) -> Slacks:
    n_rows, n_columns = cost.shape
    n_tiles, n_groups = -(-n_columns // WIDTH), -(-n_rows // (HEIGHT * GROUP))
    return Slacks(
        np.zeros(n_rows, cost.dtype),
        np.zeros(n_columns, cost.dtype),
        np.full((n_tiles, n_groups * GROUP), np.inf, cost.dtype),
        np.zeros(n_tiles, np.uint64),
    )


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


# Indices are unsigned: of signed ones numba asks whether they count from the end, which
# takes longer than a tile.


@fused
def _furthest(x, y, begin):  # type: ignore[no-untyped-def]
    """max (x_c - y_c) over the columns of the tile that begins there."""
    most = x[begin] - y[begin]
    for k in range(_WIDTH):
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


@fused
def lower(out, x, row, cost, begin, one):  # type: ignore[no-untyped-def]
    """out_c = min(out_c, M_rc + x_r) over the tile that begins at row and begin."""
    row1, row2, row3 = row + _ONE, row + _TWO, row + _THREE
    x0, x1, x2, x3 = x[row], x[row1], x[row2], x[row3]
    for k in range(_WIDTH):
        c = begin + k
        first = smaller(one * cost[row, c] + x0, one * cost[row1, c] + x1)
        last = smaller(one * cost[row2, c] + x2, one * cost[row3, c] + x3)
        out[c] = smaller(out[c], smaller(first, last))


@fused
def renew_slacks(x, minima, cost, one, slacks):  # type: ignore[no-untyped-def]
    """Work out all slacks for a potential and its minima."""
    zero = cost.dtype.type(0)
    for r in range(len(x)):
        slacks.x[r] = x[r] if abs(x[r]) < np.inf else zero
    for k in range(len(minima)):
        slacks.low[k] = minima[k] if abs(minima[k]) < np.inf else zero
    x, low = slacks.x, slacks.low
    last_row = np.uint64(len(x) - HEIGHT)
    last_column = np.uint64(len(low) - WIDTH)
    for block in range(np.uint64((len(x) + HEIGHT - 1) // HEIGHT)):
        row = min(_HEIGHT * block, last_row)
        row1, row2, row3 = row + _ONE, row + _TWO, row + _THREE
        x0, x1, x2, x3 = x[row], x[row1], x[row2], x[row3]
        for tile in range(np.uint64(slacks.slack.shape[0])):
            begin = min(_WIDTH * tile, last_column)
            least = cost.dtype.type(np.inf)
            for k in range(_WIDTH):
                c = begin + k
                first = smaller(one * cost[row, c] + x0, one * cost[row1, c] + x1)
                last = smaller(one * cost[row2, c] + x2, one * cost[row3, c] + x3)
                least = smaller(least, smaller(first, last) - low[c])
            slacks.slack[tile, block] = least


@fused
def _least_moves(x, then, moved):  # type: ignore[no-untyped-def]
    """By how much the rows of each block have moved at least; 0 beyond the last."""
    moved[:] = 0
    last_row = np.uint64(len(x) - HEIGHT)
    for block in range(np.uint64((len(x) + HEIGHT - 1) // HEIGHT)):
        row = min(_HEIGHT * block, last_row)
        row1, row2, row3 = row + _ONE, row + _TWO, row + _THREE
        moved[block] = smaller(
            smaller(x[row] - then[row], x[row1] - then[row1]),
            smaller(x[row2] - then[row2], x[row3] - then[row3]),
        )


@fused
def tile_minima(x, out, cost, size, one, slacks):  # type: ignore[no-untyped-def]
    """Set out_c = min_r (M_rc + x_r) exactly; return how many tiles were looked at.

    size is the largest finite cost; one is 1.
    """
    slack, hints, low = slacks.slack, slacks.hints, slacks.low
    n_tiles = np.uint64(slack.shape[0])
    n_groups = np.uint64(slack.shape[1] // GROUP)
    last_row = np.uint64(len(x) - HEIGHT)
    last_column = np.uint64(len(out) - WIDTH)
    moved = np.empty(slack.shape[1], x.dtype)
    _least_moves(x, slacks.x, moved)
    # What rounding can hide when bounds are compared, generously.
    hidden = x.dtype.type(32 * np.finfo(x.dtype).eps) * (
        size + _size(x) + _size(slacks.x) + _size(low)
    )
    out[:] = np.inf
    looks = 0
    for tile in range(n_tiles):
        begin = min(_WIDTH * tile, last_column)
        hint = best_block = hints[tile]
        lower(out, x, min(_HEIGHT * hint, last_row), cost, begin, one)
        known = _furthest(out, low, begin) + hidden
        for group in range(n_groups):
            first = _GROUP * group
            best = slack[tile, first] + moved[first]
            for k in range(_GROUP):
                best = smaller(best, slack[tile, first + k] + moved[first + k])
            if best >= known:
                continue
            for block in range(first, first + _GROUP):
                if slack[tile, block] + moved[block] < known and block != hint:
                    lower(out, x, min(_HEIGHT * block, last_row), cost, begin, one)
                    best_block = block
                    looks += 1
            now = _furthest(out, low, begin) + hidden
            if now < known:
                known = now
                hints[tile] = best_block
    return looks


@fused
def walks(control):  # type: ignore[no-untyped-def]
    """Whether the next iteration is to walk through the whole cost."""
    return control[_WHOLE] > 0


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
            control[_NEXT] = min(4 * control[_NEXT], _LONGEST)
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
