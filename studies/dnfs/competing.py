"""Other recipes on the lattices of dnfs/ising: LEAPS, a GFlowNet, the published one.

The published recipe has leConv in one study and its own network, leTF, in the other.

Source: Holderrieth et al. (2025); Malkin et al. (2022); Ou, Zhang and Li (2025).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch

from ebmtut.checks import Count, OneOf, checked
from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_log_partition
from ebmtut.experiments.dnfs.lattices import (
    column_name,
    distribution_distance,
    energy_distribution,
    kept,
    sample_scores,
    train_lattice_flow,
)
from ebmtut.experiments.dnfs.recipes import CRITICAL, LatticeConfig
from ebmtut.experiments.experiment import Names, stream
from ebmtut.experiments.jobs import Outcome
from ebmtut.flows import BitsGFlowNet, forward_trajectories, simulate
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.training import train_gflownet
from studies.dnfs.evaluation import few_and_many
from studies.dnfs.figures import FULL, QUICK, study

POLICY = "GFlowNet"
METHODS = ("LEAPS, leConv", "LEAPS, leTF", "paper, leConv", POLICY)
_BARE = ", untrained"
TRANSFORMER_RECIPE = "paper, leTF"


@checked
@dataclass(frozen=True)
class CompetingConfig:
    """Which competing methods, and what each may spend.

    Parameters
    ----------
    trainings
        Triples: one of `METHODS`, sigma, and optimiser steps; 0: untrained, one run.
    side
        Of the lattices, even.
    n_seeds
        Independent runs of what is trained.
    policy_rate
        Learning rate of the GFlowNet, as on the planes.
    flow
        Sizes, rates, samples and time steps of the flows.
    """

    trainings: tuple[tuple[Annotated[str, OneOf(METHODS)], float, int], ...]
    side: Count = 10
    n_seeds: Count = 2
    policy_rate: float = 3e-3
    flow: LatticeConfig = field(default_factory=lambda: LatticeConfig(problems=()))


def competing_job(
    method: str,
    sigma: float,
    n_steps: int,
    config: CompetingConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Train one method and evaluate it; without steps, evaluate it untrained."""
    target = LatticeIsing(config.side, sigma)
    path = AnnealingPath(target)
    start, n = path.log_partition_start, config.flow.n_samples
    generator = stream("evaluation", seed)
    if method == POLICY:
        # Its log Z begins where the flow's path does: from 0 it would not get there.
        fresh = BitsGFlowNet(target.n_sites, 128, generator=make_generator(seed))
        fresh.log_z.data.fill_(start)
        policy, losses, seconds = train_gflownet(
            fresh,
            target,
            n_steps,
            config.policy_rate,
            generator=make_generator(seed),
            checkpoint=checkpoint,
            identity={"method": POLICY, "seed": seed, "sigma": sigma},
        )
        scalars = {"train cpu s": seconds} if n_steps else {}
        found = {"losses": losses.numpy()}
        began = time.process_time()
        with torch.no_grad():
            x, forward, backward = forward_trajectories(policy, n, generator=generator)
        log_weights = backward - forward - target(x) - start
    else:
        flow, scalars, found = train_lattice_flow(
            method, path, n_steps, config.flow, seed=seed, checkpoint=checkpoint
        )
        began = time.process_time()
        drawn = simulate(flow, n, config.flow.n_time_steps, generator=generator)
        x, log_weights = drawn.x, drawn.log_weights
    spent = time.process_time() - began
    arrays = {"losses": found["losses"]} if n_steps else {}
    arrays |= kept(path, x, log_weights)
    exact = torus_log_partition(config.side, config.side, 2 * sigma)
    scalars |= sample_scores(path, exact, x, log_weights, spent)
    distribution = energy_distribution(config.side, sigma)
    scalars["distance"] = distribution_distance(arrays["energies"], distribution)
    return Outcome(scalars, arrays)


def cells(config: CompetingConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name an entry for every training, and for every method untrained."""
    alone = replace(config, trainings=(), n_seeds=1)
    return {
        (method if n_steps else method + _BARE, column_name(config.side, sigma)): {
            "method": method,
            "sigma": sigma,
            "n_steps": n_steps,
            "config": alone,
        }
        for method, sigma, n_steps in config.trainings
    }


def seeds_of(config: CompetingConfig, names: Names) -> int:
    """As many seeds as configured, one of what is untrained."""
    return 1 if names[0].endswith(_BARE) else config.n_seeds


# Steps were set by pace, before any run, and none was tuned: LEAPS has those of the
# row's *paper, leConv*, the GFlowNet about as many CPU seconds, and at criticality the
# paper's recipe half as many steps as the flow, as the processor was shared.
COMPETING = study(
    "dnfs/ising-rivals",
    "LEAPS, a GFlowNet and the paper's recipe on a lattice",
    CompetingConfig(
        trainings=(
            ("LEAPS, leConv", 0.1, 0),
            ("LEAPS, leConv", 0.1, 5),
            (POLICY, 0.1, 0),
            (POLICY, 0.1, 2),
            ("paper, leConv", CRITICAL, 5),
        ),
        side=4,
        flow=LatticeConfig(problems=(), n_samples=100, n_warmup=2, n_time_steps=8),
    ),
    CompetingConfig(
        trainings=(
            ("LEAPS, leConv", 0.1, 0),
            ("LEAPS, leConv", 0.1, 6000),
            (POLICY, 0.1, 0),
            (POLICY, 0.1, 400),
            ("paper, leConv", CRITICAL, 0),
            ("paper, leConv", CRITICAL, 5000),
        )
    ),
    cells=cells,
    job=competing_job,
    n_seeds=seeds_of,
    arrays={"*": "{name}/{cell}"},
)


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
    exact = torus_log_partition(side, side, 2 * sigma)
    flow, scalars, arrays = train_lattice_flow(
        TRANSFORMER_RECIPE, path, n_steps, config, seed=seed, checkpoint=checkpoint
    )
    generator = stream("evaluation", seed)
    few, many = config.n_chain_samples, config.n_samples
    scores = few_and_many(
        flow, exact, few, many, config.n_time_steps, generator=generator
    )
    return Outcome(scalars | scores, arrays)


def cells_of_steps(config: LatticeConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name an entry for every number of steps."""
    alone = replace(config, problems=(), n_seeds=1)
    return {
        (TRANSFORMER_RECIPE, str(n_steps)): {
            "side": side,
            "sigma": sigma,
            "n_steps": n_steps,
            "config": alone,
        }
        for side, sigma, n_steps in config.problems
    }


def seeds_of_steps(config: LatticeConfig, names: Names) -> int:
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
        methods=(TRANSFORMER_RECIPE,),
        n_seeds=2,
        n_samples=100,
        n_warmup=5,
    ),
    # On an AMD at 0.75 CPU seconds a step and 13 a rollout, measured before, 120
    # steps take as many seconds as 6000 of leConv.
    replace(
        FULL,
        problems=((10, 0.1, 0), (10, 0.1, 120), (10, 0.1, 2000)),
        methods=(TRANSFORMER_RECIPE,),
        n_samples=200,
        n_warmup=20,
    ),
    cells=cells_of_steps,
    job=transformer_job,
    n_seeds=seeds_of_steps,
    arrays={"losses": "{name}/{cell}"},
)
