"""Which of three changes lets level 0 learn the masses of the checkerboard's squares?

    python studies/drl/checkerboard.py [--runs 3] [--updates 2000]

Initial points (one, or one of sixteen), noise (six levels from 0.25 times the
signal, or three from 0.7), and with both changes the learning rate; chains have equal
cost. Stored are the KL divergence of level 0 from the board, the
divergence of each level from the board with that level's noise, and the mass that the
energy puts on the board.
"""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
import torch

from ebmtut.experiments.drl.marginal_vs_recovery import MANY
from ebmtut.experiments.drl.plane import (
    PLANE,
    PlaneConfig,
    noised_log_density,
    plane_job,
    plane_noise,
)
from ebmtut.results import Result, collect_provenance, save_result

STARTS = {"one initial point": "recovery", "resampled": MANY}
NOISE = {"six levels from 0.25": (6, 0.25), "three levels from 0.7": (3, 0.7)}
# The usual rate with each combination, and the paper's with both changes.
CELLS = [(*both, 2e-3) for both in itertools.product(STARTS, NOISE)]
CELLS.append(("resampled", "three levels from 0.7", 1e-4))


def main() -> None:
    """Run the trainings, and store their divergences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    started, table = time.time(), {}
    for starts, noise, rate in CELLS:
        n_levels, first = NOISE[noise]
        config = PlaneConfig(
            n_steps=arguments.updates,
            n_levels=n_levels,
            first_ratio=first,
            n_langevin=5,
            learning_rate=rate,
        )
        levels = plane_noise(STARTS[starts], config)
        exact = [noised_log_density("checkerboard", levels, t) for t in range(n_levels)]
        cell = {"kl": [], "on support": [], "seconds": [], "levels": []}
        for seed in range(arguments.runs):
            of = (STARTS[starts], "checkerboard", config, seed)
            found = plane_job(*of, partition=False)
            for key in ("kl", "on support", "seconds"):
                cell[key].append(found.scalars.get(key, float("nan")))
            learned = found.arrays.get("density", np.zeros((0, PLANE.n, PLANE.n)))
            pairs = zip(exact, torch.from_numpy(learned).double(), strict=False)
            cell["levels"].append([PLANE.kl(p, q) for p, q in pairs])
        table[f"{starts}, {noise}, {rate:g}"] = cell
        print(starts, noise, rate, np.round(cell["kl"], 3), flush=True)
    provenance = collect_provenance(seed=0, device="cpu", started=started)
    of = {"n_runs": arguments.runs, "updates": arguments.updates, "n_langevin": 5}
    result = Result("drl/changes", "full", of, {"table": table}, {}, provenance)
    print(save_result(result, arguments.root))


if __name__ == "__main__":
    main()
