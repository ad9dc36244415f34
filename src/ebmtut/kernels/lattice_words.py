"""Multispin Gibbs sweeps of square lattices by counted random numbers, in plain torch.

The GPU's kernel does the same, bit for bit. A word holds 32 spins that are resampled at
once: of 32 chains at one site, or of one chain, whose rows are cut into 32 pieces. In
the second case bit b of word (r, k) is the site of row r and column b width + k. Words
are sorted by colour.

Uniform random bits are compared with the binary digits of a spin's probability; the
spin becomes the digit at the first place where the random bit is 1. After 8 bits of
each spin's own, rounds decide the rest: among a few words 32 places apart, the first
with an undecided lane takes that lane of one further random word. No two spins use the
same random bit, so that the distribution is exact, of 48 digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.energies import lattice_coloring
from ebmtut.kernels.multispin import PROBABILITY_BITS, threshold_bits
from ebmtut.kernels.philox import WORD, philox

BITS = 32
DIGITS_A_CALL = 4  # philox returns four words
CALLS = PROBABILITY_BITS // DIGITS_A_CALL
# Calls of Philox that each word makes for itself; later ones are shared.
OWN_CALLS = 2
# A lattice of at most so many words is swept by one program, each word for itself;
# in a larger one four words settle together.
_SMALL, _POOLED = 4096, 4
# Taken away from the place of a neighbour whose word is to be turned.
_TURNED = 2**31


class WordPlan(NamedTuple):
    """Where the words of a lattice lie, class after class.

    Attributes
    ----------
    by_chains, order
        Whether a word holds 32 chains or 32 sites; sites, or places, in the order of
        words.
    neighbor
        The words of the neighbours' spins, four rows. Where a word of the last two rows
        is to be turned by a bit, 2^31 is taken away.
    first, starts
        Where each class begins, and the end; the same, on the device.
    n_pooled
        How many words settle their open spins together; 1 in small lattices.
    """

    by_chains: bool
    order: Int[Tensor, " n_words"]
    neighbor: Tensor
    first: tuple[int, ...]
    starts: Tensor
    n_pooled: int


def plan_for(side: int, n_chains: int, device: torch.device) -> WordPlan:
    """Plan for the packing that resamples fewer words.

    Pieces need an even length, lest neighbours share a colour: a side of 64 or more.
    """
    by_pieces = side % (2 * BITS) == 0 and n_chains < -(-n_chains // BITS) * BITS
    return _plan(side, by_pieces, device)


@lru_cache(maxsize=4)
def _plan(side: int, by_pieces: bool, device: torch.device) -> WordPlan:
    width = side // BITS if by_pieces else side
    words = torch.arange(side * width, device="cpu").reshape(side, width)
    turned = torch.zeros(4, side, width, dtype=torch.bool, device="cpu")
    if by_pieces:
        turned[2, :, 0] = turned[3, :, -1] = True
        colors = (words // width + words % width) % 2
    else:
        colors = lattice_coloring(side).reshape(side, side)
    around = torch.stack([words.roll(s, d) for d in (0, 1) for s in (1, -1)])
    order = torch.argsort(colors.flatten(), stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device="cpu")
    sizes = torch.bincount(colors.flatten())
    first = (0, *(int(n) for n in sizes.cumsum(0)))
    neighbor = place[around.flatten(1)] - _TURNED * turned.flatten(1)
    return WordPlan(
        not by_pieces,
        order.to(device),
        neighbor[:, order].to(device, torch.int32),
        first,
        torch.tensor(first, dtype=torch.int32, device="cpu").to(device),
        1 if len(order) <= _SMALL else _POOLED,
    )


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
    lane = torch.arange(BITS, dtype=torch.int32, device=bits.device)[:, None]
    # The highest bit is the sign: sums wrap around.
    words = (lanes.to(torch.int32) << lane).sum(1, dtype=torch.int32)
    return words[:, plan.order].contiguous()


def unpack(
    words: Int[Tensor, "n_groups n_words"], side: int, n_chains: int, plan: WordPlan
) -> Int[Tensor, "n_chains n_sites"]:
    """Undo `pack`."""
    placed = torch.empty_like(words)
    placed[:, plan.order] = words
    lane = torch.arange(BITS, dtype=torch.int32, device=words.device)[:, None]
    lanes = placed[:, None] >> lane & 1
    if plan.by_chains:
        return lanes.flatten(0, 1)[:n_chains]
    pieces = lanes.reshape(n_chains, BITS, side, -1)
    return pieces.transpose(1, 2).reshape(n_chains, -1)


def digits_of(
    sigma: float, bias: float, device: torch.device
) -> Int[Tensor, "n_levels 5"]:
    """Binary digits of P(1 | 0, ..., 4 neighbours 1), (48, 5), for sums of words.

    The first entry of a row plus each other one times the word of the spins with at
    least as many neighbours gives the digits of 32 spins, up to multiples of 2^32.
    """
    n_up = torch.arange(5, dtype=torch.float64, device="cpu")
    chance = torch.sigmoid(4 * sigma * (2 * n_up - 4) + 2 * bias)
    digits = -torch.from_numpy(threshold_bits(chance.numpy()).view("int64"))
    digits[:, 1:] = digits.diff()
    digits[:, 0] *= -1
    return digits.to(device, torch.int32)


def plain_word_sweeps(
    words: Int[Tensor, "n_groups n_words"],
    plan: WordPlan,
    digits: Int[Tensor, "n_levels 5"],
    seed: int,
    n_sweeps: int,
) -> Int[Tensor, "n_groups n_words"]:
    """Redraw class after class."""
    n_classes = len(plan.first) - 1
    words, digits = words.long() & WORD, digits.long()
    for step in range(n_sweeps * n_classes):
        begin, end = plan.first[step % n_classes : step % n_classes + 2]
        at_least = _at_least(words, plan, begin, end)
        words[:, begin:end] = _redrawn(at_least, begin, plan, digits, seed, step)
    return words.to(torch.int32)


def _at_least(
    words: Tensor, plan: WordPlan, begin: int, end: int
) -> tuple[Tensor, ...]:
    """Say which spins have at least 1, 2, 3 and 4 neighbours that are 1."""
    around = []
    for neighbor, left in zip(plan.neighbor, (0, 0, 1, BITS - 1), strict=True):
        entry = neighbor[begin:end].long()
        word = words[:, entry % _TURNED]
        turned = (word << left | word >> BITS - left) & WORD
        around.append(torch.where(entry < 0, turned, word))
    a, b, c, d = around
    odd, most = a ^ b ^ c, a & b | (a | b) & c
    return odd | most | d, most | odd & d, most & (odd | d), odd & most & d


def _redrawn(
    at_least: Sequence[Tensor],
    begin: int,
    plan: WordPlan,
    digits: Tensor,
    seed: int,
    step: int,
) -> Tensor:
    """Draw the words of one class, of spins with so many neighbours."""
    n_groups, n = at_least[0].shape
    n_missing = -n % (plan.n_pooled * BITS)

    def blocks(x: Tensor) -> Tensor:
        padded = torch.nn.functional.pad(x, (0, n_missing))
        return padded.view(n_groups, -1, plan.n_pooled, BITS)

    at_least = [blocks(x) for x in at_least]
    group = torch.arange(n_groups, device=digits.device)[:, None, None, None]
    place = torch.arange(n + n_missing, device=digits.device)
    number = group * len(plan.order) + begin + place.view(at_least[0].shape[1:])
    unsettled = blocks(torch.full((n_groups, n), WORD, device=digits.device))
    below, unsettled = _draw(unsettled, at_least, digits, seed, number, step, 0)
    turn = 1
    while unsettled.any():
        # Whose lane it is: of the first word that has it open.
        mine, taken = torch.zeros_like(unsettled), torch.zeros_like(unsettled[:, :, 0])
        for j in range(plan.n_pooled):
            mine[:, :, j] = unsettled[:, :, j] & ~taken
            taken |= unsettled[:, :, j]
        counts = [_any(mine & x) for x in at_least]
        drawn, _ = _draw(taken, counts, digits, seed, number[:, :, 0], step, turn)
        below |= mine & drawn[:, :, None]
        unsettled &= ~mine
        turn += 1
    return below.flatten(1)[:, :n]


def _draw(
    unsettled: Tensor,
    at_least: Sequence[Tensor],
    digits: Tensor,
    seed: int,
    number: Tensor,
    step: int,
    turn: int,
) -> tuple[Tensor, Tensor]:
    """Settle open spins by coins: their own in turn 0, else until all are settled."""
    below = torch.zeros_like(unsettled)
    for call in range(OWN_CALLS) if turn == 0 else range(OWN_CALLS, CALLS):
        coins = philox(seed, (number, step, call, turn))
        for coin, row in zip(coins, digits[call * DIGITS_A_CALL :], strict=False):
            sums = sum(x * by for x, by in zip(at_least, row[1:], strict=True))
            below |= unsettled & coin & (row[0] + sums)
            unsettled = unsettled & ~coin
    return below, unsettled


def _any(words: Tensor) -> Tensor:
    """Unite the words that settle together."""
    united = words[:, :, 0]
    for j in range(1, words.shape[2]):
        united = united | words[:, :, j]
    return united
