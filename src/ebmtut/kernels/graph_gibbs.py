"""Compiled Gibbs sweeps of Boltzmann machines on sparse graphs, in single precision.

``chain_sweeps`` resamples one site of 64 chains at once, so that a site's neighbours
are read side by side; ``site_sweeps`` serves few chains, and resamples 64 sites of one
colour at once. A probability below 3e-8 counts as zero.
"""

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import compiled, inlined, sweep_in_threads
from ebmtut.energies import PairwiseGraph
from ebmtut.kernels.xoshiro import xoshiro_next, xoshiro_states

LANES = 64  # sites or chains that are redrawn side by side
STREAMS = 32  # of random numbers; each draw gives two uniform numbers of 24 bits

_LOG2_E = np.float32(1.4426950408889634)
_FARTHEST = np.float32(126.0)  # 2^126 is finite
_ROUND = np.float32(1.5 * 2**23)  # adding it leaves the nearest integer
# Taylor's coefficients of 2^r, |r| <= 1/2: the next one is below 2e-7.
_C = tuple(
    np.float32(c)
    for c in (
        0.6931471805599453,
        0.2402265069591007,
        0.05550410866482158,
        0.009618129107628477,
        0.0013333558146428443,
        0.00015403530393381606,
    )
)
_C1, _C2, _C3, _C4, _C5, _C6 = _C


@compiled
def _load(work, streams):  # type: ignore[no-untyped-def]
    for part in range(4):
        for lane in range(STREAMS):
            work[part * STREAMS + lane] = streams[lane, part]


@compiled
def _store(work, streams):  # type: ignore[no-untyped-def]
    for part in range(4):
        for lane in range(STREAMS):
            streams[lane, part] = work[part * STREAMS + lane]


@inlined
def _draw(work):  # type: ignore[no-untyped-def]
    """Advance all streams; their draws stand behind their states."""
    for lane in range(STREAMS):
        draw, s0, s1, s2, s3 = xoshiro_next(
            work[lane],
            work[STREAMS + lane],
            work[2 * STREAMS + lane],
            work[3 * STREAMS + lane],
        )
        work[lane] = s0
        work[STREAMS + lane] = s1
        work[2 * STREAMS + lane] = s2
        work[3 * STREAMS + lane] = s3
        work[4 * STREAMS + lane] = draw


@inlined
def _settle(field, draws, states, at):  # type: ignore[no-untyped-def]
    """Write bits that are 1 with probability 1 / (1 + exp(-field)), from ``at`` on."""
    for lane in range(np.uint64(field.size)):
        whole = np.int32(draws[lane] >> np.uint32(8))
        uniform = (np.float32(whole) + np.float32(0.5)) * np.float32(2.0**-24)
        power = -field[lane] * _LOG2_E
        power = power if power < _FARTHEST else _FARTHEST
        power = power if power > -_FARTHEST else -_FARTHEST
        nearest = (power + _ROUND) - _ROUND
        r = power - nearest
        mantissa = ((((_C6 * r + _C5) * r + _C4) * r + _C3) * r + _C2) * r + _C1
        exponent = np.int32((np.int32(nearest) + np.int32(127)) << np.int32(23))
        exp = (mantissa * r + np.float32(1)) * exponent.view(np.float32)
        settled = uniform + uniform * exp < np.float32(1)
        states[at + lane] = 1 if settled else 0


# The compiler makes wide registers of loops over lanes whose number it does not know;
# the others it writes out, number by number. Unsigned indices spare a test for
# negative ones, and one flat array a view, and a count of references, a neighbour.


@compiled
def chain_sweeps(x, order, start, neighbor, weight, bias, streams, n_sweeps):  # type: ignore[no-untyped-def]
    """Sweep 64 chains a group over all sites, in the order given.

    x (n_groups, n_sites, LANES) in bytes and streams (n_groups, STREAMS, 4) are updated
    in place. Neighbours of site i and their weights are entries start[i] to start[i +
    1]; indices are uint32.
    """
    zero = np.float32(0)
    n_lanes, one, two = np.uint64(x.shape[2]), np.uint64(1), np.uint64(2)
    work = np.empty(5 * STREAMS, dtype=np.uint64)
    draws = work[4 * STREAMS :].view(np.uint32)
    field = np.empty(n_lanes, dtype=np.float32)
    for group in range(x.shape[0]):
        states = x[group].ravel()
        _load(work, streams[group])
        for _ in range(n_sweeps):
            for site in order:
                here = bias[site]
                for lane in range(n_lanes):
                    field[lane] = here
                k, end = np.uint64(start[site]), np.uint64(start[site + one])
                while k + two <= end:  # in pairs, to write the fields half as often
                    i = np.uint64(neighbor[k]) * n_lanes
                    j = np.uint64(neighbor[k + one]) * n_lanes
                    v, w = weight[k], weight[k + one]
                    for lane in range(n_lanes):
                        one_more = field[lane] + (v if states[i + lane] else zero)
                        field[lane] = one_more + (w if states[j + lane] else zero)
                    k += two
                if k < end:
                    i, w = np.uint64(neighbor[k]) * n_lanes, weight[k]
                    for lane in range(n_lanes):
                        field[lane] += w if states[i + lane] else zero
                _draw(work)
                _settle(field, draws, states, np.uint64(site) * n_lanes)
        _store(work, streams[group])


@compiled
def site_sweeps(x, start, neighbor, weight, bias, streams, n_sweeps):  # type: ignore[no-untyped-def]
    """Sweep chains over blocks of 64 sites, none of which is another's neighbour.

    x (n_chains, n_blocks * LANES) and streams (n_chains, STREAMS, 4) are updated in
    place. Rows start[b] to start[b + 1] of neighbor and weight, (n_rows, LANES), belong
    to block b, each with one more neighbour of its sites, of weight 0 where there is
    none.
    """
    n_lanes = np.uint64(weight.shape[1])
    work = np.empty(5 * STREAMS, dtype=np.uint64)
    draws = work[4 * STREAMS :].view(np.uint32)
    field = np.empty(n_lanes, dtype=np.float32)
    for chain in range(x.shape[0]):
        states = x[chain]
        _load(work, streams[chain])
        for _ in range(n_sweeps):
            for block in range(np.uint64(start.shape[0] - 1)):
                here = block * n_lanes
                for lane in range(n_lanes):
                    field[lane] = bias[here + lane]
                for k in range(start[block], start[block + np.uint64(1)]):
                    for lane in range(n_lanes):
                        field[lane] += weight[k, lane] * states[neighbor[k, lane]]
                _draw(work)
                _settle(field, draws, states, here)
        _store(work, streams[chain])


def graph_gibbs(
    model: PairwiseGraph, x: Float[Tensor, "n_chains n_sites"], n_sweeps: int, seed: int
) -> Float[Tensor, "n_chains n_sites"]:
    """Sweep copies of the chains, spread over threads."""
    # 64 chains side by side cost as much as a dozen one by one.
    by_chains = len(x) > 12
    sweep = _by_chains if by_chains else _by_sites
    bits = sweep(model, x.detach().float().numpy(), n_sweeps, seed)
    return torch.from_numpy(bits).to(x.dtype)


def _streams(seed: int, n: int) -> NDArray[np.uint64]:
    return xoshiro_states(seed, n * STREAMS).reshape(n, STREAMS, 4)


def _by_chains(
    model: PairwiseGraph, bits: NDArray[np.float32], n_sweeps: int, seed: int
) -> NDArray[np.int8]:
    """64 chains side by side."""
    n_chains, n_sites = bits.shape
    n_groups = -(-n_chains // LANES)
    states = np.zeros((n_groups, n_sites, LANES), dtype=np.int8)
    for group, lanes in enumerate(states):
        chains = bits[group * LANES : (group + 1) * LANES].astype(np.int8)
        lanes[:, : len(chains)] = chains.T
    lists = model.neighbor_lists()
    arrays = (
        torch.argsort(lists.coloring(), stable=True).numpy().astype(np.uint32),
        lists.start.numpy().astype(np.uint32),
        lists.neighbor.numpy().astype(np.uint32),
        lists.weight.float().numpy(),
        model.bias.detach().float().numpy(),
    )
    streams = _streams(seed, n_groups)

    def sweep(n: int, groups: slice) -> None:
        chain_sweeps(states[groups], *arrays, streams[groups], n)

    sweep_in_threads(sweep, n_groups, n_sweeps, states.size)
    rows = states.transpose(0, 2, 1).reshape(-1, n_sites)
    return np.ascontiguousarray(rows[:n_chains])


def _by_sites(
    model: PairwiseGraph, bits: NDArray[np.float32], n_sweeps: int, seed: int
) -> NDArray[np.float32]:
    """64 sites of one colour side by side; what is missing in a block is idle."""
    lists = model.neighbor_lists()
    colors = lists.coloring().numpy()
    start, neighbor = lists.start.numpy(), lists.neighbor.numpy()
    degree = np.diff(start)
    # Sites of one colour, those of like degree together, in whole blocks.
    place = np.empty(model.n_sites, dtype=np.int64)
    n_places = 0
    for color in range(colors.max() + 1):
        members = np.flatnonzero(colors == color)
        members = members[np.argsort(degree[members], kind="stable")]
        place[members] = n_places + np.arange(len(members))
        n_places += -(-len(members) // LANES) * LANES
    widths = np.zeros(n_places // LANES, dtype=np.int64)
    np.maximum.at(widths, place // LANES, degree)
    first = np.concatenate([[0], np.cumsum(widths)])

    site = np.repeat(np.arange(model.n_sites), degree)
    row = first[place[site] // LANES] + np.arange(len(neighbor)) - start[site]
    neighbors = np.zeros((first[-1], LANES), dtype=np.uint64)
    weights = np.zeros((first[-1], LANES), dtype=np.float32)
    neighbors[row, place[site] % LANES] = place[neighbor]
    weights[row, place[site] % LANES] = lists.weight.float().numpy()
    bias = np.zeros(n_places, dtype=np.float32)
    bias[place] = model.bias.detach().float().numpy()
    states = np.zeros((len(bits), n_places), dtype=np.float32)
    states[:, place] = bits
    arrays = first.astype(np.uint64), neighbors, weights, bias
    streams = _streams(seed, len(bits))

    def sweep(n: int, rows: slice) -> None:
        site_sweeps(states[rows], *arrays, streams[rows], n)

    sweep_in_threads(sweep, len(bits), n_sweeps, states.size)
    return states[:, place]
