"""Gibbs sweeps on the GPU, in Triton: packed lattices, and sparse graphs.

The references are `plain_word_sweeps` and `plain_class_sweeps`, with the same random
numbers: Philox, counted by what is resampled and when. Each class is a launch of its
own where a lattice is large; small problems are swept in one launch, whose programs
wait for their own threads. A graph's fields are float32 and a GPU's exponential is
right to 1e-7, so that about one sample in ten million may differ.
"""

# Kernels lengthen tuples in loops that are unrolled.
# mypy: disable-error-code="assignment"

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut._gpu import repeat
from ebmtut.energies import LatticeIsing, PairwiseGraph
from ebmtut.kernels.graph_classes import ClassPlan, classes_of
from ebmtut.kernels.lattice_words import (
    CALLS,
    OWN_CALLS,
    WordPlan,
    digits_of,
    pack,
    plan_for,
    unpack,
)
from ebmtut.kernels.philox import ROUNDS

# Warps of a program that sweeps a whole lattice or graph by itself.
_WARPS = 8
# A graph of at most so many sites is swept by one program for each few chains; in a
# larger one a program redraws so many states.
_SMALL, _STATES = 1024, 512
# A GPU takes no longer a grid along its second axis; programs then do several blocks.
_MOST = 65535
# Chains of a program: those of one call of Philox, and what a row of memory holds.
_FEW, _MANY = 4, 64
# Sweeps after which a counter on the device goes on, so that they can be replayed.
_SWEEPS = 8


def lattice_gibbs(
    energy: LatticeIsing, x: Float[Tensor, "batch n_sites"], n_sweeps: int, seed: int
) -> Float[Tensor, "batch n_sites"]:
    """Do what `ising_gibbs` does with a lattice, where the bits lie."""
    plan = plan_for(energy.side, len(x), x.device)
    words = pack(x.detach(), energy.side, plan)
    digits = digits_of(energy.sigma, energy.bias, x.device)
    with torch.cuda.device_of(words):
        word_sweeps(words, plan, digits, seed, n_sweeps)
    return unpack(words, energy.side, len(x), plan).to(x.dtype)


def graph_gibbs(
    model: PairwiseGraph, x: Float[Tensor, "n_chains n_sites"], n_sweeps: int, seed: int
) -> Float[Tensor, "n_chains n_sites"]:
    """Do what `boltzmann_gibbs` does with a graph, where the bits lie."""
    plan = classes_of(model, x.device)
    # Rows of memory that begin at a multiple of 16 are read four chains at a time.
    n_more = -len(x) % 16
    states = x.detach()[:, plan.order].T.to(torch.int8)
    states = torch.nn.functional.pad(states, (0, n_more)).contiguous()
    with torch.cuda.device_of(states):
        class_sweeps(states, plan, seed, n_sweeps)
    swept = torch.empty_like(x, requires_grad=False)
    swept[:, plan.order] = states[:, : len(x)].T.to(x.dtype)
    return swept


def widest(first: tuple[int, ...]) -> int:
    """Return the size of the largest class."""
    return max(end - begin for begin, end in pairwise(first))


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
    # One program sweeps a small group by itself; else every class is a launch.
    alone = plan.n_pooled == 1
    warps = _WARPS if alone else 1
    block = 32 * warps * plan.n_pooled
    n_blocks = 1 if alone else min(_MOST, triton.cdiv(widest(plan.first), block))

    def launch(*steps: Any) -> None:
        word_sweep[(len(words), n_blocks)](
            words,
            plan.neighbor,
            plan.starts,
            digits,
            *steps,
            words.shape[1],
            TURNED=not plan.by_chains,
            OWN_CALLS=OWN_CALLS,
            CALLS=CALLS,
            ROUNDS=ROUNDS,
            POOLED=plan.n_pooled,
            LANES=32 * warps,
            num_warps=warps,
        )

    by_the_clock(launch, seed, n_sweeps, n_classes, alone, words.device)


def by_the_clock(
    launch: Callable[..., None],
    seed: int,
    n_sweeps: int,
    n_classes: int,
    alone: bool,
    device: torch.device,
) -> None:
    """Launch all steps at once, one by one, or as a CUDA graph.

    ``launch`` takes what a kernel does of clock, seed, first and last step, class and
    number of classes. A graph repeats the same numbers: its steps count from a clock on
    the device.
    """
    n, some = 0 if alone else n_sweeps // _SWEEPS, _SWEEPS * n_classes

    def steps(first: int, last: int, clock: Tensor | None = None) -> None:
        a_launch = max(1, last - first) if alone else 1
        for step in range(first, last, a_launch):
            launch(clock, seed, step, step + a_launch, step % n_classes, n_classes)

    if n:
        clock = torch.zeros((), dtype=torch.int32, device=device)

        def some_sweeps() -> None:
            steps(0, some, clock)
            clock.add_(some)

        repeat(some_sweeps, n, device)
    steps(n * some, n_sweeps * n_classes)


@triton.jit
def spins(words, neighbor, at, there, LEFT: tl.constexpr):  # type: ignore[no-untyped-def]
    """Read the spins that lie on one side of those at some words."""
    entry = tl.load(neighbor + at, mask=there, other=0)
    word = tl.load(words + (entry & 0x7FFFFFFF if LEFT else entry))
    if LEFT:
        bits = word.to(tl.uint32, bitcast=True)
        turned = ((bits << LEFT) | (bits >> (32 - LEFT))).to(tl.int32, bitcast=True)
        word = tl.where(entry < 0, turned, word)
    return word


@triton.jit
def at_least(odd, most, last):  # type: ignore[no-untyped-def]
    """Say where 1, 2, 3 and 4 are up: parity and majority of three, and the last."""
    return odd | most | last, most | odd & last, most & (odd | last), odd & most & last


@triton.jit
def digit(row, one, two, three, four):  # type: ignore[no-untyped-def]
    """Return a word of digits: sums that the multipliers take off the logic units."""
    found = tl.load(row) + one * tl.load(row + 1) + two * tl.load(row + 2)
    return found + three * tl.load(row + 3) + four * tl.load(row + 4)


@triton.jit
def four_digits(  # type: ignore[no-untyped-def]
    seed, number, step, call, turn, digits, one, two, three, four, ROUNDS: tl.constexpr
):
    """Throw four coins; return the digits at the first 1, and where there was a 1."""
    zero = tl.zeros_like(number)
    c0, c1, c2, c3 = tl.philox(
        seed, number, zero + step, zero + call, zero + turn, ROUNDS
    )
    c0, c1 = c0.to(tl.int32, bitcast=True), c1.to(tl.int32, bitcast=True)
    c2, c3 = c2.to(tl.int32, bitcast=True), c3.to(tl.int32, bitcast=True)
    row = digits + call * 20
    found = c3 & digit(row + 15, one, two, three, four)
    found = c2 & digit(row + 10, one, two, three, four) | ~c2 & found
    found = c1 & digit(row + 5, one, two, three, four) | ~c1 & found
    found = c0 & digit(row, one, two, three, four) | ~c0 & found
    return found, c0 | c1 | c2 | c3


@triton.jit
def any_of(word):  # type: ignore[no-untyped-def]
    """Whether any bit of a program's words is 1."""
    return tl.max((word != 0).to(tl.int32), 0)


@triton.jit(do_not_specialize=["seed", "first_step", "last_step", "color"])
def word_sweep(  # type: ignore[no-untyped-def]
    words,
    neighbor,
    starts,
    digits,
    clock,
    seed,
    first_step,
    last_step,
    color,
    n_classes,
    n_words,
    TURNED: tl.constexpr,
    OWN_CALLS: tl.constexpr,
    CALLS: tl.constexpr,
    ROUNDS: tl.constexpr,
    POOLED: tl.constexpr,
    LANES: tl.constexpr,
):
    """Resample a part of the words of one group of lattices, class after class.

    words (n_groups, n_words), neighbor (4, n_words), starts (n_classes + 1), digits (4
    CALLS, 5). More than one class in a launch needs one program a group: it waits for
    its own threads after each. Steps count from the clock, if there is one.
    """
    group = tl.program_id(0)
    words += group.to(tl.int64) * n_words
    if clock is not None:
        first_step += tl.load(clock)
        last_step += tl.load(clock)
    for step in range(first_step, last_step):
        begin, end = tl.load(starts + color), tl.load(starts + color + 1)
        begin += tl.program_id(1) * (POOLED * LANES)
        for block in range(begin, end, tl.num_programs(1) * (POOLED * LANES)):
            redraw(
                words,
                neighbor,
                digits,
                seed,
                step,
                group * n_words,
                block + tl.arange(0, LANES),
                end,
                n_words,
                TURNED,
                OWN_CALLS,
                CALLS,
                ROUNDS,
                POOLED,
                LANES,
            )
        tl.debug_barrier()
        color = tl.where(color + 1 < n_classes, color + 1, 0)


@triton.jit
def redraw(  # type: ignore[no-untyped-def]
    words,
    neighbor,
    digits,
    seed,
    step,
    offset,
    at,
    end,
    n_words,
    TURNED: tl.constexpr,
    OWN_CALLS: tl.constexpr,
    CALLS: tl.constexpr,
    ROUNDS: tl.constexpr,
    POOLED: tl.constexpr,
    LANES: tl.constexpr,
):
    """Redraw a thread's words at, at + LANES, ..., POOLED of them, if below end."""
    number = offset + at
    odds, mosts, lasts, belows, opens = (), (), (), (), ()
    for j in tl.static_range(POOLED):
        here = at + j * LANES
        there = here < end
        a = spins(words, neighbor, here, there, 0)
        b = spins(words, neighbor + n_words, here, there, 0)
        c = spins(words, neighbor + 2 * n_words, here, there, 1 if TURNED else 0)
        last = spins(words, neighbor + 3 * n_words, here, there, 31 if TURNED else 0)
        odd, most = a ^ b ^ c, a & b | (a | b) & c
        one, two, three, four = at_least(odd, most, last)
        below, unsettled = tl.zeros_like(at), tl.where(there, -1, 0)
        for own in tl.static_range(OWN_CALLS):
            drawn, met = four_digits(
                seed,
                number + j * LANES,
                step,
                own,
                0,
                digits,
                one,
                two,
                three,
                four,
                ROUNDS,
            )
            below |= unsettled & drawn
            unsettled &= ~met
        odds += (odd,)
        mosts += (most,)
        lasts += (last,)
        belows += (below,)
        opens += (unsettled,)
    turn, left = 1, 1
    while left != 0:
        odd, most, last = tl.zeros_like(at), tl.zeros_like(at), tl.zeros_like(at)
        taken = tl.zeros_like(at)
        for j in tl.static_range(POOLED):
            mine = opens[j] & ~taken
            odd |= mine & odds[j]
            most |= mine & mosts[j]
            last |= mine & lasts[j]
            taken |= opens[j]
        one, two, three, four = at_least(odd, most, last)
        below, unsettled = tl.zeros_like(at), taken
        call = OWN_CALLS
        going = any_of(unsettled)
        while (call < CALLS) & (going != 0):
            drawn, met = four_digits(
                seed, number, step, call, turn, digits, one, two, three, four, ROUNDS
            )
            below |= unsettled & drawn
            unsettled &= ~met
            call += 1
            going = any_of(unsettled)
        settled, rest = (), ()
        taken, some = tl.zeros_like(at), tl.zeros_like(at)
        for j in tl.static_range(POOLED):
            settled += (belows[j] | opens[j] & ~taken & below,)
            rest += (opens[j] & taken,)
            some |= opens[j] & taken
            taken |= opens[j]
        belows, opens = settled, rest
        turn += 1
        left = any_of(some)
    for j in tl.static_range(POOLED):
        tl.store(words + at + j * LANES, belows[j], mask=at + j * LANES < end)


# ----------------------------------------------------------------------- graphs


def class_sweeps(
    states: Int[Tensor, "n_sites n_chains"], plan: ClassPlan, seed: int, n_sweeps: int
) -> None:
    """Do what `plain_class_sweeps` does, in place."""
    n_sites, n_chains = states.shape
    n_classes = len(plan.first) - 1
    # One program sweeps a small graph by itself; else every colour is a launch.
    alone = n_sites <= _SMALL
    chains = _FEW if alone else max(_FEW, min(_MANY, triton.next_power_of_2(n_chains)))
    sites = 32 * _WARPS if alone else _STATES // chains
    n_blocks = 1 if alone else min(_MOST, triton.cdiv(widest(plan.first), sites))

    def launch(*steps: Any) -> None:
        class_sweep[(triton.cdiv(n_chains, chains), n_blocks)](
            states,
            plan.start,
            plan.neighbor,
            plan.weight,
            plan.bias,
            plan.starts,
            *steps,
            n_chains,
            ROUNDS=ROUNDS,
            SITES=sites,
            CHAINS=chains,
            num_warps=_WARPS if alone else 4,
            maxnreg=64,  # left alone, the compiler takes 32 and spills one
        )

    by_the_clock(launch, seed, n_sweeps, n_classes, alone, states.device)


@triton.jit(do_not_specialize=["seed", "first_step", "last_step", "color"])
def class_sweep(  # type: ignore[no-untyped-def]
    states,
    start,
    neighbor,
    weight,
    bias,
    starts,
    clock,
    seed,
    first_step,
    last_step,
    color,
    n_classes,
    n_chains,
    ROUNDS: tl.constexpr,
    SITES: tl.constexpr,
    CHAINS: tl.constexpr,
):
    """Resample a part of the sites in some chains, colour after colour.

    states (n_sites, n_chains). Entries start[i] to start[i + 1] of neighbor and weight
    belong to site i; of some sites of one colour the last has most. starts (n_classes +
    1). More than one colour in a launch needs one program for all sites. Steps count
    from the clock, if there is one.
    """
    if clock is not None:
        first_step += tl.load(clock)
        last_step += tl.load(clock)
    chain = tl.program_id(0) * CHAINS + tl.arange(0, CHAINS)
    four = tl.program_id(0) * (CHAINS // 4) + tl.arange(0, CHAINS // 4)
    there = (chain < n_chains)[None, :]
    zero = tl.zeros((SITES, CHAINS // 4), tl.int32)
    for step in range(first_step, last_step):
        begin, end = tl.load(starts + color), tl.load(starts + color + 1)
        begin += tl.program_id(1) * SITES
        for block in range(begin, end, tl.num_programs(1) * SITES):
            site = block + tl.arange(0, SITES)
            inside = site < end
            field = tl.load(bias + site, mask=inside, other=0.0)[:, None]
            field = field + tl.zeros((SITES, CHAINS), tl.float32)
            first = tl.load(start + site, mask=inside, other=0)
            degree = tl.load(start + site + 1, mask=inside, other=0) - first
            last = start + tl.minimum(block + SITES, end)
            for k in range(tl.load(last) - tl.load(last - 1)):
                some = k < degree
                entry = first + k
                other = tl.load(neighbor + entry, mask=some, other=0).to(tl.int64)
                w = tl.load(weight + entry, mask=some, other=0.0)
                at = other[:, None] * n_chains + chain[None, :]
                x = tl.load(states + at, mask=there, other=0)
                field += tl.where(x != 0, w[:, None], 0.0)
            a, b, c, d = tl.philox(
                seed,
                zero + site[:, None],
                zero + four[None, :],
                zero + step,
                zero,
                ROUNDS,
            )
            draw = tl.join(tl.join(a, c), tl.join(b, d)).reshape((SITES, CHAINS))
            uniform = ((draw >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07
            up = uniform + uniform * tl.exp(-field) < 1.0
            at = site.to(tl.int64)[:, None] * n_chains + chain[None, :]
            tl.store(states + at, up.to(tl.int8), mask=inside[:, None] & there)
        tl.debug_barrier()
        color = tl.where(color + 1 < n_classes, color + 1, 0)
