"""Lattices of bits as words of 64 spins, and which words are redrawn together.

A word holds spins of 64 chains at one site (``pack_chains``) or of one chain along a
row (``pack_rows``).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ebmtut._compiled import compiled
from ebmtut.energies import lattice_coloring

__all__ = [
    "LANES",
    "PROBABILITY_BITS",
    "Plan",
    "chain_plan",
    "pack_chains",
    "pack_rows",
    "row_plan",
    "threshold_bits",
    "unpack_chains",
    "unpack_rows",
]

LANES = 8  # words drawn side by side: 512 bits

PROBABILITY_BITS = 48
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


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
