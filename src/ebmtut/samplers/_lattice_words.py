"""Multispin Gibbs sweeps of square lattices by counted random numbers, in plain torch.

What the GPU's kernel does, bit for bit. A word holds 32 spins that are redrawn at once:
of 32 chains at one site, or of one chain, whose rows are cut into 32 pieces of equal
length. Then bit b of word (r, k) is the site of row r and column b width + k, and what
lies beyond a piece's end is the word at the other end, turned by one bit. Words are
sorted by colour, so that what is redrawn together lies together.

A spin becomes 1 where a uniform number, drawn bit by bit from the most significant
down, falls below its probability, as in `_lattice_kernels`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.energies import lattice_coloring
from ebmtut.samplers._multispin import PROBABILITY_BITS, threshold_bits
from ebmtut.samplers._philox import WORD, philox

__all__ = [
    "DIGITS_A_DRAW",
    "WordPlan",
    "digits_of",
    "pack",
    "plain_word_sweeps",
    "plan_for",
    "unpack",
]

BITS = 32
DIGITS_A_DRAW = 4  # philox returns four words


class WordPlan(NamedTuple):
    """Where the words of a lattice lie, class after class.

    Attributes
    ----------
    by_chains
        Whether a word holds 32 chains, rather than 32 sites of one.
    order
        Sites, or places of a piece, in the order of the words.
    neighbor
        The words that hold the neighbours' spins, four rows.
    turn
        How far to turn them to the left, 0, 1 or 31.
    first
        Where each class begins, and the end.
    """

    by_chains: bool
    order: Int[Tensor, " n_words"]
    neighbor: Tensor
    turn: Tensor
    first: tuple[int, ...]


def plan_for(side: int, n_chains: int, device: torch.device) -> WordPlan:
    """Plan for the packing that redraws fewer words.

    Pieces need an even length, lest neighbours share a colour: a side of 64 or more.
    """
    by_pieces = side % (2 * BITS) == 0 and n_chains < -(-n_chains // BITS) * BITS
    width = side // BITS if by_pieces else side
    words = torch.arange(side * width).reshape(side, width)
    turns = torch.zeros(4, side, width, dtype=torch.int64)
    if by_pieces:
        turns[2, :, 0], turns[3, :, -1] = 1, BITS - 1
        colors = (words // width + words % width) % 2
    else:
        colors = lattice_coloring(side).reshape(side, side)
    around = torch.stack([words.roll(s, d) for d in (0, 1) for s in (1, -1)])
    order = torch.argsort(colors.flatten(), stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    sizes = torch.bincount(colors.flatten())
    first = (0, *(int(n) for n in sizes.cumsum(0)))
    neighbor = place[around.flatten(1)[:, order]].to(device, torch.int32)
    turn = turns.flatten(1)[:, order].to(device, torch.int32)
    return WordPlan(not by_pieces, order.to(device), neighbor, turn, first)


def pack(
    bits: Float[Tensor, "n_chains n_sites"], side: int, plan: WordPlan
) -> Int[Tensor, "n_groups n_words"]:
    """Pack bits into int32 words, in the plan's order."""
    if plan.by_chains:
        n_missing = -len(bits) % BITS
        padded = torch.nn.functional.pad(bits, (0, 0, 0, n_missing))
        lanes = padded.reshape(-1, BITS, bits.shape[1])
    else:
        pieces = bits.reshape(len(bits), side, BITS, -1)
        lanes = pieces.transpose(1, 2).reshape(len(bits), BITS, -1)
    words = torch.zeros_like(lanes[:, 0], dtype=torch.int32)
    for lane in range(BITS):
        words |= lanes[:, lane].to(torch.int32) << lane
    return words[:, plan.order].contiguous()


def unpack(
    words: Int[Tensor, "n_groups n_words"], side: int, n_chains: int, plan: WordPlan
) -> Int[Tensor, "n_chains n_sites"]:
    """Undo `pack`."""
    placed = torch.empty_like(words)
    placed[:, plan.order] = words
    lanes = torch.stack([placed >> lane & 1 for lane in range(BITS)], 1)
    if plan.by_chains:
        return lanes.flatten(0, 1)[:n_chains]
    pieces = lanes.reshape(n_chains, BITS, side, -1)
    return pieces.transpose(1, 2).reshape(n_chains, -1)


def digits_of(
    sigma: float, bias: float, device: torch.device
) -> Int[Tensor, "n_levels 5"]:
    """Binary digits of P(1 | 0, ..., 4 neighbours 1), (48, 5), each filling a word."""
    n_up = torch.arange(5, dtype=torch.float64)
    chance = torch.sigmoid(4 * sigma * (2 * n_up - 4) + 2 * bias)
    words = torch.from_numpy(threshold_bits(chance.numpy()).view("int64"))
    return words.to(device, torch.int32)


def plain_word_sweeps(
    words: Int[Tensor, "n_groups n_words"],
    plan: WordPlan,
    digits: Int[Tensor, "n_levels 5"],
    seed: int,
    n_sweeps: int,
) -> Int[Tensor, "n_groups n_words"]:
    """Redraw class after class; a spin's class is how many of its neighbours are 1."""
    n_classes = len(plan.first) - 1
    words, digits = words.long() & WORD, digits.long() & WORD
    number = torch.arange(words.numel(), device=words.device).view_as(words)
    for step in range(n_sweeps * n_classes):
        here = slice(*plan.first[step % n_classes : step % n_classes + 2])
        a, b, c, d = (
            _turned(words[:, neighbor[here].long()], turn[here].long())
            for neighbor, turn in zip(plan.neighbor, plan.turn, strict=True)
        )
        odd, pair = a ^ b ^ c ^ d, a & b | c & d
        four, none = a & b & c & d, ~(a | b | c | d)
        counts = (none, odd & ~pair, ~(odd | none | four), odd & pair, four)
        below, unsettled = torch.zeros_like(a), torch.full_like(a, WORD)
        for level in range(PROBABILITY_BITS):
            if level % DIGITS_A_DRAW == 0:
                counters = (number[:, here], step, level // DIGITS_A_DRAW, 0)
                draws = philox(seed, counters)
            draw, digit = draws[level % DIGITS_A_DRAW], torch.zeros_like(a)
            for count, one in zip(counts, digits[level], strict=True):
                digit |= count & one
            below |= unsettled & digit & ~draw
            unsettled &= ~(draw ^ digit)
        words[:, here] = below
    return words.to(torch.int32)


def _turned(words: Tensor, by: Tensor) -> Tensor:
    """Turn 32-bit words to the left."""
    return (words << by | words >> BITS - by) & WORD
