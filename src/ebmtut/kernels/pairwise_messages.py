"""Compiled max-product sweeps of pairwise models, on the CPU, in threads.

The reference is `ebmtut.message_passing.max_product_reference`. Let d be the damping.
Matrices are swept chain by chain, whose messages stay in the cache. A message N is kept
as Y = (N - w) / (1 - d), for then::

    r = belief - (1 - d) Y_back           all that the sender hears but this, + w
    Y <- d Y + max(r, 0) - max(r, w).

On sparse graphs chains are innermost. With h = w / 2, a message is kept there as
S = (N - h) / c, c = (1 - d) sgn(h), for then::

    q = belief - c S_back                 all that the sender hears but this, + h
    S <- d S + min(max(q, -|h|), |h|),

as max(0, q + h) - max(0, q - h) - h = sgn(h) min(max(q, -|h|), |h|). This takes one
operation less for each message, but two or three more for each weight.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import in_threads, inlined_fused, inlined_reordered, reordered
from ebmtut.energies import RBM, BoltzmannMachine, PairTerms, PairwiseGraph
from ebmtut.kernels.pairs import edges_to_sweep
from ebmtut.kernels.tiles import larger

# float32 numbers in a line of the cache, which is the widest vector, too.
_LANES = 16


def compiled_sweeps(
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
    """Sweep as fits the kind of the model, its samples spread over threads.

    From messages, or from w / 2 or 0. Returns beliefs and, if kept, messages.
    """
    dtype = torch.float64 if unaries.dtype == torch.float64 else torch.float32
    keep_all = keep_messages or messages is not None
    edges = edges_to_sweep(model, terms, keep_all=keep_all)
    terms = edges or terms
    before = None if messages is None else messages.to(dtype)
    task = (unaries.to(dtype), before, n_sweeps, damping)
    if edges is not None or isinstance(model, PairwiseGraph):
        found, final = _sweep_edges(terms, *task, symmetric, keep_messages)
    else:
        found, final = _sweep_matrix(model, terms, *task, symmetric, keep_messages)
    return found.to(unaries), None if final is None else final.to(unaries)


# ------------------------------------------------------------- matrices: rows of pairs


class Rows(NamedTuple):
    """Pairs as rows of columns, every row from a multiple of 16 to another.

    Attributes
    ----------
    weight
        Weights, row after row, zero where there is no pair.
    lean
        The sum of each place's weights.
    begin, place, sites
        The column of a row's first pair; its place, after the columns'; each site's
        place.
    n_filled, n_columns
        Columns that are sites, and columns with what fills up the last line.
    """

    weight: Float[np.ndarray, " n_slots"]
    lean: Float[np.ndarray, " n"]
    begin: Int64[np.ndarray, " n_rows"]
    place: Int64[np.ndarray, " n_rows"]
    n_filled: int
    n_columns: int
    sites: Int64[Tensor, " n_sites"]


def rows_of(
    model: BoltzmannMachine | RBM, terms: PairTerms, dtype: torch.dtype
) -> Rows:
    """Lay out the pairs of a matrix, in the order of its terms.

    A Boltzmann machine's row i has the columns j > i; an RBM's rows are its hidden
    units.
    """
    sites = torch.arange(len(terms.bias), device="cpu")
    if isinstance(model, RBM):
        n_columns = _filled_up(model.n_visible)
        sites[model.n_visible :] += n_columns - model.n_visible
        n_filled, place = model.n_visible, sites[model.n_visible :]
        begin = torch.zeros_like(place)
    else:
        n_columns, n_filled, place = _filled_up(len(sites)), len(sites), sites
        begin = sites + 1
    n_places = max(n_columns, int(sites[-1]) + 1)
    n_slots = int((n_columns - begin // _LANES * _LANES).sum())
    weight = terms.weight.to(dtype).numpy()
    laid_out = _zeros_on_lines((n_slots,), weight.dtype.type)
    lean = np.zeros(n_places, weight.dtype)
    rows = begin.numpy(), place.numpy()
    lay_out(weight, *rows, n_filled, n_columns, laid_out, lean)
    return Rows(laid_out, lean, *rows, n_filled, n_columns, sites)


@reordered
def lay_out(  # type: ignore[no-untyped-def]
    pairs, begin, place, n_filled, n_columns, weight, lean
):
    """Fill ``weight`` and ``lean``, which are zero, as `Rows` has them."""
    e = at = 0
    for r in range(len(begin)):
        first = begin[r] // _LANES * _LANES
        pair, row, heard = e - begin[r], at - first, weight.dtype.type(0)
        for column in range(begin[r], n_filled):
            # Unsigned indices spare a test for negative ones.
            k, i = np.uint64(column), np.uint64(row + column)
            w = pairs[np.uint64(pair + column)]
            weight[i] = w
            lean[k] += w
            heard += w
        lean[place[r]] += heard
        e += n_filled - begin[r]
        at += n_columns - first


def _filled_up(n: int) -> int:
    """Round n up to whole lines."""
    return -(-n // _LANES) * _LANES


def _sweep_matrix(
    model: BoltzmannMachine | RBM,
    terms: PairTerms,
    unaries: Tensor,
    before: Tensor | None,
    n_sweeps: int,
    damping: float,
    symmetric: bool,
    keep_messages: bool,
) -> tuple[Tensor, Tensor | None]:
    """Sweep a dense or a bipartite model."""
    rows = rows_of(model, terms, unaries.dtype)
    places = torch.from_numpy(rows.lean).repeat(len(unaries), 1)
    # The kernel keeps N - w, and so each site hears all its weights anyway.
    places[:, rows.sites] += unaries
    none = unaries.new_empty(0, 2, len(terms.weight))
    start = none if before is None else before.contiguous()
    end = none
    if keep_messages:
        end = unaries.new_empty(len(unaries), 2, len(terms.weight))
    found = torch.empty_like(places)
    number = places.numpy().dtype.type
    arrays = [x.numpy() for x in (places, found, start, end)]

    def work(part: slice) -> None:
        row_sweeps(
            rows.weight,
            *_zeros_on_lines((2, len(rows.weight)), number),
            *_zeros_on_lines((2, _filled_up(rows.lean.size)), number),
            rows.begin,
            rows.place,
            rows.n_filled,
            rows.n_columns,
            *(array[part] for array in arrays),
            int(isinstance(model, RBM)),  # whose pairs are (column, row)
            number((-0.5 if symmetric else -1) / (1 - damping)),
            n_sweeps,
            number(damping),
            number(1 - damping),
        )

    in_threads(work, len(unaries), len(unaries) * n_sweeps * rows.weight.size)
    return found[:, rows.sites], end if keep_messages else None


@inlined_fused
def renewed_in_row(message, belief, answer, weight, keep, new):  # type: ignore[no-untyped-def]
    """Update one Y, whose sender has this belief and was answered this."""
    r = belief - new * answer
    # In this order a Y that decays is soon exactly zero and never denormal, which would
    # take long.
    return (keep * message + larger(r, type(r)(0))) - larger(r, weight)


@reordered
def row_sweeps(  # type: ignore[no-untyped-def]
    weight,
    out,
    back,
    p,
    sums,
    begin,
    place,
    n_filled,
    n_columns,
    unaries,
    belief,
    before,
    after,
    way,
    start,
    n_sweeps,
    keep,
    new,
):
    """Sweep all pairs of rows and columns, one chain after the other.

    ``unaries`` (n_chains, n_places), the columns' first, include the sum of a site's
    weights; ``belief`` is filled. ``out`` and ``back`` are zeros like ``weight``.
    ``before`` (n_chains, 2, n_pairs) are the N to start from; if there are none, all
    start at Y = ``start`` w. ``after`` takes the last N. ``keep`` = d and ``new`` = 1
    - d.
    """
    n_chains, n_places = unaries.shape
    first = begin // _LANES * _LANES
    for chain in range(n_chains):
        if len(before):
            e = at = 0
            for r in range(len(first)):
                for slot in range(at + begin[r] - first[r], at + n_filled - first[r]):
                    out[slot] = (before[chain, way, e] - weight[slot]) / new
                    back[slot] = (before[chain, 1 - way, e] - weight[slot]) / new
                    e += 1
                at += n_columns - first[r]
        else:
            for e in range(weight.size):
                out[e] = back[e] = start * weight[e]
        # Sums of Y: a belief is its unary and 1 - d of them.
        sums[:] = 0
        at = 0
        for r in range(len(first)):
            heard, row = weight.dtype.type(0), at - first[r]
            for column in range(first[r], n_columns):
                k, i = np.uint64(column), np.uint64(row + column)
                sums[k] += out[i]
                heard += back[i]
            sums[place[r]] += heard
            at += n_columns - first[r]
        for _ in range(n_sweeps):
            for site in range(n_places):
                p[site] = unaries[chain, site] + new * sums[site]
            sums[:] = 0
            at = 0
            for r in range(len(first)):
                p_row, heard, row = p[place[r]], weight.dtype.type(0), at - first[r]
                for column in range(first[r], n_columns):
                    k, i = np.uint64(column), np.uint64(row + column)
                    w = weight[i]
                    to_column = renewed_in_row(out[i], p_row, back[i], w, keep, new)
                    to_row = renewed_in_row(back[i], p[k], out[i], w, keep, new)
                    out[i], back[i] = to_column, to_row
                    sums[k] += to_column
                    heard += to_row
                sums[place[r]] += heard
                at += n_columns - first[r]
        for site in range(n_places):
            belief[chain, site] = unaries[chain, site] + new * sums[site]
        if len(after):
            e = at = 0
            for r in range(len(first)):
                for slot in range(at + begin[r] - first[r], at + n_filled - first[r]):
                    after[chain, way, e] = new * out[slot] + weight[slot]
                    after[chain, 1 - way, e] = new * back[slot] + weight[slot]
                    e += 1
                at += n_columns - first[r]


# ----------------------------------------------------------- graphs: a list of edges


def _sweep_edges(
    terms: PairTerms,
    unaries: Tensor,
    before: Tensor | None,
    n_sweeps: int,
    damping: float,
    symmetric: bool,
    keep_messages: bool,
) -> tuple[Tensor, Tensor | None]:
    """Sweep the edges of a graph, as `_sweep_matrix` does a matrix."""
    halves = terms.weight.to(unaries.dtype) / 2
    lean = terms.at_sites(halves)
    given, half = (unaries + lean).numpy(), halves.numpy()[:, None]
    number = given.dtype.type
    scale = np.copysign(number(1 - damping), half)
    first, second = terms.first.numpy(), terms.second.numpy()
    known = None if before is None else before.numpy()
    end = np.empty((len(given), 2, len(half)), number) if keep_messages else None
    found = np.empty_like(given)

    def work(part: slice) -> None:
        # Filled up to whole lines, for what is left of a vector goes chain by chain.
        n = len(given[part])
        width = _filled_up(n)
        sites = _zeros_on_lines((3, given.shape[1], width), number)
        u = sites[0]
        u[:, :n] = given[part].T
        ways = _zeros_on_lines((2, len(half), width), number)
        if known is not None:
            ways[:, :, :n] = (known[part].transpose(1, 2, 0) - half) / scale
        elif not symmetric:
            ways[:] = -half / scale
        out, back = ways
        beliefs = sparse_sweeps(
            first,
            second,
            half[:, 0],
            u,
            *sites[1:],
            out,
            back,
            n_sweeps,
            number(damping),
            number(1 - damping),
        )
        found[part] = beliefs[:, :n].T
        if end is not None:
            end[part, 0] = (scale * out[:, :n] + half).T
            end[part, 1] = (scale * back[:, :n] + half).T

    in_threads(work, len(given), len(given) * n_sweeps * len(half))
    return torch.from_numpy(found), None if end is None else torch.from_numpy(end)


def _zeros_on_lines(shape: tuple[int, ...], number: type) -> NDArray[Any]:
    """Zeros that start where a line of the cache does, as numpy's own do not."""
    size, line = math.prod(shape), _LANES * np.dtype(number).itemsize
    room: NDArray[Any] = np.zeros(size + _LANES, number)
    skipped = -room.ctypes.data % line // room.itemsize
    return room[skipped : skipped + size].reshape(shape)


@inlined_reordered
def renewed(message, belief, answer, c, height, keep):  # type: ignore[no-untyped-def]
    """Update one S, whose sender has this belief and was answered this."""
    q = belief - c * answer
    q = q if q < height else height
    q = q if q > -height else -height
    return keep * message + q


@reordered
def sparse_sweeps(  # type: ignore[no-untyped-def]
    first, second, half, unaries, belief, p, out, back, n_sweeps, keep, new
):
    """Sweep the edges of a graph, all chains at once.

    ``unaries`` are (n_sites, n_chains), ``belief`` and ``p`` room for as many, the S
    ``out`` and ``back`` (n_edges, n_chains). Returns the beliefs, in one room or the
    other.
    """
    n_chains = unaries.shape[1]
    # Chain by chain throughout: belief[:] = unaries and the like took a third of all.
    for site in range(len(p)):
        belief_site, unary = belief[site], unaries[site]
        for chain in range(n_chains):
            belief_site[chain] = unary[chain]
    for e in range(half.size):
        c = math.copysign(new, half[e])
        to_first, to_second = belief[first[e]], belief[second[e]]
        out_e, back_e = out[e], back[e]
        for chain in range(n_chains):
            to_second[chain] += c * out_e[chain]
            to_first[chain] += c * back_e[chain]
    for _ in range(n_sweeps):
        p, belief = belief, p
        for site in range(len(p)):
            belief_site, unary = belief[site], unaries[site]
            for chain in range(n_chains):
                belief_site[chain] = unary[chain]
        for e in range(half.size):
            c, height = math.copysign(new, half[e]), abs(half[e])
            p_first, p_second = p[first[e]], p[second[e]]
            to_first, to_second = belief[first[e]], belief[second[e]]
            out_e, back_e = out[e], back[e]
            for chain in range(n_chains):
                a, b = out_e[chain], back_e[chain]
                new_a = renewed(a, p_first[chain], b, c, height, keep)
                new_b = renewed(b, p_second[chain], a, c, height, keep)
                out_e[chain], back_e[chain] = new_a, new_b
                to_second[chain] += c * new_a
                to_first[chain] += c * new_b
    return belief
