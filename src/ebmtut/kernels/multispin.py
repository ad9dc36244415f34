"""Lattices of bits as words of 64 spins, and which words are redrawn together.

A word holds spins of 64 chains at one site (``pack_chains``) or of one chain along a
row (``pack_rows``).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebmtut._compiled import compiled
from ebmtut.energies import lattice_coloring
from ebmtut.kernels.lanes import LANES

PROBABILITY_BITS = 48
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def pack_chains(bits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Pack ``(n_chains, n_sites)`` into words ``(n_words, n_sites)``."""
    n_chains, n_sites = bits.shape
    words = np.zeros((-(-n_chains // 64), n_sites), dtype=np.uint64)
    _set_chains(bits, words)
    return words


def unpack_chains(words: NDArray[np.uint64], n_chains: int) -> NDArray[np.uint8]:
    """Undo :func:`pack_chains`."""
    bits = np.empty((n_chains, words.shape[1]), dtype=np.uint8)
    _get_chains(words, bits)
    return bits


def pack_rows(bits: NDArray[np.uint8], side: int) -> NDArray[np.uint64]:
    """Pack chains on a square lattice, a row's spins into words."""
    n_words = -(-side // 64)
    padded = np.zeros((len(bits), side, 64 * n_words), dtype=np.uint8)
    padded[..., :side] = bits.reshape(-1, side, side)
    packed = np.packbits(padded, axis=2, bitorder="little").view("<u8")
    return packed.reshape(len(bits), -1).astype(np.uint64)


def unpack_rows(words: NDArray[np.uint64], side: int) -> NDArray[np.uint8]:
    """Undo :func:`pack_rows`."""
    n_words = -(-side // 64)
    rows = np.ascontiguousarray(words).astype("<u8")
    packed = rows.view(np.uint8).reshape(len(words), side, 8 * n_words)
    bits = np.unpackbits(packed, axis=2, bitorder="little", count=side)
    return bits.reshape(len(words), -1)


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


@dataclass(frozen=True)
class Plan:
    """Where the words of a lattice lie, and which are redrawn together.

    The LANES words of a block lie side by side, and so do those, or copies of those,
    that hold its neighbours to one side.

    Attributes
    ----------
    place, target
        (n_words,), where packed words lie, and (n_blocks,), where a block begins.
    size
        Words of a lattice, with empty ones, shifted rows and copies.
    neighbor
        (n_blocks, 4), where the words with its neighbours' spins begin.
    mask, first
        (n_blocks * LANES,), the bits to resample; (n_classes + 1,), where classes
        begin.
    source, first_source
        (n_copies,), copied words; (n_classes + 1,), where a class's copies begin.
    """

    place: NDArray[np.int64]
    size: int
    target: NDArray[np.int64]
    neighbor: NDArray[np.int64]
    mask: NDArray[np.uint64]
    first: NDArray[np.int64]
    source: NDArray[np.int64]
    first_source: NDArray[np.int64]

    def lay_out(self, packed: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Bring packed words to their places."""
        words = np.zeros((len(packed), self.size), dtype=np.uint64)
        words[:, self.place] = packed
        return words

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What the kernel reads."""
        return (
            self.target,
            self.neighbor,
            self.mask,
            self.first,
            self.source,
            self.first_source,
        )


@lru_cache(maxsize=16)
def chain_plan(side: int) -> Plan:
    """Plan for words of :func:`pack_chains`: a word is a site, sorted by class."""
    colors = lattice_coloring(side).numpy()
    place = np.empty_like(colors)
    classes, begin = [], 0
    for color in np.unique(colors):
        members = np.flatnonzero(colors == color)
        place[members] = begin + np.arange(len(members))
        classes.append((begin, np.full(len(members), _ALL)))
        begin += _whole(len(members))
    places = place.reshape(side, side)
    around = np.zeros((4, begin), dtype=np.int64)
    for k, move in enumerate((-1, 1)):
        around[k, place] = np.roll(places, move, 0).ravel()
        around[2 + k, place] = np.roll(places, move, 1).ravel()
    return _plan(place, around, classes)


@lru_cache(maxsize=16)
def row_plan(side: int) -> Plan:
    """Plan for words of :func:`pack_rows`: a word is a piece of a row.

    Behind them lie the rows' left, then their right neighbours.
    """
    n_words = -(-side // 64)
    words = np.arange(side * n_words)
    rows = words.reshape(side, n_words)
    size = _whole(len(words))
    around = np.zeros((4, 3 * size), dtype=np.int64)
    around[:, words] = [
        np.roll(rows, 1, 0).ravel(),
        np.roll(rows, -1, 0).ravel(),
        words + size,
        words + 2 * size,
    ]
    colors = lattice_coloring(side).numpy()
    classes = [
        (0, pack_rows((colors == color).astype(np.uint8)[None], side)[0])
        for color in np.unique(colors)
    ]
    return _plan(words, around, classes)


def _whole(n: int) -> int:
    """Round up to whole blocks."""
    return -(-n // LANES) * LANES


def _plan(
    place: NDArray[np.int64],
    around: NDArray[np.int64],
    classes: list[tuple[int, NDArray[np.uint64]]],
) -> Plan:
    """Cut each class, its begin and masks, into blocks; find what must be copied."""
    size = around.shape[1]
    targets, neighbors, masks, sources = [], [], [], []
    first, first_source = [0], [0]
    for begin, mask in classes:
        n_words = _whole(len(mask))
        masks.append(np.pad(mask, (0, n_words - len(mask))))
        targets.append(np.arange(begin, begin + n_words, LANES))
        words = around[:, begin : begin + n_words].reshape(4, -1, LANES)
        words = words.transpose(1, 0, 2)
        run = words[..., :1] + np.arange(LANES)
        empty = np.arange(n_words).reshape(-1, 1, LANES) >= len(mask)
        in_a_row = ((words == run) | empty).all(2) & (run[..., -1] < size)
        sources.append(np.where(empty, words[..., :1], words)[~in_a_row].ravel())
        neighbor = words[..., 0].copy()
        end = first_source[-1] + len(sources[-1])
        neighbor[~in_a_row] = size + np.arange(first_source[-1], end, LANES)
        neighbors.append(neighbor)
        first.append(first[-1] + len(neighbor))
        first_source.append(end)
    return Plan(
        place,
        size + first_source[-1],
        np.concatenate(targets),
        np.concatenate(neighbors),
        np.concatenate(masks),
        np.array(first),
        np.concatenate(sources),
        np.array(first_source),
    )


def threshold_bits(probabilities: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Binary digits of probabilities, each digit spread over a whole word.

    Returns ``(PROBABILITY_BITS, len(probabilities))``, most significant first.
    """
    top = 2**PROBABILITY_BITS
    scaled = np.minimum(probabilities * top, top - 1).astype(np.uint64)
    shift = np.arange(PROBABILITY_BITS - 1, -1, -1, dtype=np.uint64)
    digits = (scaled[None, :] >> shift[:, None]) & np.uint64(1)
    return digits * _ALL
