"""Gibbs sampling by 1,000 short chains, and by 50 that are 20 times as long.

A short chain gives its last state; a long one gives 20 states of its second half, at
equal distances. Run: python -m studies.comparison.long_chains [PROBLEM ...]
"""

import numpy as np
import torch
from torch import Generator

from studies.comparison import sampling, shared
from studies.comparison.sampling import N_SAMPLES, Problem, Samples
from studies.comparison.shared import Options

#: States that a long chain gives.
N_KEPT = 20


def long_chains(problem: Problem, n_steps: int, generator: Generator) -> Samples:
    """As many sweeps in all as 1,000 chains of T make; T is even."""
    x = problem.start(generator, N_SAMPLES // N_KEPT)
    x = problem.sweep(x, 1.0, generator=generator, n=N_KEPT // 2 * n_steps)
    kept = []
    for _ in range(N_KEPT):
        x = problem.sweep(x, 1.0, generator=generator, n=n_steps // 2)
        kept.append(x)
    return Samples(torch.cat(kept), n_steps * problem.energy.n_sites)


METHODS = {"short": (sampling.gibbs, 1), "long": (long_chains, 2)}


def study(name: str) -> None:
    """Run both on one problem, and store the curves."""
    problem = sampling.PROBLEMS[name]()

    def curve(method: str, options: Options, seed: int) -> np.ndarray:
        return sampling.errors_by_steps(problem, *METHODS[method], options, seed)

    shared.study(
        f"long-chains {name}",
        {"short": {}, "long": {}},
        curve,
        {
            "references": sampling.references(problem),
            "shown": problem.shown,
            "columns": sampling.columns(problem),
            "n_sites": problem.energy.n_sites,
        },
        {"n_samples": N_SAMPLES, "budget": sampling.BUDGET * problem.patience},
        seeds=sampling.SEEDS,
    )


if __name__ == "__main__":
    shared.command_line(__doc__, sampling.PROBLEMS, study)
