"""Rates of the GPU's kernels, each beside its bound as measured in the same run.

    python benchmarks/gpu_rates.py [--json rates.json]

What the file has of the same device and torch is not measured again, number by number:
without a row's "kernel" that kernel is, and plain torch, which takes most of the time,
is not.

Times are medians of CUDA events and include launches; "replayed" is the rate of a call
that is short beside its launches, recorded as a CUDA graph. The states and plans of
Gibbs sweeps are laid out before the timing, the pairs of max-product within it. Bounds
are derived in the kernels' docstrings; their rates are measured on this GPU: bytes per
second of a negation, from memory and within the level-2 cache; instructions per second
of Philox, whose mixture of logic and products resembles that of Gibbs sweeps; and
additions with a minimum per second. Where a single program makes the whole sweep, its
own instructions bound it, and it uses so few of the GPU's multiprocessors that it
reaches a small fraction of the bound; the time is what counts there.
`benchmarks/results/gpu_rates.json` holds what was found.

    TRITON_INTERPRET=1 python benchmarks/gpu_rates.py --small --device cpu

tries the script itself; its numbers mean nothing.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import triton
import triton.language as tl

from ebmtut.data import DENSITIES
from ebmtut.energies import RBM, BoltzmannMachine, LatticeIsing, PairwiseGraph
from ebmtut.experiments.ed.recipes import Recipe, fit_densities
from ebmtut.flows import Flow, HollowTransformer
from ebmtut.kernels.gibbs_triton import class_sweeps, word_sweeps
from ebmtut.kernels.graph_classes import classes_of, plain_class_sweeps
from ebmtut.kernels.lattice_words import (
    digits_of,
    pack,
    plain_word_sweeps,
    plan_for,
)
from ebmtut.kernels.min_plus_triton import least_sums_over
from ebmtut.kernels.pairwise_triton import SMALL
from ebmtut.kernels.philox import ROUNDS
from ebmtut.message_passing import max_product, max_product_reference
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import git_commit
from ebmtut.training import FlowConfig, TrainConfig, train_flow
from ebmtut.transport import grid_cost, min_plus, min_plus_reference

REPEATS = 5
# Counted in the machine code for an H100: of one call of Philox, whose words are mixed;
# of 32 spins of a lattice; of a state of a graph of degree 4; of a message, and a site,
# of a graph that one program sweeps.
CALL, SPINS, STATE, MESSAGE, SITE = 32, 243, 102, 50, 150


def seconds(run: Callable[[], object], device: torch.device) -> float:
    """Median seconds of a call, on a GPU after one that compiles."""
    if device.type == "cuda":
        run()
    times = []
    for _ in range(REPEATS if device.type == "cuda" else 1):
        if device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1000)
        else:
            started = time.perf_counter()
            run()
            times.append(time.perf_counter() - started)
    return statistics.median(times)


def replayed(run: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """Return what does the same; on a GPU a recorded graph, launched as one."""
    if device.type != "cuda":
        return run
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


@triton.jit
def draw_words(out, n_calls, ROUNDS: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    zero, mix = tl.zeros_like(at), tl.zeros((128,), tl.uint32)
    for call in range(n_calls):
        a, b, c, d = tl.philox(7, at, zero + call, zero, zero, ROUNDS)
        mix = mix ^ a ^ b ^ c ^ d
    tl.store(out + at, mix.to(tl.int32, bitcast=True))


@triton.jit
def add_and_min(values, out, n_steps):  # type: ignore[no-untyped-def]
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    value, one, top = tl.load(values + at), tl.load(values), tl.load(values + 1)
    for _ in range(n_steps):
        value = tl.minimum(value + one, top)
    tl.store(out + tl.program_id(0) * 2048 + at, value)


def bounds(device: torch.device, size: int) -> dict[str, float]:
    """Bytes, instructions, and additions with a minimum, each a second."""
    a = torch.zeros(size, device=device)
    b = torch.empty_like(a)
    # A kernel, as those to be compared are: a recorded copy is no kernel.
    copied = 2 * a.numel() * 4 / seconds(lambda: torch.neg(a, out=b), device)
    # Two arrays of 8 MiB, again and again.
    c, d = a[: 2**21], b[: 2**21]
    often = replayed(lambda: [torch.neg(c, out=d) for _ in range(20)], device)
    near = seconds(often, device)
    n = max(1, size // 2**16)
    # A millisecond and more on a GPU, beside which a launch is nothing.
    n_steps = min(4096, 16 * n)
    out = torch.empty(n * 128, dtype=torch.int32, device=device)
    spent = seconds(lambda: draw_words[(n,)](out, n_steps, ROUNDS, num_warps=1), device)
    found = torch.empty(n * 2048, device=device)
    took = seconds(lambda: add_and_min[(n,)](a, found, n_steps), device)
    return {
        "bytes": copied,
        "cached bytes": 20 * 2 * c.numel() * 4 / near,
        "instructions": n * 128 * n_steps * CALL / spent,
        "sums": n * 2048 * n_steps / took,
    }


def normal(*shape: int, device: torch.device) -> torch.Tensor:
    generator = make_generator(0)
    return torch.randn(shape, generator=generator).to(device)


def lattice_graph(side: int, device: torch.device) -> PairwiseGraph:
    at = torch.arange(side * side).reshape(side, side)
    ahead = [torch.stack([at, at.roll(-1, dim)]).flatten(1) for dim in (0, 1)]
    edges = torch.cat(ahead, 1)
    weight = normal(edges.shape[1], device=torch.device("cpu"))
    return PairwiseGraph(edges, weight, torch.zeros(side * side)).to(device)


def cases(device: torch.device, small: bool) -> list[dict]:
    """Rows: what, how many updates a call, how, in plain torch, and the bound's work.

    A bound's work is (kind, how much of it a call needs at least).
    """
    rows = []
    k = 32 if small else 1
    n, chains, sweeps = 900 // k, 100 // k, 50 // k
    rbm = (784 // k, 500 // k)
    for name, model in (
        (
            f"PMP dense {n}",
            BoltzmannMachine(
                normal(n, n, device=device) / 30, torch.zeros(n).to(device)
            ),
        ),
        (
            f"PMP RBM {rbm[0]}x{rbm[1]}",
            RBM(
                normal(rbm[1], rbm[0], device=device) / 30,
                torch.zeros(rbm[1]).to(device),
                torch.zeros(rbm[0]).to(device),
            ),
        ),
        *(
            (f"PMP edges {side}x{side}", lattice_graph(side, device))
            for side in (max(3, 25 // k), max(3, 48 // k), max(4, 128 // k))
        ),
    ):
        pairs, sites = len(model.pair_terms().weight), len(model.pair_terms().bias)
        unaries = normal(chains, sites, device=device)
        work = ("bytes", 20 * pairs * chains * sweeps)
        if isinstance(model, PairwiseGraph):
            alone = 2 * MESSAGE * pairs + SITE * sites
            work = ("instructions", alone * chains * sweeps)
            if 2 * pairs > SMALL:
                work = ("bytes", 24 * pairs * chains * sweeps)
        rows.append(
            {
                "name": name,
                "unit": "messages/ns",
                "updates": 2 * pairs * chains * sweeps,
                "kernel": lambda m=model, u=unaries: max_product(m, u, sweeps),
                "torch": lambda m=model, u=unaries: max_product_reference(m, u, sweeps),
                "work": work,
            }
        )
    few = 1 if small else 100
    fewer = min(few, 2)  # plain torch takes long
    lattices = ((8192, 1), (2048, 64), (256, 64), (25, 100))
    for side, count in ((32, 1), (16, 4), (3, 5)) if small else lattices:
        x = (normal(count, side * side, device=device) > 0).float()
        plan = plan_for(side, count, device)
        words, digits = pack(x, side, plan), digits_of(0.2, 0.0, device)
        rows.append(
            {
                "name": f"Gibbs lattice {side}x{side}, {count} chains",
                "unit": "spins/ns",
                "updates": x.numel() * few,
                # Packed once: what a long run takes, without its beginning and end.
                "kernel": lambda w=words, p=plan, d=digits: word_sweeps(
                    w, p, d, 5, few
                ),
                "torch": lambda w=words, p=plan, d=digits: plain_word_sweeps(
                    w, p, d, 5, fewer
                ),
                "torch updates": x.numel() * fewer,
                "work": ("instructions", SPINS * words.numel() * few),
            }
        )
    for side, count in ((max(3, 512 // k), 64 // k), (max(3, 25 // k), 100 // k)):
        graph = lattice_graph(side, device)
        plan = classes_of(graph, device)
        states = (normal(graph.n_sites, count, device=device) > 0).to(torch.int8)
        rows.append(
            {
                "name": f"Gibbs graph {graph.n_sites} sites, {count} chains",
                "unit": "spins/ns",
                "updates": states.numel() * few,
                "kernel": lambda s=states, p=plan: class_sweeps(s, p, 5, few),
                "torch": lambda s=states, p=plan: plain_class_sweeps(s, p, 5, fewer),
                "torch updates": states.numel() * fewer,
                "work": ("instructions", STATE * states.numel() * few),
            }
        )
    cost, images = (
        grid_cost(64 // k),
        normal(1024 // k, 64 // k, 64 // k, device=device),
    )
    cost = type(cost)(*(part.to(device) for part in cost))
    rows.append(
        {
            "name": f"min-plus separable, {len(images)} images of {images[0].numel()}",
            "unit": "sums/ns",
            "updates": 2 * images.numel() * images.shape[1],
            "kernel": lambda: min_plus(images, cost),
            "torch": lambda: min_plus_reference(images, cost),
            "launched alone": True,
            "work": ("sums", 2 * images.numel() * images.shape[1]),
        }
    )
    m, batch = 2048 // k**2, 64 // k
    dense, values = normal(m, m, device=device), normal(1, m, batch, device=device)
    rows.append(
        {
            "name": f"min-plus dense {m}, {batch} problems",
            "unit": "sums/ns",
            "updates": m * m * batch,
            "kernel": lambda: least_sums_over(values, dense),
            # As `gibbs_ot_iteration` does, one problem after another.
            "torch": lambda: [(v[:, None] + dense).amin(0) for v in values[0].T],
            "launched alone": True,
            "work": ("sums", m * m * batch),
        }
    )
    return rows


def training(
    device: torch.device, small: bool, known: dict[str, float]
) -> dict[str, float]:
    """Milliseconds a step of a table of energy discrepancy, all models as one batch."""
    n_steps = 2 if small else 200
    few = {"batch_size": 4, "n_negatives": 2} if small else {}
    names = [d for d in DENSITIES for _ in range(3)][: 3 if small else None]
    methods = ["ED-Bern", "ED-Grid", "ED-Pool"] * len(DENSITIES)

    def wall(length: int, cuda_graph: bool) -> float:
        recipes = [Recipe(method=m, n_steps=length, **few) for m in methods]
        started = time.perf_counter()
        fit_densities(
            names,
            recipes[: len(names)],
            seeds=[0] * len(names),
            device=device.type,
            cuda_graph=cuda_graph,
        )
        return time.perf_counter() - started

    return {"models": len(names)} | both_ways(wall, n_steps, device, known)


def flow_training(
    device: torch.device, small: bool, known: dict[str, float]
) -> dict[str, float]:
    """Milliseconds a step of the paper's flow on 10 x 10 sites, rollouts left out."""
    n_steps = 2 if small else 200
    side, width = (4, 8) if small else (10, 64)

    def wall(length: int, cuda_graph: bool) -> float:
        path = AnnealingPath(LatticeIsing(side, 0.1).to(device))
        generator = make_generator(0)
        network = HollowTransformer(path.n_sites, width=width, generator=generator)
        started = time.perf_counter()
        train_flow(
            Flow(path, network.to(device)),
            FlowConfig(n_time_steps=4, n_times=2, inner_steps=2 * n_steps),
            TrainConfig(length, batch_size=4 if small else 128, precision="float32"),
            generator=make_generator(0, device.type),
            cuda_graph=cuda_graph,
        )
        return time.perf_counter() - started

    return both_ways(wall, n_steps, device, known)


def both_ways(
    wall: Callable[[int, bool], float],
    n_steps: int,
    device: torch.device,
    known: dict[str, float],
) -> dict[str, float]:
    """Milliseconds a step, step by step and, on a GPU, as a CUDA graph.

    What comes before the first step cancels between two lengths.
    """
    found = dict(known)
    for way in ("step by step", "replayed")[: 2 if device.type == "cuda" else 1]:
        if way in found:
            continue
        wall(n_steps, way == "replayed")
        one, two = (wall(k * n_steps, way == "replayed") for k in (1, 2))
        found[way] = 1000 * (two - one) / n_steps
    return found


def write(report: dict, file: Path | None) -> None:
    """Write what there is: a run that is cut off has shown something."""
    if file is not None:
        file.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--small", action="store_true", help="a trial of this script")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("gpu_rates: no CUDA device here; nothing was measured", file=sys.stderr)
        return 3
    where = torch.cuda.get_device_name() if device.type == "cuda" else "interpreter"
    report = {"device": where, "torch": torch.__version__, "triton": triton.__version__}
    report |= {"rates": {}, "rows": []}
    if arguments.json is not None and arguments.json.exists():
        before = json.loads(arguments.json.read_text("utf-8"))
        if (before["device"], before["torch"]) == (where, torch.__version__):
            report = before
    report["commit"] = git_commit()
    rates = bounds(device, 2**17 if arguments.small else 2**28)
    report["rates"] = rates
    print(f"{where}: " + ", ".join(f"{v:.3g} {k}/s" for k, v in rates.items()))
    known = {row["name"]: row for row in report["rows"]}
    report["rows"] = list(known.values())
    for case in cases(device, arguments.small):
        row = known.get(case["name"])
        if row is None:
            row = {"name": case["name"], "unit": case["unit"]}
            report["rows"].append(row)
        kind, amount = case["work"]
        if "kernel" not in row:
            took = seconds(case["kernel"], device)
            row["kernel"] = case["updates"] / took / 1e9
            row["part of bound"] = amount / rates[kind] / took
            row["bound"] = kind
            if case.get("launched alone") and device.type == "cuda":
                alone = seconds(replayed(case["kernel"], device), device)
                row["replayed"] = case["updates"] / alone / 1e9
                row["part of bound"] = amount / rates[kind] / alone
        if "torch" not in row:
            done = case.get("torch updates", case["updates"])
            row["torch"] = done / seconds(case["torch"], device) / 1e9
        print(
            f"{row['name']:44}{row['kernel']:10.4g} {row['unit']:12}"
            f"torch {row['torch']:9.4g}  {row['part of bound']:4.0%} of {kind}",
            flush=True,
        )
        write(report, arguments.json)
    for name, measure in (("training", training), ("flow training", flow_training)):
        report[name] = measure(device, arguments.small, report.get(name, {}))
        told = ", ".join(f"{key}: {v:.4g}" for key, v in report[name].items())
        print(f"{name}: {told} [ms]", flush=True)
        write(report, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
