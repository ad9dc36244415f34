"""One batch of models in one process, beside a process a model and one by one.

    python benchmarks/bench_ensemble.py [--steps 60] [--out ensemble.json]

The variants of the chapter's ablations (ED-Bern, eight values of eps), learned from the
two spirals with the seeds and the settings of the page's live runs, in three ways:

- a process a model: each in a fresh process, imports and all;
- one by one: all in one process, with `fit_density`;
- one batch: all in one process, with `fit_densities`.

Seconds are those of the processor, of one thread; memory is the sum over processes of
their peaks, as if all ran at once: what they share is counted in each. Each way runs in
processes of its own; the ways take turns, and medians are shown. The page "Sweeps" of
the book shows `results/ensemble.json`.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

EPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
WAYS = ("a process a model", "one by one", "one batch")


def work(way: str, eps: Sequence[float], n_negatives: int, n_steps: int) -> None:
    """Learn in this process, and print what it took, with the imports."""
    os.environ["OMP_NUM_THREADS"] = "1"
    from dataclasses import replace

    import torch

    from ebmtut.experiments.ed.recipes import fit_densities, fit_density
    from ebmtut.experiments.ed.variants import LIVE

    torch.set_num_threads(1)
    began = time.process_time()
    recipes = [
        replace(
            LIVE, eps=e, n_negatives=n_negatives, n_steps=n_steps, precision="float32"
        )
        for e in eps
    ]
    if way == "one batch":
        densities = ["2spirals"] * len(eps)
        results = fit_densities(densities, recipes, seeds=[0] * len(eps))
        losses = [result.losses for result in results]
    else:
        losses = [fit_density("2spirals", r, seed=0).losses for r in recipes]
    told = {
        "learning": time.process_time() - began,
        "all": time.process_time(),
        "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "losses": [[float(loss) for loss in row[:20]] for row in losses],
    }
    print(json.dumps(told))


def measure(way: str, n_negatives: int, n_steps: int) -> dict:
    """Run a way in processes of its own, and add up what they took."""
    groups = [[e] for e in EPS] if way == "a process a model" else [list(EPS)]
    found = []
    for eps in groups:
        words = [way, json.dumps(eps), str(n_negatives), str(n_steps)]
        command = [sys.executable, __file__, "--work", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    return {
        "learning": sum(f["learning"] for f in found),
        "all": sum(f["all"] for f in found),
        "MiB": sum(f["MiB"] for f in found),
        "losses": [row for f in found for row in f["losses"]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--negatives", type=int, nargs="+", default=(1, 8))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        way, eps, n_negatives, n_steps = options.work
        work(way, json.loads(eps), int(n_negatives), int(n_steps))
        return
    from bench_message_passing import processor

    from ebmtut.results import collect_provenance, to_json
    from ebmtut.results.atomic import replace_file

    started, load, rows = time.time(), os.getloadavg()[0], []
    for n_negatives in options.negatives:
        rounds = [
            {way: measure(way, n_negatives, options.steps) for way in WAYS}
            for _ in range(options.rounds)
        ]
        losses = {way: rounds[0][way]["losses"] for way in WAYS}
        apart = max(
            abs(a - b)
            for one, other in zip(
                losses["one by one"], losses["one batch"], strict=True
            )
            for a, b in zip(one, other, strict=True)
        )
        row = {"M": n_negatives, "models": len(EPS), "steps": options.steps}
        row["losses apart in 20 steps"] = apart
        for what in ("learning", "all", "MiB"):
            row[what] = {
                way: statistics.median(found[way][what] for found in rounds)
                for way in WAYS
            }
        rows.append(row)
        print(json.dumps(row, indent=1), flush=True)
    if options.out:
        report = {
            "processor": processor(),
            "rounds": options.rounds,
            "load average": load,
            "rows": rows,
            "provenance": collect_provenance(seed=0, device="cpu", started=started),
        }
        text = json.dumps(to_json(report, "report"), indent=1)
        replace_file(options.out, f"{text}\n".encode())


if __name__ == "__main__":
    main()
