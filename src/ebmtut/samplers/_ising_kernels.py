"""Compiled Gibbs sweeps of Ising models: plain arrays in, updated in place.

The lattice kernel is multispin code: bit c of a word is chain c's spin, so
64 chains move at once. A chain's new spin is 1 where a uniform number,
drawn bit by bit from the most significant down, falls below its
probability; the comparison is settled at the first bit that differs, for
all 64 chains after eight words or so.

Each word (lattice) or chain (dense) has its own xoshiro256++ stream
(Blackman and Vigna, 2021), started by SplitMix64, so that results do not
depend on how the work is split among threads.
"""

import numpy as np
from numpy.typing import NDArray

from ebmtut._compiled import compiled

__all__ = [
    "PROBABILITY_BITS",
    "dense_sweeps",
    "lattice_sweeps",
    "pack_chains",
    "threshold_bits",
    "unpack_chains",
    "xoshiro_states",
]

PROBABILITY_BITS = 48
_LEVELS = 8  # drawn between two looks at whether all chains are settled
_REFRESH = 32  # dense sweeps between two sums of the fields from scratch
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def xoshiro_states(seed: int, n_streams: int) -> NDArray[np.uint64]:
    """Start ``n_streams`` generators, ``(n_streams, 4)``, by SplitMix64."""
    counter = np.arange(1, 4 * n_streams + 1, dtype=np.uint64)
    # Unsigned array arithmetic wraps around, as the algorithm wants.
    z = np.array([seed], dtype=np.uint64) + counter * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).reshape(n_streams, 4)


def pack_chains(bits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Pack ``(n_chains, n_sites)`` into words ``(n_words, n_sites)``."""
    n_chains, n_sites = bits.shape
    padded = np.zeros((n_sites, -(-n_chains // 64) * 64), dtype=np.uint8)
    padded[:, :n_chains] = bits.T
    packed = np.packbits(padded, axis=1, bitorder="little")
    return np.ascontiguousarray(packed.view("<u8").astype(np.uint64).T)


def unpack_chains(words: NDArray[np.uint64], n_chains: int) -> NDArray[np.uint8]:
    """Undo :func:`pack_chains`."""
    packed = np.ascontiguousarray(words.T).astype("<u8").view(np.uint8)
    return np.unpackbits(packed, axis=1, bitorder="little", count=n_chains).T


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


@compiled
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
def lattice_sweeps(words, order, neighbors, thresholds, streams, n_sweeps):  # type: ignore[no-untyped-def]
    """Sweep 64 chains a word over a graph where each site has four neighbours.

    words (n_words, n_sites) is updated in place; streams (n_words, 4) start
    the random numbers. order lists the sites as visited, neighbors
    (n_sites, 4) belong to order's entries; both are uint64, which spares a
    test for negative indices. thresholds is threshold_bits of
    P(1 | 0, ..., 4 neighbours 1).
    """
    depth = thresholds.shape[0]
    for w in range(words.shape[0]):
        lattice = words[w]
        s0, s1, s2, s3 = streams[w]
        for _ in range(n_sweeps):
            for k in range(order.shape[0]):
                a = lattice[neighbors[k, 0]]
                b = lattice[neighbors[k, 1]]
                c = lattice[neighbors[k, 2]]
                d = lattice[neighbors[k, 3]]
                # In which chains are 0, 1, 2, 3, 4 neighbours set?
                odd = a ^ b ^ c ^ d
                pair = (a & b) | (c & d)
                four = a & b & c & d
                three = odd & pair
                one = odd & ~pair
                none = ~(a | b | c | d)
                two = ~(none | one | three | four)
                below = np.uint64(0)
                unsettled = ~np.uint64(0)
                for start in range(0, depth, _LEVELS):
                    for level in range(_LEVELS):
                        draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
                        t = np.uint64(start + level)
                        digit = (
                            (none & thresholds[t, 0])
                            | (one & thresholds[t, 1])
                            | (two & thresholds[t, 2])
                            | (three & thresholds[t, 3])
                            | (four & thresholds[t, 4])
                        )
                        below |= unsettled & digit & ~draw
                        unsettled &= ~(draw ^ digit)
                    if unsettled == 0:
                        break
                lattice[order[k]] = below


@compiled
def dense_sweeps(spins, coupling, bias, streams, n_sweeps):  # type: ignore[no-untyped-def]
    """Sweep chains over all sites in turn, keeping every local field current.

    spins (n_chains, n_sites) int8, -1 or 1, is updated in place; streams
    (n_chains, 4) start the random numbers. P(s_i = 1 | rest) =
    sigmoid(bias_i + coupling_i . s) with a symmetric coupling of zero
    diagonal. Fields have its dtype.
    """
    n_chains, n_sites = spins.shape
    field = np.empty_like(bias)
    for chain in range(n_chains):
        s = spins[chain]
        s0, s1, s2, s3 = streams[chain]
        for sweep in range(n_sweeps):
            if sweep % _REFRESH == 0:
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
