"""The published recipe with its own network, leTF, on the lattice of dnfs/ising."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_log_partition
from ebmtut.experiments.dnfs.lattices import LatticeConfig, train_lattice_flow
from ebmtut.experiments.experiment import Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.streams import stream
from ebmtut.paths import AnnealingPath
from studies.dnfs.evaluation import few_and_many
from studies.dnfs.figures import FULL, QUICK, study

RECIPE = "paper, leTF"


def transformer_job(
    side: int,
    sigma: float,
    n_steps: int,
    config: LatticeConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Train leTF by the paper's recipe, for no step or more, and evaluate it."""
    path = AnnealingPath(LatticeIsing(side, sigma))
    flow, scalars, arrays = train_lattice_flow(
        RECIPE, path, n_steps, config, seed=seed, checkpoint=checkpoint
    )
    exact = torus_log_partition(side, side, 2 * sigma)
    generator = stream("evaluation", seed)
    few, many = config.n_chain_samples, config.n_samples
    scores = few_and_many(
        flow, exact, few, many, config.n_time_steps, generator=generator
    )
    return Outcome(scalars | scores, arrays)


def cells(config: LatticeConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name an entry for every number of steps."""
    alone = replace(config, problems=(), n_seeds=1)
    return {
        (RECIPE, str(n_steps)): {
            "side": side,
            "sigma": sigma,
            "n_steps": n_steps,
            "config": alone,
        }
        for side, sigma, n_steps in config.problems
    }


def seeds_of(config: LatticeConfig, names: Names) -> int:
    """As many seeds as configured for the shortest training, one for the others."""
    shortest = min(n_steps for _, _, n_steps in config.problems if n_steps)
    return config.n_seeds if names[1] == str(shortest) else 1


# Warm-up of the rate: the row's 200 steps would outlast the training.
TRANSFORMER = study(
    "dnfs/ising-transformer",
    "The paper's recipe with its transformer",
    replace(
        QUICK,
        problems=((4, 0.1, 0), (4, 0.1, 5), (4, 0.1, 10)),
        methods=(RECIPE,),
        n_seeds=2,
        n_samples=100,
        n_warmup=5,
    ),
    # On an AMD at 0.75 CPU seconds a step and 13 a rollout, measured before, 120
    # steps take as many seconds as 6000 of leConv.
    replace(
        FULL,
        problems=((10, 0.1, 0), (10, 0.1, 120), (10, 0.1, 2000)),
        methods=(RECIPE,),
        n_samples=200,
        n_warmup=20,
    ),
    cells=cells,
    job=transformer_job,
    n_seeds=seeds_of,
    arrays={"losses": "{name}/{cell}"},
)
