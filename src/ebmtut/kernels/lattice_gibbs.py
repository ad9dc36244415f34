"""Compiled Gibbs sweeps of Ising models on a square lattice: multispin code.

The 512 spins of a block are resampled together. A spin becomes 1 where a uniform
number, made bit by bit, falls below its probability; what is still open after a few
bits is pooled over sixteen blocks, each spin in its own place. Eight streams of random
numbers for 64 chains or a chain of rows: results do not depend on the threads.
"""

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import compiled, inlined, sweep_in_threads
from ebmtut.energies import LatticeIsing
from ebmtut.kernels import multispin
from ebmtut.kernels.lanes import LANES, any_set, load, spread, store
from ebmtut.kernels.xoshiro import xoshiro_next, xoshiro_states

GROUP = 16  # blocks whose open spins are pooled
FIRST = 7  # digits drawn for a block; the others are drawn for pools
_NONE = np.uint64(0)
_NEIGHBOR_SUMS = torch.arange(-4, 5, 2, dtype=torch.float64, device="cpu")


def lane_streams(seed: int, n_lattices: int) -> NDArray[np.uint64]:
    """Start each lattice's streams, ``(n_lattices, 4, LANES)``."""
    states = xoshiro_states(seed, n_lattices * LANES)
    return np.ascontiguousarray(states.reshape(-1, LANES, 4).transpose(0, 2, 1))


@inlined
def _shift_rows(lattice, side):  # type: ignore[no-untyped-def]
    """Write each row's left, then its right neighbours behind the rows."""
    n_words = (side + 63) // 64
    left = -(-(side * n_words) // LANES) * LANES
    right = 2 * left
    one, top, last = np.uint64(1), np.uint64(63), np.uint64((side - 1) % 64)
    for begin in range(0, side * n_words, n_words):
        end = begin + n_words - 1
        for k in range(begin, end):
            lattice[left + k + 1] = (lattice[k + 1] << one) | (lattice[k] >> top)
            lattice[right + k] = (lattice[k] >> one) | (lattice[k + 1] << top)
        lattice[left + begin] = (lattice[begin] << one) | (lattice[end] >> last & one)
        lattice[right + end] = (lattice[end] >> one) | ((lattice[begin] & one) << last)


@inlined
def _copy_words(lattice, source, begin, end, to):  # type: ignore[no-untyped-def]
    for k in range(begin, end):
        lattice[to + k] = lattice[source[k]]


@inlined
def _counts(lattice, neighbor, block):  # type: ignore[no-untyped-def]
    """In which spins of a block at least one, two, three, four neighbours are set."""
    a = load(lattice, neighbor[block, 0])
    b = load(lattice, neighbor[block, 1])
    c = load(lattice, neighbor[block, 2])
    d = load(lattice, neighbor[block, 3])
    one, two, other, others = a | b, a & b, c | d, c & d
    return (
        one | other,
        two | others | (one & other),
        (two & other) | (one & others),
        two & others,
    )


@inlined
def _compare(stream, counts, digits, level, value, unsettled):  # type: ignore[no-untyped-def]
    """Compare a random bit for each spin with its probability's digit.

    The value is the last digit of an open spin, which says which of the two is less.
    """
    draw, s0, s1, s2, s3 = xoshiro_next(stream[0], stream[1], stream[2], stream[3])
    digit = digits[level, 0] ^ (counts[0] & digits[level, 1])
    digit = digit ^ (counts[1] & digits[level, 2])
    digit = digit ^ (counts[2] & digits[level, 3])
    digit = digit ^ (counts[3] & digits[level, 4])
    value = value ^ (unsettled & (value ^ digit))
    return (s0, s1, s2, s3), value, unsettled & ~(draw ^ digit)


@inlined
def _first_digits(stream, counts, digits, unsettled):  # type: ignore[no-untyped-def]
    value = spread(_NONE)
    for level in range(FIRST):
        stream, value, unsettled = _compare(
            stream, counts, digits, level, value, unsettled
        )
    return stream, value & ~unsettled, unsettled


@inlined
def _join(pool, counts, claimed):  # type: ignore[no-untyped-def]
    """Pool the spins whose places are free; return which."""
    share = claimed & ~pool[0]
    joined = (
        pool[0] | share,
        pool[1] | (share & counts[0]),
        pool[2] | (share & counts[1]),
        pool[3] | (share & counts[2]),
        pool[4] | (share & counts[3]),
    )
    return joined, share


@inlined
def _redraw(  # type: ignore[no-untyped-def]
    lattice, target, neighbor, mask, begin, end, digits, streams, work
):
    """Redraw the blocks of a class, whose spins do not depend on one another."""
    blocks, unsettled, shares = work
    stream = (
        load(streams, 0),
        load(streams, LANES),
        load(streams, 2 * LANES),
        load(streams, 3 * LANES),
    )
    none = spread(_NONE)
    n_open = 0
    while begin < end or n_open:
        pool = none, none, none, none, none
        for k in range(n_open):
            claimed = load(unsettled, k * LANES)
            counts = _counts(lattice, neighbor, blocks[k])
            pool, share = _join(pool, counts, claimed)
            store(shares, k * LANES, share)
            store(unsettled, k * LANES, claimed & ~share)
        while n_open < GROUP and begin < end:
            drawn = load(mask, begin * LANES)
            counts = _counts(lattice, neighbor, begin)
            stream, value, claimed = _first_digits(stream, counts, digits, drawn)
            at = target[begin]
            store(lattice, at, (load(lattice, at) & ~drawn) | value)
            pool, share = _join(pool, counts, claimed)
            store(shares, n_open * LANES, share)
            store(unsettled, n_open * LANES, claimed & ~share)
            blocks[n_open] = begin
            n_open += 1
            begin += 1
        value, left, counts = none, pool[0], pool[1:]
        level = FIRST
        while level < digits.shape[0] and any_set(left):
            stream, value, left = _compare(stream, counts, digits, level, value, left)
            level += 1
        value = value & ~left
        n_pooled, n_open = n_open, 0
        for k in range(n_pooled):
            at = target[blocks[k]]
            store(lattice, at, load(lattice, at) | (value & load(shares, k * LANES)))
            left = load(unsettled, k * LANES)
            store(unsettled, n_open * LANES, left)
            blocks[n_open] = blocks[k]
            n_open += any_set(left)
    store(streams, 0, stream[0])
    store(streams, LANES, stream[1])
    store(streams, 2 * LANES, stream[2])
    store(streams, 3 * LANES, stream[3])


@compiled
def lattice_sweeps(  # type: ignore[no-untyped-def]
    words,
    target,
    neighbor,
    mask,
    first,
    source,
    first_source,
    thresholds,
    streams,
    n_sweeps,
    row_side,
):
    """Sweep lattices of packed spins, each site with four neighbours.

    words (n_lattices, n_words) and streams (n_lattices, 4, LANES) are updated in place.
    target to first_source are a Plan's arrays. thresholds is threshold_bits of P(1 | 0,
    ..., 4 neighbours 1). row_side is the side where words are rows, else 0.
    """
    digits = thresholds.copy()
    digits[:, 1:] ^= thresholds[:, :-1]
    work = (
        np.empty(GROUP, dtype=np.int64),
        np.empty(GROUP * LANES, dtype=np.uint64),
        np.empty(GROUP * LANES, dtype=np.uint64),
    )
    behind = words.shape[1] - len(source)
    for w in range(words.shape[0]):
        lattice = words[w]
        for _ in range(n_sweeps):
            for color in range(first.shape[0] - 1):
                if row_side:
                    _shift_rows(lattice, row_side)
                _copy_words(
                    lattice,
                    source,
                    first_source[color],
                    first_source[color + 1],
                    behind,
                )
                _redraw(
                    lattice,
                    target,
                    neighbor,
                    mask,
                    first[color],
                    first[color + 1],
                    digits,
                    streams[w],
                    work,
                )


@compiled
def count_chains(words, place, ahead, agreeing, set_spins):  # type: ignore[no-untyped-def]
    """Count, for 64 chains in a word, edges of equal spins and spins that are 1.

    place (n_sites,) and ahead (2, n_sites) say where the words of the sites and of
    their lower and right neighbours lie. A plane holds one digit of 64 counters.
    """
    n_sites = len(place)
    planes = np.empty((2, 32), dtype=np.uint64)
    for w in range(words.shape[0]):
        lattice = words[w]
        planes[:] = 0
        for i in range(n_sites):
            spins = lattice[place[i]]
            for carry, k in (
                (~(spins ^ lattice[ahead[0, i]]), 0),
                (~(spins ^ lattice[ahead[1, i]]), 0),
                (spins, 1),
            ):
                digit = 0
                while carry:
                    both = planes[k, digit] & carry
                    planes[k, digit] ^= carry
                    carry = both
                    digit += 1
        for k, counts in ((0, agreeing), (1, set_spins)):
            for digit in range(planes.shape[1]):
                plane = planes[k, digit]
                if plane:
                    for chain in range(64):
                        bit = (plane >> np.uint64(chain)) & np.uint64(1)
                        counts[w, chain] += np.int64(bit) << digit


@lru_cache(maxsize=16)
def _places_ahead(side: int) -> NDArray[np.int64]:
    place = multispin.chain_plan(side).place.reshape(side, side)
    return np.stack([np.roll(place, -1, axis).ravel() for axis in (0, 1)])


class LatticeChains:
    """Packed chains on a lattice, with their streams of random numbers.

    A word holds spins of 64 chains, or else, where that redraws fewer words, of a
    chain's row.
    """

    def __init__(
        self, energy: LatticeIsing, x: Float[Tensor, "batch n_sites"], seed: int
    ) -> None:
        self.energy, self.n_chains = energy, len(x)
        chains = multispin.chain_plan(energy.side)
        rows = multispin.row_plan(energy.side)
        self.by_rows = len(x) * len(rows.mask) < -(-len(x) // 64) * len(chains.mask)
        self.plan = rows if self.by_rows else chains
        self._pack(x.detach().bool().view(torch.uint8).numpy())
        self.streams = lane_streams(seed, len(self.words))

    def _pack(self, bits: NDArray[np.uint8]) -> None:
        packed = (
            multispin.pack_rows(bits, self.energy.side)
            if self.by_rows
            else multispin.pack_chains(bits)
        )
        self.words = self.plan.lay_out(packed)

    def _bits(self) -> NDArray[np.uint8]:
        packed = self.words[:, self.plan.place]
        if self.by_rows:
            return multispin.unpack_rows(packed, self.energy.side)
        return multispin.unpack_chains(packed, self.n_chains)

    def sweep(self, n_sweeps: int, strength: float = 1.0) -> None:
        """Sweep at a factor of the energy, spread over threads."""
        logit = 4 * self.energy.sigma * _NEIGHBOR_SUMS + 2 * self.energy.bias
        p = torch.sigmoid(strength * logit).numpy()
        thresholds = multispin.threshold_bits(p)
        row_side = self.energy.side if self.by_rows else 0

        def work(n: int, part: slice) -> None:
            words, streams = self.words[part], self.streams[part]
            lattice_sweeps(words, *self.plan.arrays, thresholds, streams, n, row_side)

        n_spins = self.n_chains * self.energy.n_sites
        sweep_in_threads(work, len(self.words), n_sweeps, n_spins)

    def energies(self) -> Float64[Tensor, " batch"]:
        """Energies of the present states."""
        energy = self.energy
        if self.by_rows:
            return energy(self.states(torch.float64))
        ahead = _places_ahead(energy.side)
        agreeing, ones = np.zeros((2, len(self.words), 64), dtype=np.int64)
        count_chains(self.words, self.plan.place, ahead, agreeing, ones)
        bonds = 2 * agreeing.ravel() - ahead.size
        spins = 2 * ones.ravel() - energy.n_sites
        found = -(2 * energy.sigma * bonds + energy.bias * spins)
        return torch.from_numpy(found[: self.n_chains])

    def choose(self, rows: Int64[Tensor, " batch"]) -> None:
        """Replace the chains by copies of these."""
        self._pack(self._bits()[rows])

    def states(self, dtype: torch.dtype) -> Float[Tensor, "batch n_sites"]:
        """Return the chains' states as bits."""
        return torch.from_numpy(self._bits()).to(dtype)


def lattice_gibbs(
    energy: LatticeIsing, x: Float[Tensor, "batch n_sites"], n_sweeps: int, seed: int
) -> Float[Tensor, "batch n_sites"]:
    """Sweep copies of the chains, spread over threads."""
    chains = LatticeChains(energy, x, seed)
    chains.sweep(n_sweeps)
    return chains.states(x.dtype)
