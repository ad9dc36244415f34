"""DMALA on the cold 2D glass, until it has made the evaluations that SMC needs.

A chain that goes on is evaluated after T, 2 T, ... steps, up to the last. Run: python
-m studies.comparison.long_langevin
"""

import time
from typing import Any

import numpy as np

from ebmtut.random import make_generator
from ebmtut.samplers import dmala, run_chain
from studies.comparison import sampling, shared
from studies.comparison.sampling import N_SAMPLES, Problem, Samples
from studies.comparison.shared import Options

N_STEPS = [2**k for k in range(8, 17)]
#: Tuned in the comparison.
STEP_SIZE = 1.0


def curve(problem: Problem, options: Options, seed: int) -> np.ndarray:
    """Errors of the states of a run after each number of steps."""
    sampler = dmala(problem.energy, options["step_size"], ratios="exact")
    generator, rows, seconds = make_generator(seed), [], 0.0
    x = problem.start(generator)
    for done, n in zip([0, *N_STEPS], N_STEPS, strict=False):
        began = time.process_time()
        x = run_chain(sampler, x, n - done, generator=generator).x_final
        seconds += time.process_time() - began
        found = sampling.errors(problem, Samples(x, 3 * n))
        rows.append([n, seconds, 3 * n, *found])
    return np.array(rows)


def study(name: str) -> None:
    """Run DMALA with every seed, and store the curves."""
    problem = sampling.PROBLEMS[name]()

    def run(method: str, options: Options, seed: int) -> np.ndarray:
        return curve(problem, options, seed)

    scalars: dict[str, Any] = {
        "references": sampling.references(problem),
        "shown": problem.shown,
        "columns": sampling.columns(problem),
        "n_sites": problem.energy.n_sites,
    }
    grids = {"DMALA": {"step_size": (STEP_SIZE,)}}
    shared.study(f"long-langevin {name}", grids, run, scalars, {"n_samples": N_SAMPLES})


if __name__ == "__main__":
    shared.command_line(__doc__, ["strip 2"], study)
