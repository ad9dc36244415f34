"""Do more initial points mend the checkerboard's energy without wider noise?

    python studies/drl/points.py [--updates 600] [--runs 3]

Six levels with small steps of noise and sixteen initial points for each chain. It
differs from the method "recovery" of `drl/marginal-vs-recovery` in the initial points
alone, for which a chain makes one Langevin step in place of nine, at about equal cost;
and from the same experiment's resampled method in the noise alone (six levels from 0.25
of the signal, there four from 0.7).
"""

import argparse
import time
from dataclasses import asdict
from pathlib import Path

import torch

from ebmtut.experiments.drl.marginal_vs_recovery import MANY
from ebmtut.experiments.drl.plane import PlaneConfig, plane_job
from ebmtut.results import Result, collect_provenance, save_result


def main() -> None:
    """Train every seed, and store how far level 0 is from the board."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    started = time.time()
    config = PlaneConfig(n_steps=arguments.updates, n_levels=6, first_ratio=0.25)
    runs = []
    for seed in range(arguments.runs):
        run = plane_job(MANY, "checkerboard", config, seed, partition=False)
        runs.append(run.scalars)
        print(seed, run.scalars, flush=True)
    table = {metric: [run.get(metric) for run in runs] for metric in runs[0]}
    provenance = collect_provenance(seed=0, device="cpu", started=started)
    of = {"method": MANY, "config": asdict(config), "n_runs": arguments.runs}
    result = Result("drl/points", "full", of, {"table": table}, {}, provenance)
    print(save_result(result, arguments.root))


if __name__ == "__main__":
    main()
