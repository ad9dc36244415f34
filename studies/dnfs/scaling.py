"""The flow at criticality on larger and larger lattices.

Once with equally many training steps at every size, beside baselines, and once with
steps in proportion to the sites.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_log_partition
from ebmtut.experiments.dnfs.lattices import cells, exact_answers, lattice_job
from ebmtut.experiments.dnfs.recipes import (
    CRITICAL,
    LEARNED,
    LatticeConfig,
    new_network,
)
from ebmtut.experiments.experiment import Names, stream
from ebmtut.experiments.jobs import Outcome
from ebmtut.flows import Flow
from ebmtut.paths import AnnealingPath
from studies.dnfs.evaluation import in_steps
from studies.dnfs.figures import FULL, QUICK, study

#: Finer time steps in which a longer training is evaluated, too.
FINER = 4


def finer_job(
    method: str,
    side: int,
    sigma: float,
    n_steps: int,
    config: LatticeConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Train and evaluate as `lattice_job` does, and also in finer time steps."""
    found = lattice_job(method, side, sigma, n_steps, config, seed, checkpoint)
    network = new_network(method, side, config, seed=seed)
    weights = {
        name.removeprefix("net."): torch.from_numpy(value)
        for name, value in found.arrays.items()
        if name.startswith("net.")
    }
    network.load_state_dict(weights)
    path = AnnealingPath(LatticeIsing(side, sigma))
    finer = in_steps(
        Flow(path, network),
        torus_log_partition(side, side, 2 * sigma),
        config.n_chain_samples,
        FINER * config.n_time_steps,
        suffix=" finer",
        generator=stream("finer steps", seed),
    )
    return replace(found, scalars=found.scalars | finer)


def seeds_of(config: LatticeConfig, names: Names) -> int:
    """One for baselines and for the largest lattice."""
    large = names[1].startswith("32x32")
    return config.n_seeds if names[0] in LEARNED and not large else 1


# As many steps of training whatever the size, and as many of time.
_STEPS = 2000

SCALING = study(
    "dnfs/ising-scaling",
    "How the flow of a critical lattice scales",
    replace(QUICK, problems=((4, CRITICAL, 100),)),
    replace(
        FULL,
        problems=tuple((side, CRITICAL, _STEPS) for side in (6, 10, 15, 32)),
        methods=("ours", "untrained", "AIS", "AIS x16", "SMC"),
    ),
    cells=cells,
    job=lattice_job,
    n_seeds=seeds_of,
    extras=exact_answers,
)

# As many steps per site as 2000 steps on 10 x 10; the last training takes over an hour.
PROPORTIONAL = study(
    "dnfs/ising-scaling-steps",
    "The same with steps in proportion to the sites",
    replace(QUICK, problems=((4, CRITICAL, 150),), methods=("ours",)),
    replace(
        FULL,
        problems=((15, CRITICAL, 4500), (32, CRITICAL, 20480)),
        methods=("ours",),
        n_chain_samples=100,
    ),
    cells=cells,
    job=finer_job,
    n_seeds=seeds_of,
    arrays={"*": "{name}/{cell}"},
    extras=exact_answers,
)
