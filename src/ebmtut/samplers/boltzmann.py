"""Fast Markov chains on Boltzmann machines."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import sweep_in_threads
from ebmtut._gpu import runs_triton
from ebmtut.checks import Natural, check_choice, check_type, checked
from ebmtut.energies import BoltzmannMachine, Ising, PairwiseGraph
from ebmtut.random import spawn_seed
from ebmtut.samplers import _graph_kernels, _gwg_kernels
from ebmtut.samplers._graph_kernels import LANES, STREAMS
from ebmtut.samplers._xoshiro import xoshiro_states
from ebmtut.samplers.chain import run_chain
from ebmtut.samplers.gibbs import color_gibbs
from ebmtut.samplers.informed import gwg
from ebmtut.samplers.ising import ising_gibbs
from ebmtut.tensor_checks import check_bits

__all__ = ["boltzmann_gibbs", "boltzmann_gwg"]


@checked
def boltzmann_gibbs(
    model: BoltzmannMachine | PairwiseGraph,
    x: Float[Tensor, "n_chains n_sites"],
    n_sweeps: Natural,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "n_chains n_sites"]:
    """Run Gibbs sweeps by compiled code where the tensor lies on the CPU.

    A dense model is swept site by site, as `ising_gibbs` does with the same model
    in spins; a graph by colour class, in single precision. Chains are spread over
    ``torch.get_num_threads()`` threads; the result does not depend on how many. On a
    GPU with Triton a kernel sweeps the graph.

    Parameters
    ----------
    model
        The model, dense or on a graph.
    x
        Start, bits. Unchanged.
    n_sweeps
        Updates of every site.
    generator
        Source of randomness.

    Returns
    -------
    x_final
        The chains' last bits, like ``x``.

    Raises
    ------
    InputError
        If the model is of another kind, ``n_sweeps`` is negative, or ``x`` no batch
        of bits of that size.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import BoltzmannMachine
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import boltzmann_gibbs
    >>> model = BoltzmannMachine(torch.zeros(4, 4), torch.zeros(4))
    >>> boltzmann_gibbs(model, torch.zeros(5, 4), 10, generator=make_generator(0)).shape
    torch.Size([5, 4])
    """
    check_type("model", model, BoltzmannMachine, PairwiseGraph)
    if isinstance(model, PairwiseGraph):
        check_bits("x", x, model.n_sites)
        if runs_triton(x):
            from ebmtut.samplers._gibbs_triton import graph_gibbs

            return graph_gibbs(model, x, n_sweeps, spawn_seed(generator))
        if x.device.type != "cpu":
            sampler = color_gibbs(model, model.coloring())
            return run_chain(sampler, x, n_sweeps, generator=generator).x_final
        return _sweep_graph(model, x, n_sweeps, spawn_seed(generator))
    weight = model.symmetric_weight.detach()
    ising = Ising(weight / 8, model.bias.detach() / 2 + weight.sum(1) / 4)
    return ising_gibbs(ising, x, n_sweeps, generator=generator)


@checked
def boltzmann_gwg(
    model: BoltzmannMachine,
    x: Float[Tensor, "n_chains n_sites"],
    n_steps: Natural,
    *,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "n_chains n_sites"]:
    """Make Gibbs-with-gradients moves, by compiled code where ``x`` is on the CPU.

    Chains are spread over ``torch.get_num_threads()`` threads; the result does not
    depend on how many.

    Parameters
    ----------
    model
        The model.
    x
        Start, bits. Unchanged.
    n_steps
        Moves of a single site each: a sweep is n_sites of them.
    generator
        Source of randomness.
    dtype
        Of the compiled code's arithmetic, float32 or float64. In float64 the chains of
        a model in float64 do not depend on the kind of processor, which now and then
        turns one in float32; it takes two to three times as long.

    Returns
    -------
    x_final
        The chains' last bits, like ``x``.

    Raises
    ------
    InputError
        If the model is of another kind, ``n_steps`` is negative, ``x`` no batch
        of bits of that size, or the dtype another.

    See Also
    --------
    ebmtut.samplers.gwg : the same kernel for any energy, in plain torch.
    """
    check_type("model", model, BoltzmannMachine)
    check_bits("x", x, model.n_sites)
    check_choice("dtype", str(dtype), ("torch.float32", "torch.float64"))
    if x.device.type != "cpu":
        return run_chain(gwg(model), x, n_steps, generator=generator).x_final
    coupling = model.symmetric_weight.detach().to(dtype).numpy()
    bias = model.bias.detach().to(dtype).numpy()
    streams = xoshiro_states(spawn_seed(generator), len(x))
    state = x.detach().to(dtype).numpy().copy()
    integer = np.int32 if dtype == torch.float32 else np.int64

    def move(n: int, rows: slice) -> None:
        room = np.empty((2, model.n_sites), integer)
        _gwg_kernels.gwg_steps(state[rows], coupling, bias, streams[rows], n, room)

    grain = _gwg_kernels.REFRESH
    sweep_in_threads(move, len(x), n_steps, x.numel(), grain=grain)
    return torch.from_numpy(np.round(state)).to(x.dtype)


def _sweep_graph(
    model: PairwiseGraph, x: Float[Tensor, "n_chains n_sites"], n_sweeps: int, seed: int
) -> Float[Tensor, "n_chains n_sites"]:
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
        _graph_kernels.chain_sweeps(states[groups], *arrays, streams[groups], n)

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
    streams = _streams(seed, len(bits))

    def sweep(n: int, rows: slice) -> None:
        _graph_kernels.site_sweeps(
            states[rows],
            first.astype(np.uint64),
            neighbors,
            weights,
            bias,
            streams[rows],
            n,
        )

    sweep_in_threads(sweep, len(bits), n_sweeps, states.size)
    return states[:, place]
