"""Seconds of max-product: compiled kernels, their floor, plain torch, PGMax.

    python benchmarks/bench_message_passing.py [--json results.json]
        [--peer-python PYTHON]

Matrices have two floors, each a loop that does as many pairs as the kernel.
"traffic" goes over the same arrays, chain by chain as the kernel does, reads and
writes each message once a sweep and reads each weight: 20 bytes a pair, in the
cache that holds one chain (5 MB here), and next to no arithmetic. "arithmetic" is
the kernel's update over one row, as long as the model's are on average, that never
leaves the level-1 cache. A pair takes four fused products and sums, four maxima and
four sums or differences, so that on a core which starts two of these a cycle on 16
numbers the update cannot be faster than 16 pairs in 6 cycles.

Kernel and floors take turns, and the least of several CPU times of one thread is
kept; the gain of a second thread is measured on the wall. Plain torch does fewer
chains (said in the table) and is scaled up.

PGMax is run by another interpreter, which has it installed, and must decode the same
states as this package.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from ebmtut._compiled import compiled, reordered
from ebmtut.energies import RBM, BoltzmannMachine, PairwiseGraph, lattice_adjacency
from ebmtut.kernels.pairwise_messages import renewed_in_row
from ebmtut.message_passing import max_product, max_product_reference
from ebmtut.random import logistic, make_generator
from ebmtut.results import collect_provenance

REPEATS = 5
LATTICE_WEIGHT = -0.8


def traffic(half, a, b, n_chains, n_sweeps, keep):  # type: ignore[no-untyped-def]
    """Touch a chain's messages and weights as a sweep does."""
    for _ in range(n_chains):
        for _ in range(n_sweeps):
            for e in range(half.size):
                h = half[e]
                a[e] = keep * a[e] + h
                b[e] = keep * b[e] + h


def arithmetic(weight, p, sums, out, back, n_rows, keep, new):  # type: ignore[no-untyped-def]
    """Update one row over and over."""
    for row in range(n_rows):
        heard = weight.dtype.type(0)
        for k in range(weight.size):
            w = weight[k]
            to_column = renewed_in_row(out[k], p[0], back[k], w, keep, new)
            to_row = renewed_in_row(back[k], p[k], out[k], w, keep, new)
            out[k], back[k] = to_column, to_row
            sums[k] += to_column
            heard += to_row
        sums[row % weight.size] = heard


def dense(n: int) -> BoltzmannMachine:
    weight = 0.05 * torch.randn(n, n, generator=make_generator(0))
    return BoltzmannMachine(weight, torch.zeros(n))


def rbm(n_hidden: int, n_visible: int) -> RBM:
    weight = 0.05 * torch.randn(n_hidden, n_visible, generator=make_generator(0))
    return RBM(weight, torch.zeros(n_hidden), torch.zeros(n_visible))


def lattice(side: int) -> PairwiseGraph:
    edges = lattice_adjacency(side).triu().nonzero().T
    weight = torch.full((edges.shape[1],), LATTICE_WEIGHT)
    return PairwiseGraph(edges, weight, torch.full((side * side,), 1.6))


CASES = [
    ("lattice 25x25", lattice(25), 100, 50, 100),
    ("dense 900", dense(900), 100, 50, 1),
    ("RBM 784x500", rbm(500, 784), 100, 100, 1),
]


def _lines(n: int) -> int:
    """Round up to whole lines of the cache."""
    return -(-n // 16) * 16


def seconds(run: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    run()
    return clock() - start


def measure(case: tuple, peer: str | None) -> dict:
    name, model, n_chains, n_sweeps, n_plain = case
    terms = model.pair_terms()
    n_pairs, n_sites = len(terms.weight), len(terms.bias)
    noise = logistic((n_chains, n_sites), generator=make_generator(1))
    unaries = terms.bias + noise
    row = {"model": name, "chains": n_chains, "sweeps": n_sweeps}

    def ours() -> torch.Tensor:
        return max_product(model, unaries, n_sweeps, init="zero").x

    # From torch, as its arrays start where a line of the cache does.
    weight, a, b = torch.zeros(3, _lines(n_pairs)).numpy()
    weight[:n_pairs] = terms.weight.numpy()
    touch = compiled(traffic, fastmath={"contract"})
    keep = np.float32(0.5)

    def floor() -> None:
        touch(weight, a, b, n_chains, n_sweeps, keep)

    n_rows = model.n_hidden if isinstance(model, RBM) else n_sites
    width = _lines(n_pairs // n_rows)
    row_arrays = torch.zeros(5, width).numpy()
    row_arrays[0] = weight[:width]
    update = reordered(arithmetic)

    def compute() -> None:
        done = n_chains * n_sweeps * n_pairs // width
        update(*row_arrays, done, keep, keep)

    torch.set_num_threads(1)
    runs = {"numba": ours}
    if not isinstance(model, PairwiseGraph):
        runs |= {"traffic": floor, "arithmetic": compute}
    for run in runs.values():
        run()  # compiles, warms up
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(REPEATS):
        for column, run in runs.items():
            best[column] = min(best[column], seconds(run, time.process_time))
    row |= best
    for floor_name in ("traffic", "arithmetic"):
        if floor_name in row:
            row[f"of {floor_name}"] = row[floor_name] / row["numba"]
    row["updates/ns"] = n_chains * n_sweeps * n_pairs / row["numba"] / 1e9

    def plain() -> object:
        return max_product_reference(model, unaries[:n_plain], n_sweeps)

    row["torch chains"] = n_plain
    row["torch"] = seconds(plain, time.process_time) * n_chains / n_plain

    wall = {}
    for n_threads in (1, 2, 1, 2):
        torch.set_num_threads(n_threads)
        spent = seconds(ours, time.perf_counter)
        wall[n_threads] = min(spent, wall.get(n_threads, float("inf")))
    torch.set_num_threads(1)
    row["2 threads gain"] = wall[1] / wall[2]
    if isinstance(model, PairwiseGraph):
        row["PGMax"] = pgmax(peer, unaries, n_sweeps, ours())
        if row["PGMax"] is not None:
            row["over PGMax"] = row["PGMax"] / row["numba"]
    return row


def pgmax(
    peer: str | None, unaries: torch.Tensor, n_sweeps: int, x: torch.Tensor
) -> float | None:
    """CPU seconds of PGMax, None if there is none."""
    if peer is None:
        return None
    script = Path(__file__).with_name("peer_pgmax.py")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "unaries.npy"), Path(folder, "states.npy")
        np.save(source, unaries.numpy())
        command = [peer, script, source, str(LATTICE_WEIGHT), str(n_sweeps), target]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(done.stderr.strip().splitlines()[-1], file=sys.stderr)
            return None
        same = float((np.load(target) == x.numpy()).mean())
    if same < 0.999:
        raise SystemExit(f"PGMax decodes other states: {same:.4f} of the bits agree")
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--peer-python", help="an interpreter that has PGMax")
    arguments = parser.parse_args()
    columns = ["numba", "traffic", "arithmetic", "of traffic", "of arithmetic"]
    columns += ["updates/ns"]
    columns += ["torch", "2 threads gain", "PGMax", "over PGMax"]
    print(f"{'seconds':15}" + "".join(f"{column:>15}" for column in columns))
    started = time.time()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    rows = []
    for case in CASES:
        row = measure(case, arguments.peer_python)
        rows.append(row)
        cells = [row.get(column) for column in columns]
        shown = ["-" if cell is None else f"{cell:.4g}" for cell in cells]
        print(f"{row['model']:15}" + "".join(f"{s:>15}" for s in shown), flush=True)
    if arguments.peer_python is None:
        print("PGMax: not installed (--peer-python)")
    if arguments.json:
        report = {
            "unit": "seconds",
            "processor": processor(),
            "load average": load,
            "rows": rows,
            "provenance": asdict(collect_provenance(seed=0, started=started)),
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


def processor() -> str:
    """Model of the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
