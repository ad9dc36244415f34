"""Spin updates a nanosecond: compiled Gibbs, plain torch, and the floor.

    python benchmarks/bench_gibbs.py [--threads 1] [--json results.json]

The floor is the time of torch's own uniform numbers, one a spin update: a
sampler that draws a float for each update cannot beat it. The multispin
kernel does, because it compares bit by bit and stops at the first that
differs. Rates are the best of several runs, after compilation; on one
thread they count CPU seconds, which a busy machine disturbs least.

On one core of an AMD EPYC with AVX-512, as `results/gibbs.json` has it:

    model           chains    numba    torch    floor
    lattice 10x10     1024     8.03    0.041     0.33
    lattice 25x25      128     9.15    0.031     0.33
    lattice 64x64       64     9.16    0.050     0.34
    lattice 256x256     64     8.98    0.021     0.35
    lattice 25x25        1     0.67   0.0022     0.13
    lattice 256x256      1     3.18    0.046     0.33
    graph 256x256       64     0.99   0.0081     0.34
    graph 256x256        1     0.35    0.018     0.33
    dense 100         1000    0.050    0.024     0.34
    dense 900          100    0.021   0.0030     0.34

A single chain is packed by rows, and redraws both colours of a row to keep one.
The graph's 64 chains keep their states in bytes, 4 MB; as floats, which did not fit
into the cache, they reached 0.63 in a run before. In calls of 200 sweeps, which lay
out the states more seldom, they reach 1.07, and 1.13 on 64x64 sites
(`results/growth.json`).
The dense models are hot (4 in 10 updates flip, and a flip touches every field);
cold ones are four times as fast.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from bench_message_passing import processor
from torch import Tensor

from ebmtut.energies import Ising, LatticeIsing, PairwiseGraph
from ebmtut.random import make_generator
from ebmtut.results import collect_provenance
from ebmtut.samplers import (
    boltzmann_gibbs,
    color_gibbs,
    ising_gibbs,
    ising_gibbs_reference,
    run_chain,
)

SECONDS = 0.3  # a timed run is about this long
REPEATS = 5


def dense_ising(n_sites: int) -> Ising:
    """Couplings of a spin glass above freezing: about 4 in 10 updates flip."""
    generator = make_generator(0)
    coupling = torch.randn(n_sites, n_sites, generator=generator)
    return Ising(coupling / (4 * n_sites**0.5))


def spin_glass(side: int) -> PairwiseGraph:
    """Random weights on the edges of a periodic lattice."""
    sites = torch.arange(side * side).reshape(side, side)
    ahead = [torch.stack([sites, sites.roll(-1, k)]).flatten(1) for k in (0, 1)]
    edges = torch.cat(ahead, 1)
    weight = torch.randn(edges.shape[1], generator=make_generator(0))
    return PairwiseGraph(edges, weight, torch.zeros(side * side))


CASES = [
    ("lattice 10x10", LatticeIsing(10, 0.2), 1024),
    ("lattice 25x25", LatticeIsing(25, 0.2), 128),
    ("lattice 64x64", LatticeIsing(64, 0.2), 64),
    ("lattice 256x256", LatticeIsing(256, 0.2), 64),
    ("lattice 25x25", LatticeIsing(25, 0.2), 1),
    ("lattice 256x256", LatticeIsing(256, 0.2), 1),
    ("graph 256x256", spin_glass(256), 64),
    ("graph 256x256", spin_glass(256), 1),
    ("dense 100", dense_ising(100), 1000),
    ("dense 900", dense_ising(900), 100),
]


def best_rate(run: Callable[[int], object], updates: int) -> float:
    """Updates a nanosecond of ``run(n)``, which makes n times ``updates``."""
    run(1)  # compiles, warms up
    n = 1
    while (spent := elapsed(run, n)) < SECONDS / 4:
        n *= 4
    n = max(1, round(n * SECONDS / spent))
    return n * updates / min(elapsed(run, n) for _ in range(REPEATS)) / 1e9


def elapsed(run: Callable[[int], object], n: int) -> float:
    """CPU seconds of one thread, else seconds on the wall."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    run(n)
    return clock() - start


def graph_reference(
    energy: PairwiseGraph, x: Tensor, n_sweeps: int, *, generator: torch.Generator
) -> Tensor:
    """The sweeps of boltzmann_gibbs on a graph in plain torch."""
    sampler = color_gibbs(energy, energy.coloring())
    return run_chain(sampler, x, n_sweeps, generator=generator).x_final


def measure(
    name: str, energy: Ising | LatticeIsing | PairwiseGraph, n_chains: int
) -> dict:
    generator = make_generator(1)
    x = (torch.rand(n_chains, energy.n_sites, generator=generator) < 0.5).float()
    row = {"model": name, "chains": n_chains}
    graph = isinstance(energy, PairwiseGraph)
    compiled = boltzmann_gibbs if graph else ising_gibbs
    plain = graph_reference if graph else ising_gibbs_reference
    for column, sweep in (("numba", compiled), ("torch", plain)):
        row[column] = best_rate(
            lambda n, sweep=sweep: sweep(energy, x, n, generator=generator), x.numel()
        )

    def draw(n: int) -> None:
        for _ in range(n):
            torch.rand(x.shape, generator=generator)

    row["floor"] = best_rate(draw, x.numel())
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    started, load = time.time(), os.getloadavg()[0]

    print("spin updates a nanosecond")
    print(f"{'model':15}{'chains':>7}{'numba':>9}{'torch':>9}{'floor':>9}{'gain':>8}")
    rows = []
    for case in CASES:
        row = measure(*case)
        rows.append(row)
        rates = "".join(f"{row[c]:9.4f}" for c in ("numba", "torch", "floor"))
        gain = row["numba"] / row["torch"]
        print(f"{row['model']:15}{row['chains']:7d}{rates}{gain:7.0f}x", flush=True)
    if arguments.json:
        report = {
            "unit": "spin updates a nanosecond",
            "threads": arguments.threads,
            "processor": processor(),
            "load average": load,
            "rows": rows,
            "provenance": asdict(collect_provenance(seed=1, started=started)),
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
