"""One party of growth.py in its own process: this package, a peer, or a floor.

    growth_worker.py OPERATION PARTY

The worker reads lines. After a size it prepares a problem of that size and warms up;
after "run" it prints the CPU seconds of a unit of work (an iteration of transport, a
sweep of all chains); after "memory" it prints the largest growth of the process in MiB,
which includes compiled code.
"""

import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np

CHAINS = 64  # of Gibbs sampling
PERTURBATIONS, MESSAGE_SWEEPS = 100, 50  # of max-product
ITERATIONS = {128: 1000, 512: 200, 1024: 100, 2048: 50}
SWEEPS = 200  # of Gibbs sampling a call; a tenth where each costs much
CHAIN_SWEEPS = 2000  # the same of one chain, whose sweeps are short beside a call
DENSE_SWEEPS = 200  # of one chain


# What runs once, and how many amounts of work that is.
class Work(NamedTuple):
    run: Callable[[], object]
    amount: int


def transport(party: str, n: int, *, plane: bool) -> tuple:
    import torch

    from ebmtut.experiments.got.lines import two_modes
    from ebmtut.random import make_generator
    from ebmtut.transport import annealed_temperatures, cost_matrix, gibbs_ot, sinkhorn

    torch.set_num_threads(1)
    problem = two_modes(n)[1:]
    if plane:  # points of a square, in no order
        x, y = torch.rand(2, n, 2, dtype=torch.float64, generator=make_generator(2))
        problem = (*problem[:2], cost_matrix(x, y))
    budget = ITERATIONS[n]
    if party == "ours":
        schedule = annealed_temperatures(budget, n, power=2.0)
        return lambda: gibbs_ot(*problem, schedule, generator=make_generator(0)), budget
    if party == "POT":
        return lambda: sinkhorn(*problem, 0.5 / n, budget), budget
    cost = problem[2].numpy()
    return lambda: [cost.max() for _ in range(budget)], budget


def gibbs(party: str, side: int, *, glass: bool, n_chains: int = CHAINS) -> tuple:
    n_sweeps, n = CHAIN_SWEEPS if n_chains == 1 else SWEEPS, side * side
    few = n_sweeps // 10
    sites = np.arange(n).reshape(side, side)
    edges = np.concatenate(
        [np.stack([sites, np.roll(sites, -1, k)]).reshape(2, n) for k in (0, 1)], 1
    )
    coupling = np.full(2 * n, 0.4)
    if glass:
        coupling = np.random.default_rng(0).normal(size=2 * n) / 4
    if party == "thrml":
        return thrml_sweeps(edges, coupling, side, n_chains, few), few
    import torch

    from ebmtut.energies import LatticeIsing, PairwiseGraph
    from ebmtut.random import make_generator
    from ebmtut.samplers import boltzmann_gibbs, ising_gibbs

    torch.set_num_threads(1)
    generator = make_generator(1)
    x = (torch.rand(n_chains, n, generator=generator) < 0.5).float()
    if party == "floor":

        def draw() -> None:
            for _ in range(few):
                torch.rand(x.shape, generator=generator)

        return draw, few
    if not glass:
        lattice = LatticeIsing(side, 0.2)
        run = functools.partial(ising_gibbs, lattice, x, n_sweeps)
        return lambda: run(generator=generator), n_sweeps
    # In bits, the spins' coupling J is a weight of 4 J and biases of -2 J a neighbour.
    weight = torch.from_numpy(4 * coupling).float()
    bias = torch.zeros(n).index_add(
        0, torch.from_numpy(edges.ravel()), -weight.repeat(2) / 2
    )
    graph = PairwiseGraph(torch.from_numpy(edges), weight, bias)
    sweeps = functools.partial(boltzmann_gibbs, graph, x, n_sweeps)
    return lambda: sweeps(generator=generator), n_sweeps


def thrml_sweeps(
    edges: np.ndarray, coupling: np.ndarray, side: int, n_chains: int, n_sweeps: int
) -> Callable[[], object]:
    import jax
    import jax.numpy as jnp
    from thrml import Block, SamplingSchedule, SpinNode, sample_states
    from thrml.models import IsingEBM, IsingSamplingProgram, hinton_init

    nodes = [SpinNode() for _ in range(side * side)]
    pairs = [(nodes[a], nodes[b]) for a, b in edges.T]
    zeros = jnp.zeros(len(nodes))
    model = IsingEBM(nodes, pairs, zeros, jnp.asarray(coupling), jnp.array(1.0))
    # The colours of ebmtut's lattice_coloring, which no environment of thrml has.
    loop, n_colors = np.arange(side) % 2, 2 + side % 2
    if side % 2:
        loop[-1] = 2
    color = np.add.outer(loop, loop).ravel() % n_colors
    free = [
        Block([n for n, c in zip(nodes, color, strict=True) if c == k])
        for k in range(n_colors)
    ]
    program = IsingSamplingProgram(model, free, [])
    schedule = SamplingSchedule(n_warmup=n_sweeps, n_samples=1, steps_per_sample=1)
    start = hinton_init(jax.random.key(0), model, free, (n_chains,))

    def chain(key_and_state):  # type: ignore[no-untyped-def]
        key, state = key_and_state
        return sample_states(key, program, schedule, state, [], free)

    chains = jax.random.split(jax.random.key(1), n_chains), start
    # On large lattices its chains are faster one after another than side by side.
    ways = jax.jit(jax.vmap(chain)), jax.jit(lambda all_: jax.lax.map(chain, all_))
    runs = [lambda way=way: jax.block_until_ready(way(chains)) for way in ways]

    def spent(run: Callable[[], object]) -> float:
        begin = time.process_time()
        run()
        return time.process_time() - begin

    for run in runs:
        run()  # compiles
    return min(runs, key=lambda run: min(spent(run) for _ in range(3)))


def messages(party: str, side: int) -> tuple:
    n, sweeps = side * side, MESSAGE_SWEEPS
    unaries = 1.6 + np.random.default_rng(0).logistic(size=(PERTURBATIONS, n))
    if party == "PGMax":
        from peer_pgmax import prepared

        return prepared(unaries, -0.8, sweeps)[0], sweeps
    if party == "floor":
        # Each of a pair's two messages is read and written once.
        old, new = np.zeros((2, 4 * n * PERTURBATIONS), np.float32)
        return lambda: [np.copyto(new, old) for _ in range(sweeps)], sweeps
    import torch

    from ebmtut.energies import PairwiseGraph, lattice_adjacency
    from ebmtut.message_passing import max_product

    torch.set_num_threads(1)
    edges = lattice_adjacency(side).triu().nonzero().T
    graph = PairwiseGraph(
        edges, torch.full((edges.shape[1],), -0.8), torch.full((n,), 1.6)
    )
    given = torch.from_numpy(unaries).float()
    return lambda: max_product(graph, given, sweeps, init="zero").x, sweeps


def dense_messages(party: str, n: int) -> tuple:
    import torch
    from bench_message_passing import traffic

    from ebmtut._compiled import compiled
    from ebmtut.energies import BoltzmannMachine
    from ebmtut.message_passing import max_product
    from ebmtut.random import logistic, make_generator

    torch.set_num_threads(1)
    generator = make_generator(0)
    if party == "floor":
        touch = compiled(traffic, fastmath={"contract"})
        # Written once, for pages of zeros are one page of memory.
        weight, out, back = np.full((3, n * (n - 1) // 2), 0.1, np.float32)
        run = functools.partial(touch, weight, out, back, 1)
        return lambda: run(DENSE_SWEEPS, np.float32(0.5)), DENSE_SWEEPS
    model = BoltzmannMachine(
        0.05 * torch.randn(n, n, generator=generator), torch.zeros(n)
    )
    given = logistic((1, n), generator=generator)
    run = functools.partial(max_product, model, given, DENSE_SWEEPS, init="zero")
    return lambda: run().x, DENSE_SWEEPS


OPERATIONS = {
    "Gibbs-OT": functools.partial(transport, plane=False),
    "Gibbs-OT, plane": functools.partial(transport, plane=True),
    "Gibbs, one coupling": functools.partial(gibbs, glass=False),
    "Gibbs, any couplings": functools.partial(gibbs, glass=True),
    "Gibbs, one chain": functools.partial(gibbs, glass=False, n_chains=1),
    "max-product, lattice": messages,
    "max-product, dense": dense_messages,
}


def peak() -> float:
    """MiB at most so far; not by getrusage, which counts the parent's, too."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def main() -> None:
    operation, party = sys.argv[1:]
    before = peak()
    work = Work(lambda: None, 1)
    for line in sys.stdin:
        command = line.strip()
        if command == "run":
            start = time.process_time()
            work.run()
            print((time.process_time() - start) / work.amount, flush=True)
        elif command == "memory":
            print(peak() - before, flush=True)
        else:
            work = Work(*OPERATIONS[operation](party, int(command)))
            work.run()
            print("ready", flush=True)


if __name__ == "__main__":
    main()
