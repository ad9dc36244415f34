"""Max-product sweeps of pairwise models on the GPU, in Triton.

The reference is `ebmtut.message_passing.max_product_reference`, which is what a
reader is shown. Messages are kept as in `_pairwise_kernels`, S = (N - h) / c.

Matrices, dense or of an RBM, are cut into square tiles; the messages of a tile, both
ways, lie together in one piece of memory. A program renews one tile of one chain. What
sites hear is left as one number a tile and site, and added up after the sweep: no
atomic addition, so the same start gives the same bits. On graphs a program
renews what a block of sites says, and reads the messages before it, of another array.

What bounds them, for P pairs, C chains and messages of 4 bytes: a sweep of a matrix
reads and writes both messages of a pair, 16 P C bytes, and needs 14 P C instructions
(a pair's c and |h|, and for each way two fused products, two clips and a sum). For
n = 900 and C = 100 that is 0.65 GB and 0.57 G instructions a sweep: at 3.35 TB/s and
30 T instructions a second (an H100's data sheet) 0.19 and 0.02 ms, so memory is the
bound by ten to one. What is left to be added up is 3 percent more. A sweep of a graph
reads a message twice, one of them across, and writes it once: 24 P C bytes.

Messages and sums are of float64 where the unaries are, else of float32, and equal the
reference up to that rounding; in bf16's 8 bits sums of many would lose the small ones.

Run under Triton's interpreter only, and compiled for an H100: no rate on a GPU is
claimed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor

from ebmtut.energies import RBM, BoltzmannMachine, PairTerms, PairwiseGraph
from ebmtut.message_passing._pairs import edges_to_sweep

__all__ = ["triton_sweeps"]

# Sites a side of a tile: 32 x 32 pairs keep 56 registers a thread busy, none spilt.
_BLOCK = 32
# Sites and chains that a program of a graph renews.
_SITES, _CHAINS = 4, 64
# Chains go in groups whose messages take no more than this.
_GROUP_BYTES = 2**32


def triton_sweeps(
    model: BoltzmannMachine | PairwiseGraph | RBM,
    terms: PairTerms,
    unaries: Float[Tensor, "n_samples n_sites"],
    messages: Float[Tensor, "n_samples 2 n_pairs"] | None,
    n_sweeps: int,
    damping: float,
    symmetric: bool,
    keep_messages: bool,
) -> tuple[
    Float[Tensor, "n_samples n_sites"], Float[Tensor, "n_samples 2 n_pairs"] | None
]:
    """Do what `compiled_sweeps` does where the unaries lie."""
    dtype = torch.float64 if unaries.dtype == torch.float64 else torch.float32
    keep_all = keep_messages or messages is not None
    edges = edges_to_sweep(model, terms, keep_all=keep_all)
    terms = edges or terms
    half = terms.weight.to(unaries.device, dtype) / 2
    lean = half.new_zeros(unaries.shape[1])
    lean.index_add_(0, terms.first, half).index_add_(0, terms.second, half)
    lanes: _Matrix | _Graph = (
        _Matrix(model, terms, half) if edges is None else _Graph(terms, half)
    )
    size = max(1, _GROUP_BYTES // max(1, lanes.n_bytes))
    start = 0.0 if symmetric else -1 / (1 - damping)
    parts = [
        lanes.sweep(
            unaries[a : a + size].to(dtype) + lean,
            None if messages is None else messages[a : a + size].to(half),
            start,
            n_sweeps,
            damping,
            keep_messages,
        )
        for a in range(0, max(1, len(unaries)), size)
    ]
    found = torch.cat([part for part, _ in parts]).to(unaries)
    ends = [end for _, end in parts if end is not None]
    return found, torch.cat(ends).to(unaries) if keep_messages else None


@triton.jit
def renewed(message, belief, answer, c, height, keep):  # type: ignore[no-untyped-def]
    """Update one S, whose sender has this belief and was answered this."""
    q = belief - c * answer
    return keep * message + tl.minimum(tl.maximum(q, -height), height)


# ---------------------------------------------------------------- matrices: tiles


class Tiles(NamedTuple):
    """Pairs as tiles of rows and columns, every side from a whole block to another.

    Attributes
    ----------
    half
        Half weights, zero where there is no pair.
    slots
        Where in `half` each pair lies.
    row, column
        A tile's blocks of places.
    row_slot, column_slot
        Where its rows, and where its columns, are told what they hear: no two
        tiles tell a place by the same slot.
    sites
        The place of each site of the model.
    n_places, n_slots
        How many there are.
    """

    half: Tensor
    slots: Int64[Tensor, " n_pairs"]
    row: Tensor
    column: Tensor
    row_slot: Tensor
    column_slot: Tensor
    sites: Int64[Tensor, " n_sites"]
    n_places: int
    n_slots: int


def tiles_of(
    model: BoltzmannMachine | PairwiseGraph | RBM,
    terms: PairTerms,
    half: Float[Tensor, " n_pairs"],
    block: int,
) -> Tiles:
    """Lay out the pairs of a matrix: its upper half, or an RBM's hidden x visible."""
    sites = torch.arange(len(terms.bias), device=half.device)
    n_blocks = -(-len(sites) // block)
    if isinstance(model, RBM):
        n_columns = -(-model.n_visible // block)
        sites[model.n_visible :] += n_columns * block - model.n_visible
        n_rows = -(-model.n_hidden // block)
        rows, columns = torch.meshgrid(
            torch.arange(n_rows), torch.arange(n_columns), indexing="ij"
        )
        row, column = rows.flatten() + n_columns, columns.flatten()
        n_blocks, n_slots = n_columns + n_rows, max(n_columns, n_rows)
        row_slot, column_slot = column, rows.flatten()
        row_site, column_site = sites[terms.second], sites[terms.first]
    else:
        row, column = torch.triu_indices(n_blocks, n_blocks)
        # Place block k hears rows' tiles (i, k), i <= k, and columns' (k, j), j >= k.
        n_slots, row_slot, column_slot = n_blocks + 1, column + 1, row
        row_site, column_site = sites[terms.first], sites[terms.second]
    number = torch.zeros(n_blocks, n_blocks, dtype=torch.int64)
    number[row, column] = torch.arange(len(row))
    tile = number.to(half.device)[row_site // block, column_site // block]
    slots = (tile * block + row_site % block) * block + column_site % block
    packed = half.new_zeros(len(row) * block * block)
    packed[slots] = half
    row, column, row_slot, column_slot = (
        x.to(half.device, torch.int32) for x in (row, column, row_slot, column_slot)
    )
    n_places = n_blocks * block
    return Tiles(
        packed, slots, row, column, row_slot, column_slot, sites, n_places, n_slots
    )


class _Matrix:
    """A dense or a bipartite model, tile by tile."""

    def __init__(
        self,
        model: BoltzmannMachine | PairwiseGraph | RBM,
        terms: PairTerms,
        half: Float[Tensor, " n_pairs"],
    ) -> None:
        self.tiles = tiles_of(model, terms, half, _BLOCK)
        self.half = half
        # The kernel's way out, row to column, is an RBM's second to first.
        self.ways = (1, 0) if isinstance(model, RBM) else (0, 1)
        self.n_bytes = 2 * self.tiles.half.numel() * half.element_size()

    def sweep(
        self,
        unaries: Tensor,
        before: Tensor | None,
        start: float,
        n_sweeps: int,
        damping: float,
        keep_messages: bool,
    ) -> tuple[Tensor, Tensor | None]:
        tiles, n_chains = self.tiles, len(unaries)
        numbers = unaries.new_tensor([damping, 1 - damping])
        scale = torch.where(self.half < 0, -numbers[1], numbers[1])
        if before is None:
            out = (start * tiles.half.abs()).repeat(n_chains, 1)
            back = out.clone()
        else:
            shape = (n_chains, tiles.half.numel())
            out, back = unaries.new_zeros(shape), unaries.new_zeros(shape)
            for ways, way in zip((out, back), self.ways, strict=True):
                ways[:, tiles.slots] = (before[:, way] - self.half) / scale
        places = unaries.new_zeros(n_chains, tiles.n_places)
        places[:, tiles.sites] = unaries
        heard = unaries.new_zeros(n_chains, tiles.n_slots, tiles.n_places)
        beliefs = places
        for step in range(n_sweeps + 1):
            tile_sweep[(n_chains * len(tiles.row),)](
                numbers,
                tiles.half,
                out,
                back,
                beliefs,
                heard,
                tiles.row,
                tiles.column,
                tiles.row_slot,
                tiles.column_slot,
                len(tiles.row),
                tiles.n_places,
                tiles.n_slots,
                RENEW=step > 0,
                BLOCK=_BLOCK,
            )
            beliefs = places + heard.sum(1)
        found = beliefs[:, tiles.sites]
        if not keep_messages:
            return found, None
        end = unaries.new_empty(n_chains, 2, len(self.half))
        for ways, way in zip((out, back), self.ways, strict=True):
            end[:, way] = scale * ways[:, tiles.slots] + self.half
        return found, end


@triton.jit
def tile_sweep(  # type: ignore[no-untyped-def]
    numbers,
    half,
    out,
    back,
    beliefs,
    heard,
    row,
    column,
    row_slot,
    column_slot,
    n_tiles,
    n_places,
    n_slots,
    RENEW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Renew the messages of one tile of one chain, and tell their sums.

    numbers are the parts of a message that are kept and new. half (n_tiles, BLOCK,
    BLOCK); out, from rows to columns, and back (n_chains, n_tiles, BLOCK, BLOCK) are
    updated in place. beliefs (n_chains, n_places); heard (n_chains, n_slots,
    n_places) takes what the places hear of this tile. Without RENEW it takes what
    they heard last, and beliefs are not read.
    """
    keep, new = tl.load(numbers), tl.load(numbers + 1)
    chain = (tl.program_id(0) // n_tiles).to(tl.int64)
    tile = tl.program_id(0) % n_tiles
    lane = tl.arange(0, BLOCK)
    rows = tl.load(row + tile) * BLOCK + lane
    columns = tl.load(column + tile) * BLOCK + lane
    inside = lane[:, None] * BLOCK + lane[None, :]
    h = tl.load(half + tile * BLOCK * BLOCK + inside)
    c, height = tl.where(h < 0, -new, new), tl.abs(h)
    at = (chain * n_tiles + tile) * BLOCK * BLOCK + inside
    to_column, to_row = tl.load(out + at), tl.load(back + at)
    first = chain * n_slots * n_places
    if RENEW:
        p = tl.load(beliefs + chain * n_places + rows)
        q = tl.load(beliefs + chain * n_places + columns)
        old = to_column
        to_column = renewed(old, p[:, None], to_row, c, height, keep)
        to_row = renewed(to_row, q[None, :], old, c, height, keep)
        tl.store(out + at, to_column)
        tl.store(back + at, to_row)
    slot = tl.load(column_slot + tile)
    tl.store(heard + first + slot * n_places + columns, tl.sum(c * to_column, 0))
    slot = tl.load(row_slot + tile)
    tl.store(heard + first + slot * n_places + rows, tl.sum(c * to_row, 1))


# ---------------------------------------------------------- graphs: blocks of sites


class _Graph:
    """A list of edges, each of them twice, by the site that speaks."""

    def __init__(self, terms: PairTerms, half: Float[Tensor, " n_pairs"]) -> None:
        speaker = torch.cat([terms.first, terms.second])
        order = torch.argsort(speaker, stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        n_pairs = len(half)
        self.slots = place.view(2, n_pairs)
        degree = torch.bincount(speaker, minlength=len(terms.bias))
        self.width = int(degree.max()) if len(degree) else 0
        ends = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
        self.start = ends.to(torch.int32)
        self.answer = place.roll(n_pairs)[order].to(torch.int32)
        self.half = half.repeat(2)[order]
        # Two arrays of messages, and two of them a pair.
        self.n_bytes = 4 * n_pairs * half.element_size()

    def sweep(
        self,
        unaries: Tensor,
        before: Tensor | None,
        start: float,
        n_sweeps: int,
        damping: float,
        keep_messages: bool,
    ) -> tuple[Tensor, Tensor | None]:
        n_chains, n_sites = unaries.shape
        numbers = unaries.new_tensor([damping, 1 - damping])
        half = self.half[:, None]
        scale = torch.where(half < 0, -numbers[1], numbers[1])
        if before is None:
            old = (start * half.abs()).repeat(1, n_chains)
        else:
            old = torch.empty(len(half), n_chains).to(unaries)
            old[self.slots.flatten()] = before.flatten(1).T
            old = (old - half) / scale
        fields, beliefs = unaries.T.contiguous(), torch.empty_like(unaries.T)
        beliefs = beliefs.contiguous()
        new = torch.empty_like(old)
        grid = (triton.cdiv(n_sites, _SITES), triton.cdiv(n_chains, _CHAINS))
        for step in range(n_sweeps + 1):
            site_sweep[grid](
                numbers,
                self.start,
                self.answer,
                self.half,
                fields,
                old,
                new,
                beliefs,
                n_sites,
                n_chains,
                self.width,
                RENEW=step < n_sweeps,
                SITES=_SITES,
                CHAINS=_CHAINS,
            )
            if step < n_sweeps:
                old, new = new, old
        if not keep_messages:
            return beliefs.T, None
        kept = (scale * old + half)[self.slots.flatten()].T
        return beliefs.T, kept.reshape(n_chains, 2, -1)


@triton.jit
def site_sweep(  # type: ignore[no-untyped-def]
    numbers,
    start,
    answer,
    half,
    unaries,
    before,
    after,
    beliefs,
    n_sites,
    n_chains,
    width,
    RENEW: tl.constexpr,
    SITES: tl.constexpr,
    CHAINS: tl.constexpr,
):
    """Renew all that a block of sites says in some chains; or note its beliefs.

    numbers as above. Entries start[i] to start[i + 1], at most width, are what site
    i says; answer is the entry that comes back. half (n_entries,), unaries and
    beliefs (n_sites, n_chains), before and after (n_entries, n_chains).
    """
    keep, new = tl.load(numbers), tl.load(numbers + 1)
    site = tl.program_id(0) * SITES + tl.arange(0, SITES)
    chain = tl.program_id(1) * CHAINS + tl.arange(0, CHAINS)
    site_there, chain_there = site < n_sites, (chain < n_chains)[None, :]
    first = tl.load(start + site, mask=site_there, other=0)
    degree = tl.load(start + site + 1, mask=site_there, other=0) - first
    here = site.to(tl.int64)[:, None] * n_chains + chain[None, :]
    there = site_there[:, None] & chain_there
    p = tl.load(unaries + here, mask=there, other=0.0)
    for k in range(width):
        some = k < degree
        entry = tl.load(answer + first + k, mask=some, other=0).to(tl.int64)
        h = tl.load(half + first + k, mask=some, other=0.0)[:, None]
        at, both = (
            entry[:, None] * n_chains + chain[None, :],
            some[:, None] & chain_there,
        )
        c = tl.where(h < 0, -new, new)
        p += c * tl.load(before + at, mask=both, other=0.0)
    if RENEW:
        for k in range(width):
            some = k < degree
            entry = tl.load(answer + first + k, mask=some, other=0).to(tl.int64)
            h = tl.load(half + first + k, mask=some, other=0.0)[:, None]
            at = entry[:, None] * n_chains + chain[None, :]
            both = some[:, None] & chain_there
            c = tl.where(h < 0, -new, new)
            reply = tl.load(before + at, mask=both, other=0.0)
            at = (first + k).to(tl.int64)[:, None] * n_chains + chain[None, :]
            message = tl.load(before + at, mask=both, other=0.0)
            said = renewed(message, p, reply, c, tl.abs(h), keep)
            tl.store(after + at, said, mask=both)
    else:
        tl.store(beliefs + here, p, mask=there)
