"""Compiled Gibbs sweeps of Ising models: plain arrays in, updated in place.

The lattice kernel is multispin code: a word holds 64 spins that are redrawn
together, of 64 chains at one site (``pack_chains``) or of one chain along a
row (``pack_rows``). A spin becomes 1 where a uniform number, drawn bit by bit
from the most significant down, falls below its probability; the comparison is
settled at the first bit that differs, for all spins of eight words after ten
bits or so. Eight words go side by side, so that the processor's widest
registers hold them; the loops over them are written so that the compiler
sees it.

Random numbers are xoshiro256++ streams (Blackman and Vigna, 2021), started by
SplitMix64: eight for 64 chains or a chain of rows, one for a chain of a dense
model. Results do not depend on how the work is split among threads.
"""

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from ebmtut._compiled import compiled
from ebmtut.energies import lattice_coloring

__all__ = [
    "LANES",
    "PROBABILITY_BITS",
    "REFRESH",
    "Plan",
    "chain_plan",
    "dense_sweeps",
    "lattice_sweeps",
    "pack_chains",
    "pack_rows",
    "row_plan",
    "threshold_bits",
    "unpack_chains",
    "unpack_rows",
    "xoshiro_states",
]

LANES = 8  # words drawn side by side: 512 bits

PROBABILITY_BITS = 48
_LEVELS = 4  # drawn between two looks at whether all spins are settled
REFRESH = 32  # dense sweeps between two sums of the fields from scratch
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)

# Called in loops over lanes, which are vectorised only then.
inlined = partial(compiled, forceinline=True)


def xoshiro_states(seed: int, n_streams: int) -> NDArray[np.uint64]:
    """Start ``n_streams`` generators, ``(n_streams, 4)``, by SplitMix64."""
    counter = np.arange(1, 4 * n_streams + 1, dtype=np.uint64)
    # Unsigned array arithmetic wraps around, as the algorithm wants.
    z = np.array([seed], dtype=np.uint64) + counter * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).reshape(n_streams, 4)


def pack_chains(bits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Pack ``(n_chains, n_sites)`` into words ``(n_words, n_sites + 1)``.

    The last word of each row belongs to no site: lanes without work write there.
    """
    n_chains, n_sites = bits.shape
    words = np.zeros((-(-n_chains // 64), n_sites + 1), dtype=np.uint64)
    _set_chains(bits, words)
    return words


def unpack_chains(words: NDArray[np.uint64], n_chains: int) -> NDArray[np.uint8]:
    """Undo :func:`pack_chains`."""
    bits = np.empty((n_chains, words.shape[1] - 1), dtype=np.uint8)
    _get_chains(words, bits)
    return bits


def pack_rows(bits: NDArray[np.uint8], side: int) -> NDArray[np.uint64]:
    """Pack chains on a square lattice, a row's spins into words.

    Returns ``(n_chains, 3 * side * n_words + 1)``: the rows, room for the same
    shifted to either side, and the word that belongs to no site.
    """
    n_words = -(-side // 64)
    padded = np.zeros((len(bits), side, 64 * n_words), dtype=np.uint8)
    padded[..., :side] = bits.reshape(-1, side, side)
    packed = np.packbits(padded, axis=2, bitorder="little").view("<u8")
    words = np.zeros((len(bits), 3 * side * n_words + 1), dtype=np.uint64)
    words[:, : side * n_words] = packed.reshape(len(bits), -1)
    return words


def unpack_rows(words: NDArray[np.uint64], side: int) -> NDArray[np.uint8]:
    """Undo :func:`pack_rows`."""
    n_words = -(-side // 64)
    rows = np.ascontiguousarray(words[:, : side * n_words]).astype("<u8")
    packed = rows.view(np.uint8).reshape(len(words), side, 8 * n_words)
    bits = np.unpackbits(packed, axis=2, bitorder="little", count=side)
    return bits.reshape(len(words), -1)


@dataclass(frozen=True)
class Plan:
    """Which words of a lattice are redrawn together, class after class.

    Attributes
    ----------
    target
        (n_blocks, LANES), the words of a block.
    neighbor
        (n_blocks, 4, LANES), the words that hold their neighbours' spins.
    mask
        (n_blocks, LANES), the bits of a target that are redrawn.
    first
        (n_classes + 1,), where each class of blocks begins.
    """

    target: NDArray[np.uint64]
    neighbor: NDArray[np.uint64]
    mask: NDArray[np.uint64]
    first: NDArray[np.uint64]


@lru_cache(maxsize=16)
def chain_plan(side: int) -> Plan:
    """Plan for words of :func:`pack_chains`: a word is a site."""
    sites = np.arange(side * side).reshape(side, side)
    moves = [np.roll(sites, step, axis) for axis in (0, 1) for step in (-1, 1)]
    around = np.stack([move.ravel() for move in moves])
    colors = lattice_coloring(side).numpy()
    masks = [_ALL * (colors == color) for color in np.unique(colors)]
    return _plan(around, masks, nowhere=side * side)


@lru_cache(maxsize=16)
def row_plan(side: int) -> Plan:
    """Plan for words of :func:`pack_rows`: a word is a piece of a row."""
    n_words = -(-side // 64)
    words = np.arange(side * n_words).reshape(side, n_words)
    above, below = np.roll(words, 1, 0), np.roll(words, -1, 0)
    left, right = words + words.size, words + 2 * words.size
    around = np.stack([move.ravel() for move in (above, below, left, right)])
    colors = lattice_coloring(side).numpy()
    masks = [
        pack_rows((colors == color).astype(np.uint8)[None], side)[0, : words.size]
        for color in np.unique(colors)
    ]
    return _plan(around, masks, nowhere=3 * words.size)


def _plan(
    around: NDArray[np.int64], masks: list[NDArray[np.uint64]], nowhere: int
) -> Plan:
    """Group each class's words by LANES; what is missing in a group is nowhere."""
    targets, neighbors, kept, first = [], [], [], [0]
    for mask in masks:
        members = np.flatnonzero(mask)
        n_empty = -len(members) % LANES
        targets.append(np.pad(members, (0, n_empty), constant_values=nowhere))
        empty = ((0, 0), (0, n_empty))
        neighbors.append(np.pad(around[:, members], empty, constant_values=nowhere))
        kept.append(np.pad(mask[members], (0, n_empty)))
        first.append(first[-1] + len(targets[-1]) // LANES)
    neighbor = np.concatenate(neighbors, axis=1).reshape(4, -1, LANES)
    return Plan(
        np.concatenate(targets).reshape(-1, LANES).astype(np.uint64),
        np.ascontiguousarray(neighbor.transpose(1, 0, 2)).astype(np.uint64),
        np.concatenate(kept).reshape(-1, LANES),
        np.array(first, dtype=np.uint64),
    )


def threshold_bits(probabilities: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Binary digits of probabilities, each digit spread over a whole word.

    Returns ``(PROBABILITY_BITS, len(probabilities))``, most significant
    digit first; probabilities are rounded down to a multiple of 2^-48.
    """
    top = 2**PROBABILITY_BITS
    scaled = np.minimum(probabilities * top, top - 1).astype(np.uint64)
    shift = np.arange(PROBABILITY_BITS - 1, -1, -1, dtype=np.uint64)
    digits = (scaled[None, :] >> shift[:, None]) & np.uint64(1)
    return digits * _ALL


@inlined
def xoshiro_next(s0, s1, s2, s3):  # type: ignore[no-untyped-def]
    """One draw of xoshiro256++ and its next state."""
    draw = s0 + s3
    draw = ((draw << np.uint64(23)) | (draw >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return draw, s0, s1, s2, s3


@compiled
def _set_chains(bits, words):  # type: ignore[no-untyped-def]
    for chain in range(bits.shape[0]):
        shift = np.uint64(chain % 64)
        lattice = words[chain // 64]
        for site in range(bits.shape[1]):
            lattice[site] |= np.uint64(bits[chain, site]) << shift


@compiled
def _get_chains(words, bits):  # type: ignore[no-untyped-def]
    for chain in range(bits.shape[0]):
        shift = np.uint64(chain % 64)
        lattice = words[chain // 64]
        for site in range(bits.shape[1]):
            bits[chain, site] = (lattice[site] >> shift) & np.uint64(1)


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


@compiled
def dense_sweeps(spins, coupling, bias, streams, n_sweeps):  # type: ignore[no-untyped-def]
    """Sweep chains over all sites in turn, keeping every local field current.

    spins (n_chains, n_sites) int8, -1 or 1, and streams (n_chains, 4), the states
    of the random numbers, are updated in place. P(s_i = 1 | rest) =
    sigmoid(bias_i + coupling_i . s) with a symmetric coupling of zero
    diagonal. Fields have its dtype.
    """
    n_chains, n_sites = spins.shape
    field = np.empty_like(bias)
    for chain in range(n_chains):
        s = spins[chain]
        s0, s1, s2, s3 = streams[chain]
        for sweep in range(n_sweeps):
            if sweep % REFRESH == 0:
                field[:] = bias
                for i in range(n_sites):
                    for j in range(n_sites):
                        field[j] += coupling[i, j] * s[i]
            for i in range(n_sites):
                draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
                uniform = (draw >> np.uint64(11)) * 2.0**-53
                # u < 1 / (1 + exp(-f)), without a division by infinity.
                new = 1 if uniform * (1 + np.exp(-field[i])) < 1 else -1
                if new != s[i]:
                    s[i] = new
                    change = coupling.dtype.type(2 * new)
                    for j in range(n_sites):
                        field[j] += change * coupling[i, j]
        streams[chain, 0], streams[chain, 1] = s0, s1
        streams[chain, 2], streams[chain, 3] = s2, s3
