"""Gibbs sweeps on the GPU, in Triton: packed lattices, and sparse graphs.

The references are `plain_word_sweeps` and `plain_class_sweeps`, which draw the same
random numbers: Philox, counted by what is redrawn and when.

What bounds the lattice: 32 spins are settled by D digits, about 12 for the 4096 spins
that one program waits for. A digit takes a quarter of a Philox call (7 rounds of about
10 instructions: 18) and 8 logical ones; counting the neighbours takes a dozen. So 32
spins cost about 26 D + 40 = 350 integer instructions, of which an H100 issues 64 a
clock on each of 132 multiprocessors: at 1.7 GHz 14 T a second, or 1300 spins a
nanosecond. Memory is no bound: 40 bytes for 32 spins, most of it tables that stay in
the cache.

What bounds a graph: a site of degree d reads d bytes of neighbours' states a chain,
across, and needs about 100 instructions, 70 of them Philox's: at the same rate 140
sites a nanosecond.

A lattice is integer words throughout; a graph's states are bytes, its fields float32,
which decide to the last bit what the reference decides, as bf16 would not.

Run under Triton's interpreter only, and compiled for an H100: no rate on a GPU is
claimed. Every class is a launch of its own, of about 10 microseconds: below some
10 million spins a class, the launches are what a sweep takes.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.energies import LatticeIsing, PairwiseGraph
from ebmtut.samplers._graph_classes import ClassPlan, classes_of
from ebmtut.samplers._lattice_words import (
    DIGITS_A_DRAW,
    WordPlan,
    digits_of,
    pack,
    plan_for,
    unpack,
)
from ebmtut.samplers._multispin import PROBABILITY_BITS
from ebmtut.samplers._philox import ROUNDS

__all__ = ["class_sweeps", "graph_gibbs", "lattice_gibbs", "word_sweeps"]

# Words that a warp redraws together.
_WORDS = 128
# Sites and chains that a program of a graph redraws.
_SITES, _CHAINS = 4, 64


def lattice_gibbs(
    energy: LatticeIsing,
    x: Float[Tensor, "batch n_sites"],
    n_sweeps: int,
    seed: int,
) -> Float[Tensor, "batch n_sites"]:
    """Do what `ising_gibbs` does with a lattice, where the bits lie."""
    plan = plan_for(energy.side, len(x), x.device)
    words = pack(x.detach(), energy.side, plan)
    digits = digits_of(energy.sigma, energy.bias, x.device)
    word_sweeps(words, plan, digits, seed, n_sweeps)
    return unpack(words, energy.side, len(x), plan).to(x.dtype)


def graph_gibbs(
    model: PairwiseGraph,
    x: Float[Tensor, "n_chains n_sites"],
    n_sweeps: int,
    seed: int,
) -> Float[Tensor, "n_chains n_sites"]:
    """Do what `boltzmann_gibbs` does with a graph, where the bits lie."""
    plan = classes_of(model, x.device)
    states = x.detach()[:, plan.order].T.to(torch.int8).contiguous()
    class_sweeps(states, plan, seed, n_sweeps)
    swept = torch.empty_like(x, requires_grad=False)
    swept[:, plan.order] = states.T.to(x.dtype)
    return swept


# --------------------------------------------------------------------- lattices


def word_sweeps(
    words: Int[Tensor, "n_groups n_words"],
    plan: WordPlan,
    digits: Int[Tensor, "n_levels 5"],
    seed: int,
    n_sweeps: int,
) -> None:
    """Do what `plain_word_sweeps` does, in place."""
    n_classes = len(plan.first) - 1
    for step in range(n_sweeps * n_classes):
        begin, end = plan.first[step % n_classes : step % n_classes + 2]
        word_sweep[(triton.cdiv(end - begin, _WORDS), len(words))](
            words,
            plan.neighbor,
            plan.turn,
            digits,
            seed,
            step,
            begin,
            end,
            words.shape[1],
            TURNED=not plan.by_chains,
            N_CALLS=PROBABILITY_BITS // DIGITS_A_DRAW,
            ROUNDS=ROUNDS,
            WORDS=_WORDS,
            num_warps=1,
        )


@triton.jit
def neighbors(words, neighbor, turn, at, there, TURNED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Read the spins that lie on one side of those at some words."""
    word = tl.load(words + tl.load(neighbor + at, mask=there, other=0), mask=there)
    if TURNED:
        by = tl.load(turn + at, mask=there, other=0).to(tl.uint32)
        word = word.to(tl.uint32, bitcast=True)
        # A shift by 32 is undefined: by one, and by what is left.
        word = (word << by) | ((word >> 1) >> (31 - by))
        word = word.to(tl.int32, bitcast=True)
    return word


@triton.jit
def settle(below, unsettled, draw, digits, none, one, two, three, four):  # type: ignore[no-untyped-def]
    """Compare one more digit of the uniform numbers with the probabilities'."""
    draw = draw.to(tl.int32, bitcast=True)
    digit = none & tl.load(digits) | one & tl.load(digits + 1)
    digit = digit | two & tl.load(digits + 2)
    digit = digit | three & tl.load(digits + 3) | four & tl.load(digits + 4)
    below = below | unsettled & digit & ~draw
    return below, unsettled & ~(draw ^ digit)


@triton.jit(do_not_specialize=["seed", "step", "begin", "end"])
def word_sweep(  # type: ignore[no-untyped-def]
    words,
    neighbor,
    turn,
    digits,
    seed,
    step,
    begin,
    end,
    n_words,
    TURNED: tl.constexpr,
    N_CALLS: tl.constexpr,
    ROUNDS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Redraw some words of one class of one group of lattices.

    words (n_groups, n_words); neighbor and turn (4, n_words), digits (4 N_CALLS, 5).
    """
    group = tl.program_id(1)
    at = begin + tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    there = at < end
    number = group * n_words + at
    words += group.to(tl.int64) * n_words
    a = neighbors(words, neighbor, turn, at, there, TURNED)
    b = neighbors(words, neighbor, turn, at + n_words, there, TURNED)
    c = neighbors(words, neighbor, turn, at + 2 * n_words, there, TURNED)
    d = neighbors(words, neighbor, turn, at + 3 * n_words, there, TURNED)
    odd, pair = a ^ b ^ c ^ d, a & b | c & d
    four, none = a & b & c & d, ~(a | b | c | d)
    one, two, three = odd & ~pair, ~(odd | none | four), odd & pair
    below = tl.zeros_like(a)
    unsettled = tl.where(there, -1, 0)
    call = 0
    left = 1
    while (call < N_CALLS) & (left != 0):
        counter = tl.zeros_like(number)
        r0, r1, r2, r3 = tl.philox(
            seed, number, counter + step, counter + call, counter, ROUNDS
        )
        level = digits + call * 20
        below, unsettled = settle(
            below, unsettled, r0, level, none, one, two, three, four
        )
        below, unsettled = settle(
            below, unsettled, r1, level + 5, none, one, two, three, four
        )
        below, unsettled = settle(
            below, unsettled, r2, level + 10, none, one, two, three, four
        )
        below, unsettled = settle(
            below, unsettled, r3, level + 15, none, one, two, three, four
        )
        call += 1
        left = tl.max((unsettled != 0).to(tl.int32), 0)
    tl.store(words + at, below, mask=there)


# ----------------------------------------------------------------------- graphs


def class_sweeps(
    states: Int[Tensor, "n_sites n_chains"], plan: ClassPlan, seed: int, n_sweeps: int
) -> None:
    """Do what `plain_class_sweeps` does, in place."""
    n_chains = states.shape[1]
    for sweep in range(n_sweeps):
        for begin, end in zip(plan.first, plan.first[1:], strict=False):
            grid = (triton.cdiv(end - begin, _SITES), triton.cdiv(n_chains, _CHAINS))
            class_sweep[grid](
                states,
                plan.neighbor,
                plan.weight,
                plan.bias,
                seed,
                sweep,
                begin,
                end,
                n_chains,
                plan.weight.shape[1],
                ROUNDS=ROUNDS,
                SITES=_SITES,
                CHAINS=_CHAINS,
            )


@triton.jit(do_not_specialize=["seed", "sweep", "begin", "end"])
def class_sweep(  # type: ignore[no-untyped-def]
    states,
    neighbor,
    weight,
    bias,
    seed,
    sweep,
    begin,
    end,
    n_chains,
    width,
    ROUNDS: tl.constexpr,
    SITES: tl.constexpr,
    CHAINS: tl.constexpr,
):
    """Redraw some sites of one colour in some chains.

    states (n_sites, n_chains); neighbor and weight (n_sites, width).
    """
    site = begin + tl.program_id(0) * SITES + tl.arange(0, SITES)
    chain = tl.program_id(1) * CHAINS + tl.arange(0, CHAINS)
    inside, there = site < end, (chain < n_chains)[None, :]
    field = tl.load(bias + site, mask=inside, other=0.0)[:, None]
    field = field + tl.zeros((SITES, CHAINS), tl.float32)
    for k in range(width):
        entry = site * width + k
        other = tl.load(neighbor + entry, mask=inside, other=0).to(tl.int64)
        w = tl.load(weight + entry, mask=inside, other=0.0)
        at = other[:, None] * n_chains + chain[None, :]
        x = tl.load(states + at, mask=there, other=0)
        field += w[:, None] * x.to(tl.float32)
    zero = tl.zeros((SITES, CHAINS), tl.int32)
    draw, _, _, _ = tl.philox(
        seed, zero + site[:, None], zero + chain[None, :], zero + sweep, zero, ROUNDS
    )
    uniform = ((draw >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07
    up = uniform + uniform * tl.exp(-field) < 1.0
    at = site.to(tl.int64)[:, None] * n_chains + chain[None, :]
    tl.store(states + at, up.to(tl.int8), mask=inside[:, None] & there)
