"""Compiled Gibbs sweeps of Ising models on a square lattice.

Multispin code: the 64 spins of a word are redrawn together (`_multispin`). A spin
becomes 1 where a uniform number, drawn bit by bit from the most significant down, falls
below its probability; the comparison is settled at the first bit that differs, for all
spins of eight words after ten bits or so. Eight words go side by side, so that the
processor's widest registers hold them; the loops over them are written so that the
compiler sees it.

There are eight streams of random numbers for 64 chains or a chain of rows: results do
not depend on how the work is split among threads.
"""

import numpy as np

from ebmtut._compiled import compiled, inlined
from ebmtut.samplers._multispin import LANES
from ebmtut.samplers._xoshiro import xoshiro_next

__all__ = ["lattice_sweeps"]

_LEVELS = 4  # digits drawn between two looks at whether all spins are settled
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled
def _shift_rows(lattice, side):  # type: ignore[no-untyped-def]
    """Write each row's left, then its right neighbours behind the rows."""
    n_words = (side + 63) // 64
    size = side * n_words
    last = np.uint64((side - 1) % 64)
    one = np.uint64(1)
    top = np.uint64(63)
    for row in range(side):
        begin, end = row * n_words, (row + 1) * n_words - 1
        carry = (lattice[end] >> last) & one
        for k in range(begin, end + 1):
            lattice[size + k] = (lattice[k] << one) | carry
            carry = lattice[k] >> top
        carry = (lattice[begin] & one) << last
        for k in range(end, begin - 1, -1):
            lattice[2 * size + k] = (lattice[k] >> one) | carry
            carry = lattice[k] << top


# What a block works on lies in one array, LANES words after LANES words, so
# that the compiler knows that nothing overlaps: the four words of the random
# streams; the spins of the four neighbours; in which spins 0, 1, 2, 3, 4 of them
# are set; which are below their probability, and which are not settled.
_STREAM, _AROUND, _COUNTS, _BELOW, _OPEN = (LANES * k for k in (0, 4, 8, 13, 14))
_WORK = 15 * LANES


@inlined
def _fetch(work, at, words, index):  # type: ignore[no-untyped-def]
    """Gather LANES words, all of which are read before any is written."""
    (
        work[at],
        work[at + 1],
        work[at + 2],
        work[at + 3],
        work[at + 4],
        work[at + 5],
        work[at + 6],
        work[at + 7],
    ) = (
        words[index[0]],
        words[index[1]],
        words[index[2]],
        words[index[3]],
        words[index[4]],
        words[index[5]],
        words[index[6]],
        words[index[7]],
    )


@inlined
def _count_neighbors(work, lane):  # type: ignore[no-untyped-def]
    """In which spins of a word no neighbour is set, one, two, three or four."""
    a = work[_AROUND + lane]
    b = work[_AROUND + LANES + lane]
    c = work[_AROUND + 2 * LANES + lane]
    d = work[_AROUND + 3 * LANES + lane]
    odd = a ^ b ^ c ^ d
    pair = (a & b) | (c & d)
    four = a & b & c & d
    none = ~(a | b | c | d)
    return none, odd & ~pair, ~(none | odd | four), odd & pair, four


@inlined
def _digits(thresholds, level):  # type: ignore[no-untyped-def]
    """Read _LEVELS digits of the five probabilities."""
    p, q, r, s = (
        thresholds[level],
        thresholds[level + np.uint64(1)],
        thresholds[level + np.uint64(2)],
        thresholds[level + np.uint64(3)],
    )
    return (
        (p[0], p[1], p[2], p[3], p[4]),
        (q[0], q[1], q[2], q[3], q[4]),
        (r[0], r[1], r[2], r[3], r[4]),
        (s[0], s[1], s[2], s[3], s[4]),
    )


@inlined
def _compare_digit(stream, counts, digits, below, unsettled):  # type: ignore[no-untyped-def]
    """Draw a bit for each spin and compare it with its probability's digit."""
    draw, s0, s1, s2, s3 = xoshiro_next(stream[0], stream[1], stream[2], stream[3])
    none, one, two, three, four = counts
    p0, p1, p2, p3, p4 = digits
    digit = none & p0 | one & p1 | two & p2 | three & p3 | four & p4
    below |= unsettled & digit & ~draw
    unsettled &= ~(draw ^ digit)
    return (s0, s1, s2, s3), below, unsettled


@inlined
def _compare(work, lane, counts, digits, below):  # type: ignore[no-untyped-def]
    """Compare a word with _LEVELS digits more; return which spins are still open."""
    stream = (
        work[_STREAM + lane],
        work[_STREAM + LANES + lane],
        work[_STREAM + 2 * LANES + lane],
        work[_STREAM + 3 * LANES + lane],
    )
    p, q, r, s = digits
    unsettled = work[_OPEN + lane]
    stream, below, unsettled = _compare_digit(stream, counts, p, below, unsettled)
    stream, below, unsettled = _compare_digit(stream, counts, q, below, unsettled)
    stream, below, unsettled = _compare_digit(stream, counts, r, below, unsettled)
    stream, below, unsettled = _compare_digit(stream, counts, s, below, unsettled)
    (
        work[_STREAM + lane],
        work[_STREAM + LANES + lane],
        work[_STREAM + 2 * LANES + lane],
        work[_STREAM + 3 * LANES + lane],
    ) = stream
    work[_BELOW + lane] = below
    work[_OPEN + lane] = unsettled
    return unsettled


# The compiler turns the loops over lanes into wide registers only where what they
# call is inlined, nothing but `work` is read in them, and digits are read ahead.


@inlined
def _first_digits(work, thresholds):  # type: ignore[no-untyped-def]
    """Count neighbours and compare the first digits; return what is still open."""
    digits = _digits(thresholds, np.uint64(0))
    left = np.uint64(0)
    for lane in range(LANES):
        counts = _count_neighbors(work, lane)
        left |= _compare(work, lane, counts, digits, np.uint64(0))
        (
            work[_COUNTS + lane],
            work[_COUNTS + LANES + lane],
            work[_COUNTS + 2 * LANES + lane],
            work[_COUNTS + 3 * LANES + lane],
            work[_COUNTS + 4 * LANES + lane],
        ) = counts
    return left


@inlined
def _more_digits(work, thresholds, level):  # type: ignore[no-untyped-def]
    """Compare _LEVELS digits more; return what is still open."""
    digits = _digits(thresholds, level)
    left = np.uint64(0)
    for lane in range(LANES):
        counts = (
            work[_COUNTS + lane],
            work[_COUNTS + LANES + lane],
            work[_COUNTS + 2 * LANES + lane],
            work[_COUNTS + 3 * LANES + lane],
            work[_COUNTS + 4 * LANES + lane],
        )
        left |= _compare(work, lane, counts, digits, work[_BELOW + lane])
    return left


@compiled
def lattice_sweeps(  # type: ignore[no-untyped-def]
    words, target, neighbor, mask, first, thresholds, streams, n_sweeps, row_side
):
    """Sweep lattices of packed spins, each site with four neighbours.

    words (n_lattices, n_words) and streams (n_lattices, LANES, 4), the states of
    the random numbers, are updated in place. target, neighbor, mask and first are
    a Plan's. thresholds is threshold_bits of P(1 | 0, ..., 4 neighbours 1).
    row_side is the side where words are rows, whose neighbours within a row are
    found by shifting, else 0.
    """
    depth = np.uint64(thresholds.shape[0])
    work = np.empty(_WORK, dtype=np.uint64)
    for w in range(words.shape[0]):
        lattice = words[w]
        for lane in range(LANES):
            for part in range(4):
                work[_STREAM + part * LANES + lane] = streams[w, lane, part]
        for _ in range(n_sweeps):
            for color in range(first.shape[0] - 1):
                if row_side:
                    _shift_rows(lattice, row_side)
                for block in range(first[color], first[color + 1]):
                    for side in range(4):
                        at = _AROUND + side * LANES
                        _fetch(work, at, lattice, neighbor[block, side])
                    for lane in range(LANES):
                        work[_OPEN + lane] = mask[block, lane]
                    left = _first_digits(work, thresholds)
                    level = np.uint64(_LEVELS)
                    while left and level < depth:
                        left = _more_digits(work, thresholds, level)
                        level += np.uint64(_LEVELS)
                    for lane in range(LANES):
                        kept = lattice[target[block, lane]] & ~mask[block, lane]
                        lattice[target[block, lane]] = kept | work[_BELOW + lane]
        for lane in range(LANES):
            for part in range(4):
                streams[w, lane, part] = work[_STREAM + part * LANES + lane]
