"""Max-product sweeps of pairwise models on the GPU, in Triton.

The reference is `ebmtut.message_passing.max_product_reference`. Messages N are kept as
N - h, for half weights h: a site says its belief less the answer, clipped at |h|.
Matrices are cut into square tiles; the sums need no atomic addition, so that the same
call gives the same bits. A small graph is swept by one program a chain, all sweeps in
one launch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor

from ebmtut._gpu import repeat
from ebmtut.energies import RBM, BoltzmannMachine, PairTerms, PairwiseGraph
from ebmtut.kernels.pairs import edges_to_sweep

# Sites a side of a tile: 32 x 32 pairs keep a thread's registers busy, none spilt.
_BLOCK = 32
# A graph of at most so many messages a chain, that is 128 kB of float32 in two arrays,
# is swept by one program a chain, of so many warps.
SMALL, _WARPS = 2**14, 8
# Chains of a program of a larger graph, and places of sites in chains.
_CHAINS, _PLACES = 64, 512
# A GPU takes no longer a grid along its second axis; programs then do several blocks.
_MOST = 65535
# Chains go in groups whose messages take so much memory. Groups that fit into the
# level-2 cache are slower: 230 messages per ns where all chains at once have 390 (1800
# sites, 100 chains, H200).
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
    half = terms.weight.detach().to(unaries.device, dtype) / 2
    lean = terms.at_sites(half)
    lanes: _Matrix | _Graph = (
        _Matrix(model, terms, half) if edges is None else _Graph(terms, half)
    )
    bytes_of_chain = 2 * lanes.n_messages * half.element_size()  # two arrays of them
    size = max(1, _GROUP_BYTES // max(1, bytes_of_chain))
    with torch.cuda.device_of(unaries):
        parts = [
            lanes.sweep(
                unaries[a : a + size].detach().to(dtype) + lean,
                None if messages is None else messages[a : a + size].detach().to(half),
                symmetric,
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
def renewed(message, belief, answer, h, keep, new):  # type: ignore[no-untyped-def]
    """Update one N - h, whose sender has this belief and was answered this."""
    height = tl.abs(h)
    clipped = tl.minimum(tl.maximum(belief - answer, -height), height)
    return keep * message + tl.where(h < 0, -new, new) * clipped


# ---------------------------------------------------------------- matrices: tiles


class Tiles(NamedTuple):
    """Pairs as tiles of rows and columns, every side from a whole block to another.

    Attributes
    ----------
    half, slots
        Half weights, zero where there is no pair, and where each pair lies.
    row, column, row_slot, column_slot
        A tile's blocks of places, and slots where they are told what they hear.
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
            torch.arange(n_rows, device="cpu"),
            torch.arange(n_columns, device="cpu"),
            indexing="ij",
        )
        row, column = rows.flatten() + n_columns, columns.flatten()
        n_blocks, n_slots = n_columns + n_rows, 1 + max(n_columns, n_rows)
        row_slot, column_slot = column + 1, rows.flatten() + 1
        row_site, column_site = sites[terms.second], sites[terms.first]
    else:
        row, column = torch.triu_indices(n_blocks, n_blocks, device="cpu")
        # Place block k hears rows' tiles (i, k), i <= k, and columns' (k, j), j >= k.
        n_slots, row_slot, column_slot = n_blocks + 2, column + 2, row + 1
        row_site, column_site = sites[terms.first], sites[terms.second]
    number = torch.zeros(n_blocks, n_blocks, dtype=torch.int64, device="cpu")
    number[row, column] = torch.arange(len(row), device="cpu")
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
        self.n_messages = self.tiles.half.numel()
        # The kernel's way out, row to column, is an RBM's second to first.
        self.ways = (1, 0) if isinstance(model, RBM) else (0, 1)

    def sweep(
        self,
        unaries: Tensor,
        before: Tensor | None,
        symmetric: bool,
        n_sweeps: int,
        damping: float,
        keep_messages: bool,
    ) -> tuple[Tensor, Tensor | None]:
        tiles, n_chains = self.tiles, len(unaries)
        numbers = unaries.new_tensor([damping, 1 - damping])
        shape = (n_chains, tiles.half.numel())
        out, back = unaries.new_zeros(shape), unaries.new_zeros(shape)
        if before is not None:
            for ways, way in zip((out, back), self.ways, strict=True):
                ways[:, tiles.slots] = before[:, way] - self.half
        elif not symmetric:
            for ways in (out, back):
                ways -= tiles.half
        # What places hear, and before it what they are told by nobody.
        heard = unaries.new_zeros(n_chains, tiles.n_slots, tiles.n_places)
        heard[:, 0, tiles.sites] = unaries
        beliefs = unaries.new_empty(n_chains, tiles.n_places)

        def launch(renew: bool = True) -> None:
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
                RENEW=renew,
                BLOCK=_BLOCK,
            )
            torch.sum(heard, 1, out=beliefs)

        launch(renew=False)
        repeat(launch, n_sweeps, unaries.device)
        found = beliefs[:, tiles.sites]
        if not keep_messages:
            return found, None
        end = unaries.new_empty(n_chains, 2, len(self.half))
        for ways, way in zip((out, back), self.ways, strict=True):
            end[:, way] = ways[:, tiles.slots] + self.half
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
    BLOCK); out and back (n_chains, n_tiles, BLOCK, BLOCK) are updated in place. heard
    (n_chains, n_slots, n_places) takes the sums. Without RENEW beliefs are not read.
    """
    keep, new = tl.load(numbers), tl.load(numbers + 1)
    chain = (tl.program_id(0) // n_tiles).to(tl.int64)
    tile = tl.program_id(0) % n_tiles
    lane = tl.arange(0, BLOCK)
    rows = tl.load(row + tile) * BLOCK + lane
    columns = tl.load(column + tile) * BLOCK + lane
    inside = lane[:, None] * BLOCK + lane[None, :]
    h = tl.load(half + tile * BLOCK * BLOCK + inside)
    at = (chain * n_tiles + tile) * BLOCK * BLOCK + inside
    to_column, to_row = tl.load(out + at), tl.load(back + at)
    first = chain * n_slots * n_places
    if RENEW:
        p = tl.load(beliefs + chain * n_places + rows)
        q = tl.load(beliefs + chain * n_places + columns)
        old = to_column
        to_column = renewed(old, p[:, None], to_row, h, keep, new)
        to_row = renewed(to_row, q[None, :], old, h, keep, new)
        tl.store(out + at, to_column)
        tl.store(back + at, to_row)
    slot = tl.load(column_slot + tile)
    tl.store(heard + first + slot * n_places + columns, tl.sum(to_column, 0))
    slot = tl.load(row_slot + tile)
    tl.store(heard + first + slot * n_places + rows, tl.sum(to_row, 1))


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
        self.order, self.n_messages = order, len(order)
        self.alone = len(order) <= SMALL

    def sweep(
        self,
        unaries: Tensor,
        before: Tensor | None,
        symmetric: bool,
        n_sweeps: int,
        damping: float,
        keep_messages: bool,
    ) -> tuple[Tensor, Tensor | None]:
        n_chains, n_sites = unaries.shape
        numbers = unaries.new_tensor([damping, 1 - damping])
        if before is not None:
            first = before.flatten(1)[:, self.order] - self.half
        else:
            first = (0.0 if symmetric else -1.0) * self.half.expand(n_chains, -1)
        if self.alone:
            n_lanes, chains, sites = n_chains, 1, 32 * _WARPS
            fields, messages = unaries.contiguous(), torch.stack([first, first])
        else:
            # Rows of memory that begin at a multiple of 16 are read four at a time.
            n_lanes = n_chains + -n_chains % 16
            chains = min(_CHAINS, triton.next_power_of_2(n_lanes))
            sites = max(1, _PLACES // chains)
            fields = unaries.new_zeros(n_sites, n_lanes)
            fields[:, :n_chains] = unaries.T
            messages = unaries.new_zeros(2, len(self.order), n_lanes)
            messages[0, :, :n_chains] = first.T
        beliefs = torch.empty_like(fields)
        n_blocks = 1 if self.alone else min(_MOST, triton.cdiv(n_sites, sites))

        def launch(k: int, n: int, note: bool) -> None:
            """Do n sweeps, from one half of the messages to the other; then note."""
            site_sweep[(triton.cdiv(n_lanes, chains), n_blocks)](
                numbers,
                self.start,
                self.answer,
                self.half,
                fields,
                messages[k],
                messages[1 - k],
                beliefs,
                n,
                n + note,
                n_sites,
                len(self.order),
                n_lanes,
                self.width,
                ALONE=self.alone,
                SITES=sites,
                CHAINS=chains,
                num_warps=_WARPS if self.alone else 4,
            )

        def two_sweeps() -> None:
            launch(0, 1, False)
            launch(1, 1, False)

        if self.alone:
            launch(0, n_sweeps, True)
        else:
            repeat(two_sweeps, n_sweeps // 2, unaries.device)
            if n_sweeps % 2:
                launch(0, 1, False)
            launch(n_sweeps % 2, 0, True)
        last = messages[n_sweeps % 2]
        if not self.alone:
            beliefs, last = beliefs[:, :n_chains].T, last[:, :n_chains].T
        if not keep_messages:
            return beliefs, None
        kept = (last + self.half)[:, self.slots.flatten()]
        return beliefs, kept.reshape(n_chains, 2, -1)


@triton.jit
def places(entry, chain, n_chains, ALONE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return where some entries lie in some chains, or in the chain of a program."""
    if ALONE:
        at = entry[:, None]
    else:
        at = entry.to(tl.int64)[:, None] * n_chains + chain[None, :]
    return at


@triton.jit(do_not_specialize=["n_sweeps", "n_steps"])
def site_sweep(  # type: ignore[no-untyped-def]
    numbers,
    start,
    answer,
    half,
    unaries,
    before,
    after,
    beliefs,
    n_sweeps,
    n_steps,
    n_sites,
    n_entries,
    n_chains,
    width,
    ALONE: tl.constexpr,
    SITES: tl.constexpr,
    CHAINS: tl.constexpr,
):
    """Renew all that some sites say in some chains, sweep after sweep.

    Entries start[i] to start[i + 1], at most width, are what site i says; answer is the
    entry that comes back. unaries and beliefs (n_sites, n_chains), before and after
    (n_entries, n_chains) change places from step to step. Where a program is ALONE with
    one chain, chains come before sites, and it may do more than one step. A step after
    n_sweeps notes the beliefs.
    """
    keep, new = tl.load(numbers), tl.load(numbers + 1)
    chain = tl.program_id(0) * CHAINS + tl.arange(0, CHAINS)
    chain_there = (chain < n_chains)[None, :]
    if ALONE:
        one = tl.program_id(0).to(tl.int64)
        unaries += one * n_sites
        beliefs += one * n_sites
        before += one * n_entries
        after += one * n_entries
    for step in range(n_steps):
        begin = tl.program_id(1) * SITES
        for block in range(begin, n_sites, tl.num_programs(1) * SITES):
            site = block + tl.arange(0, SITES)
            site_there = site < n_sites
            first = tl.load(start + site, mask=site_there, other=0)
            degree = tl.load(start + site + 1, mask=site_there, other=0) - first
            here = places(site, chain, n_chains, ALONE)
            there = site_there[:, None] & chain_there
            p = tl.load(unaries + here, mask=there, other=0.0)
            for k in range(width):
                some = k < degree
                entry = tl.load(answer + first + k, mask=some, other=0)
                at = places(entry, chain, n_chains, ALONE)
                both = some[:, None] & chain_there
                p += tl.load(before + at, mask=both, other=0.0)
            if step < n_sweeps:
                for k in range(width):
                    some = k < degree
                    entry = tl.load(answer + first + k, mask=some, other=0)
                    h = tl.load(half + first + k, mask=some, other=0.0)[:, None]
                    both = some[:, None] & chain_there
                    at = places(entry, chain, n_chains, ALONE)
                    reply = tl.load(before + at, mask=both, other=0.0)
                    at = places(first + k, chain, n_chains, ALONE)
                    message = tl.load(before + at, mask=both, other=0.0)
                    said = renewed(message, p, reply, h, keep, new)
                    tl.store(after + at, said, mask=both)
            else:
                tl.store(beliefs + here, p, mask=there)
        tl.debug_barrier()
        before, after = after, before
