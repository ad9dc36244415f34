"""Baselines of dnfs/ising: 32 runs of annealing, and four untrained networks."""

from __future__ import annotations

from dataclasses import replace

from ebmtut.experiments.dnfs import ising
from ebmtut.experiments.dnfs.lattices import cells, lattice_job
from ebmtut.experiments.dnfs.recipes import ANNEALING, BASELINES, LatticeConfig
from ebmtut.experiments.experiment import Names
from studies.dnfs.figures import study

#: Runs of annealing for each of another baseline: few samples carry its weights, and
#: those of SMC are dependent, so that only the spread of runs shows their worth.
MORE = 8


def seeds_of(config: LatticeConfig, names: Names) -> int:
    """As many seeds as configured, for annealing eight times as many."""
    return config.n_seeds * (MORE if names[0] in ANNEALING else 1)


_FULL = ising.EXPERIMENT.presets["full"]
assert isinstance(_FULL, LatticeConfig)
MANY_BASELINES = study(
    "dnfs/ising-nulls",
    "Baselines of a lattice, run by run",
    LatticeConfig(
        problems=((4, 0.1, 0),),
        methods=BASELINES,
        n_seeds=1,
        n_samples=100,
        n_chain_samples=5,
        n_time_steps=8,
    ),
    # Of the weights that cost more there are enough in the row.
    replace(_FULL, methods=BASELINES, n_chain_samples=10),
    cells=cells,
    job=lattice_job,
    n_seeds=seeds_of,
)
