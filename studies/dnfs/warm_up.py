"""Does training fail without a warm-up of the learning rate, and how often?

The same trainings of a small lattice with and without a warm-up, seed by seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from ebmtut.checks import Count, DivergenceError, OneOf, checked
from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_log_partition
from ebmtut.experiments.dnfs.lattices import train_lattice_flow
from ebmtut.experiments.dnfs.recipes import CRITICAL, LEARNED, LatticeConfig
from ebmtut.experiments.experiment import Names, stream
from ebmtut.experiments.jobs import Outcome
from ebmtut.paths import AnnealingPath
from studies.dnfs.evaluation import in_steps
from studies.dnfs.figures import study

#: A training has failed if it diverges, if its ESS is below this fraction of the median
#: with warm-up, or if its log Z is further off, in nats. Fixed before the runs.
SHARE, NATS = 0.5, 0.5
WITH, WITHOUT = "with", "without"


@checked
@dataclass(frozen=True)
class WarmUpConfig:
    """Which trainings are made with and without a warm-up.

    Parameters
    ----------
    trainings
        Recipe, coupling, learning rate and optimiser steps.
    side
        Of the lattice.
    share
        One in so many steps belongs to the warm-up.
    n_seeds
        Trainings of each kind, with and without.
    n_samples
        Samples that evaluate one.
    sizes
        Networks, and steps of time.
    """

    trainings: tuple[tuple[Annotated[str, OneOf(LEARNED)], float, float, int], ...]
    side: Count = 4
    share: Count = 5
    n_seeds: Count = 8
    n_samples: Count = 1000
    sizes: LatticeConfig = field(default_factory=lambda: LatticeConfig(problems=()))


def warm_up_job(
    method: str,
    sigma: float,
    n_steps: int,
    n_warmup: int,
    learning_rate: float,
    config: WarmUpConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Train and evaluate one flow."""
    side, sizes = config.side, config.sizes
    path = AnnealingPath(LatticeIsing(side, sigma))
    how = replace(sizes, learning_rate=learning_rate, n_warmup=n_warmup)
    try:
        flow, scalars, arrays = train_lattice_flow(
            method, path, n_steps, how, seed=seed, checkpoint=checkpoint
        )
    except DivergenceError as error:
        return Outcome({"ESS": 0.0, "log Z error": math.inf, "diverged at": error.step})
    scores = in_steps(
        flow,
        torus_log_partition(side, side, 2 * sigma),
        config.n_samples,
        sizes.n_time_steps,
        chain=False,
        generator=stream("evaluation", seed),
    )
    return Outcome(scalars | scores, {"losses": arrays["losses"]})


def cells(config: WarmUpConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name two entries for every training."""
    alone = replace(config, trainings=(), n_seeds=1)
    return {
        (f"{method}, rate {rate:g}", words): {
            "method": method,
            "sigma": sigma,
            "n_steps": n_steps,
            "n_warmup": n_warmup,
            "learning_rate": rate,
            "config": alone,
        }
        for method, sigma, rate, n_steps in config.trainings
        for words, n_warmup in ((WITH, n_steps // config.share), (WITHOUT, 0))
    }


# The published recipe where another's reproduction saw seeds fail. Steps by pace: four
# to sixteen CPU seconds per training.
WARM_UP = study(
    "dnfs/ising-warm-up",
    "Trainings with a warm-up and without",
    WarmUpConfig(trainings=(("ours", CRITICAL, 2e-3, 60),), n_seeds=2),
    WarmUpConfig(
        trainings=(
            ("ours", CRITICAL, 2e-3, 1000),
            ("ours", CRITICAL, 1e-2, 1000),
            ("paper, leConv", 0.1, 2e-3, 2000),
            ("paper, leTF", 0.1, 2e-3, 200),
        )
    ),
    cells=cells,
    job=warm_up_job,
    arrays={"losses": "{name}/{cell}"},
)
