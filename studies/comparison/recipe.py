"""How often the recipe of the page ends, at what cost, and with which error.

Three runs of SMC with T steps and three with 2 T are repeated with twice as many steps
until they agree. Two runs from other starts may find more; then Gibbs chains are
compared. Run: python -m studies.comparison.recipe [PROBLEM ...]
"""

import itertools
import math
import time
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ebmtut.energies import BoltzmannMachine, Energy
from ebmtut.paths import BasePath
from ebmtut.random import make_generator
from ebmtut.samplers import annealed_importance_sampling, boltzmann_gibbs, run_chain
from ebmtut.samplers import gibbs as gibbs_moves
from studies.comparison import sampling, shared
from studies.comparison.sampling import N_SAMPLES, MeanField, Problem, Samples
from studies.comparison.shared import Options

N_RUNS, FIRST, LAST = 3, 16, 2048
#: Root mean square of the differences of E[x_i x_j] up to which samples agree. Those of
#: independent sets of 1,000 samples are expected to have up to 0.02, and have more by
#: chance, above all where all bits move together.
TOLERANCE = 0.07
#: Logits of the bits of the other starts, and the rise of log Z that counts.
STARTS, RISE = (math.log(4), -math.log(4)), 1.0
SEEDS = range(5)
COLUMNS = ("steps", "seconds", "evaluations", "error", "rise", "agrees", "Gibbs error")


class Cubic(Energy):
    """E = -0.7 n m^3 of the mean spin m: one of its modes appears behind a barrier."""

    def __init__(self, n: int = 200) -> None:
        super().__init__()
        self.n_sites = n

    def forward(self, x: Tensor) -> Tensor:
        """Energies of a batch of states."""
        return -0.7 * self.n_sites * (2 * x.mean(1) - 1) ** 3


def second_moments(found: Samples) -> Tensor:
    """Means of all products of two bits."""
    x = found.x.double()
    if found.log_weights is None:
        return x.T @ x / len(x)
    return (found.log_weights.double().softmax(0)[:, None] * x).T @ x


def agree(samples: list[Samples]) -> bool:
    """Tell whether any two sets of samples have nearly the same second moments."""
    pairs = itertools.combinations(map(second_moments, samples), 2)
    return max(float((a - b).square().mean().sqrt()) for a, b in pairs) <= TOLERANCE


def pooled(runs: list[Samples]) -> Samples:
    """Join runs, each with its weights."""
    log_weights = [run.log_weights for run in runs if run.log_weights is not None]
    x = torch.cat([run.x for run in runs])
    return Samples(x, runs[0].evaluations, torch.cat(log_weights))


def anneal(problem: Problem, n_steps: int, generator: Generator) -> list[Samples]:
    """Three runs of SMC."""
    how = problem, n_steps, generator, 0.5
    return [sampling.annealing(*how) for _ in range(N_RUNS)]


def from_start(
    problem: Problem, logit: float, n_steps: int, generator: Generator
) -> Samples:
    """SMC from independent bits."""
    n, dense = problem.energy.n_sites, problem.dense
    path = BasePath(problem.energy, torch.full((n,), logit))

    def sweep(x: Tensor, t: float, *, generator: Generator) -> Tensor:
        if dense is None:
            one = gibbs_moves(path.at(t), "systematic")
            return run_chain(one, x, n, generator=generator).x_final
        bias = t * dense.bias + (1 - t) * path.base_logits
        model = BoltzmannMachine(t * dense.weight, bias)
        return boltzmann_gibbs(model, x, 1, generator=generator)

    how: Any = {"generator": generator, "resample_below": 0.5}
    found = annealed_importance_sampling(path, sweep, N_SAMPLES, n_steps, **how)
    log_weights = found.log_weights + path.log_partition_start
    return Samples(found.x, n_steps * (n + 1), log_weights)


def log_partition(run: Samples) -> float:
    """Estimate log Z."""
    assert run.log_weights is not None
    return float(run.log_weights.double().logsumexp(0)) - math.log(len(run.x))


def follow(problem: Problem, options: Options, seed: int) -> np.ndarray:
    """Follow the recipe once; the steps are those of the last runs, infinite if none.

    Evaluations and seconds are those of all runs of SMC, for 1,000 samples each. The
    rise is by how much the log Z of another start is larger, in the lowest of three
    runs if the first has more than `RISE`.
    """
    generator, n_steps = make_generator(seed), FIRST
    began = time.process_time()
    runs = anneal(problem, n_steps, generator)
    spent = sum(run.evaluations for run in runs)
    agreed = False
    while not agreed and n_steps < LAST:
        n_steps *= 2
        before, runs = runs, anneal(problem, n_steps, generator)
        spent += sum(run.evaluations for run in runs)
        agreed = agree([*before, *runs])
    others = [from_start(problem, logit, n_steps, generator) for logit in STARTS]
    spent += sum(run.evaluations for run in others)
    result = pooled(runs)
    risen = [log_partition(run) - log_partition(result) for run in others]
    rise = max(risen)
    if rise > RISE:  # a single estimate can be too high
        logit = STARTS[risen.index(rise)]
        more = [
            from_start(problem, logit, n_steps, generator) for _ in range(N_RUNS - 1)
        ]
        found = [others[risen.index(rise)], *more]
        spent += sum(run.evaluations for run in more)
        rise = min(map(log_partition, found)) - log_partition(result)
        if rise > RISE:
            result = pooled(found)
    seconds = time.process_time() - began
    chains = sampling.gibbs(problem, n_steps, generator)
    place = sampling.columns(problem).index(problem.shown) - 3
    error, of_gibbs = (sampling.errors(problem, one)[place] for one in (result, chains))
    steps = n_steps if agreed else math.inf
    same = agree([result, chains])
    return np.array([[steps, seconds, spent, error, rise, same, of_gibbs]])


PROBLEMS = {**sampling.PROBLEMS, "hidden": lambda: MeanField(Cubic())}


def study(name: str) -> None:
    """Follow the recipe on one problem with every seed, and store what it gave."""
    problem = PROBLEMS[name]()

    def run(method: str, options: Options, seed: int) -> np.ndarray:
        return follow(problem, options, seed)

    scalars: dict[str, Any] = {
        "references": sampling.references(problem),
        "shown": "error",
        "measure": problem.shown,
        "columns": COLUMNS,
        "n_sites": problem.energy.n_sites,
    }
    config = {"n_runs": N_RUNS, "first": FIRST, "last": LAST, "tolerance": TOLERANCE}
    config |= {"starts": STARTS, "rise": RISE}
    shared.study(f"recipe {name}", {"recipe": {}}, run, scalars, config, seeds=SEEDS)


if __name__ == "__main__":
    shared.command_line(__doc__, PROBLEMS, study)
