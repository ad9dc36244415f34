"""Which change mends the energy of the checkerboard? Wider noise, more points, the rate.

    python studies/drl/board_changes.py {noise,points} [--updates 600] [--runs 3]

The first setting has the published rate, six levels with small steps of noise, and
chains with one initial point; the last has three levels with wide steps, sixteen
initial points, and twenty times the rate. Between them the changes are made one by one.
The rate alone is the method "recovery" of `drl/marginal-vs-recovery`. A chain with one
initial point makes nine Langevin steps, one with sixteen points a single step, which
costs about the same. The settings are two studies, by the initial points of the chains,
so that each takes a few minutes.
"""

import argparse
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch

from ebmtut.experiments.drl.plane import PlaneConfig, plane_job
from ebmtut.results import Result, collect_provenance, save_result

METHODS = {False: "recovery", True: "recovery, many starts"}
NOISE = {
    False: PlaneConfig(n_levels=6, first_ratio=0.25),
    True: PlaneConfig(n_levels=3, first_ratio=0.7),
}
#: Whether there is wider noise, more points, the higher rate; by study.
SETTINGS = {
    "noise": {
        "no change": (False, False, False),
        "rate, wider noise": (True, False, True),
    },
    "points": {
        "rate, more points": (False, True, True),
        "all three": (True, True, True),
    },
}


def main() -> None:
    """Train every setting, and store the divergences of level 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=SETTINGS)
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    started, table, settings = time.time(), {}, {}
    for name, (wide, many, fast) in SETTINGS[arguments.study].items():
        config = replace(
            NOISE[wide],
            n_steps=arguments.updates,
            learning_rate=2e-3 if fast else 1e-4,
            n_samples=2000,
        )
        settings[name] = {"method": METHODS[many], "config": asdict(config)}
        found = [
            plane_job(METHODS[many], "checkerboard", config, seed, partition=False)
            for seed in range(arguments.runs)
        ]
        metrics = ("kl", "on support", "samples on support", "seconds")
        table[name] = {m: [run.scalars.get(m) for run in found] for m in metrics}
        print(name, table[name], flush=True)
    of = {"updates": arguments.updates, "n_runs": arguments.runs, "settings": settings}
    provenance = collect_provenance(seed=0, device="cpu", started=started)
    name = f"drl/board-{arguments.study}"
    result = Result(name, "full", of, {"table": table}, {}, provenance)
    print(save_result(result, arguments.root))


if __name__ == "__main__":
    main()
