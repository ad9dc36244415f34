"""A flow that is transferred from lattice to larger lattice at criticality.

The kernel of the network belongs to no site, so what was learned on a small torus can
be used on a larger one (`OddLatticeNetwork.grown`), and trained further there. The
evaluation is that of `scaling` without the exact simulation, which takes a second per
sample on the largest lattice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_log_partition
from ebmtut.experiments.dnfs.lattices import (
    column_name,
    exact_answers,
    train_lattice_flow,
)
from ebmtut.experiments.dnfs.recipes import CRITICAL, LatticeConfig
from ebmtut.experiments.experiment import Names, Runs, stream
from ebmtut.experiments.jobs import Outcome, scalars_of
from ebmtut.flows import Flow, OddLatticeNetwork
from ebmtut.paths import AnnealingPath
from studies.dnfs.evaluation import few_and_many, in_steps
from studies.dnfs.figures import FULL, QUICK, study
from studies.dnfs.scaling import FINER

#: Rate and warm-up on a larger lattice, in units of those on the first: in a trial from
#: 15 to 20 sites a side two hundred such steps left more than a thousand at full rate.
SLOWER = 1 / 4
#: Of the table: the network of each side, and the one before, carried there.
TRAINED, CARRIED = "grown", "as carried"


def grown_job(
    config: LatticeConfig, seed: int, checkpoint: Path | None = None
) -> Outcome:
    """Train on one lattice after the other, each time the last network, grown."""
    table: dict[Names, dict[str, float]] = {}
    arrays: dict[str, Any] = {}
    network: OddLatticeNetwork | None = None
    recipe, spent = config, 0.0
    for side, sigma, n_steps in config.problems:
        path = AnnealingPath(LatticeIsing(side, sigma))
        lattice = column_name(side, sigma)
        if network is not None:
            network = network.grown(side)
            scores = _scores(Flow(path, network), config, seed)
            table[CARRIED, lattice] = scores | {"train cpu s": spent}
            recipe = replace(
                config,
                learning_rate=SLOWER * config.learning_rate,
                n_warmup=round(SLOWER * config.n_warmup),
            )
        if not n_steps:
            continue
        flow, found, kept = train_lattice_flow(
            "ours",
            path,
            n_steps,
            recipe,
            seed=seed,
            network=network,
            checkpoint=None
            if checkpoint is None
            else checkpoint.with_stem(f"{checkpoint.stem}-{side}"),
        )
        spent += found["train cpu s"]
        scores = _scores(flow, config, seed)
        table[TRAINED, lattice] = scores | {"loss": found["loss"], "train cpu s": spent}
        arrays[f"losses/{lattice}"] = kept["losses"]
        assert isinstance(flow.network, OddLatticeNetwork)
        network = flow.network
    assert network is not None
    weights = {f"net.{k}": v.numpy() for k, v in network.state_dict().items()}
    scalars = {
        "/".join((*names, metric)): value
        for names, scores in table.items()
        for metric, value in scores.items()
    }
    return Outcome(scalars, arrays | weights)


def _scores(flow: Flow, config: LatticeConfig, seed: int) -> dict[str, float]:
    """Scores of many samples, and of a few by discrete-time weights in finer steps."""
    assert isinstance(flow.path.target, LatticeIsing)
    side, sigma = flow.path.target.side, flow.path.target.sigma
    exact = torus_log_partition(side, side, 2 * sigma)
    generator = stream("evaluation", seed)
    many, few = config.n_samples, config.n_chain_samples
    n, finer = config.n_time_steps, FINER * config.n_time_steps
    return {
        **few_and_many(flow, exact, few, many, n, generator=generator),
        **in_steps(flow, exact, few, finer, suffix=" finer", generator=generator),
    }


def cells(config: LatticeConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name the one entry, which is the whole sequence."""
    return {(TRAINED,): {"config": replace(config, n_seeds=1)}}


def gather(config: LatticeConfig, runs: Runs) -> Outcome:
    """Return the table, a row a method and lattice, and the first run's arrays."""
    (found,) = runs.values()
    table: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, values in scalars_of(found).items():
        method, lattice, metric = name.split("/")
        table.setdefault(method, {}).setdefault(lattice, {})[metric] = values
    return Outcome({"table": table}, found[0].arrays)


GROWN = study(
    "dnfs/ising-scaling-grown",
    "A flow that grows with its critical lattice",
    replace(QUICK, problems=((4, CRITICAL, 100), (6, CRITICAL, 50)), methods=("ours",)),
    replace(
        FULL,
        problems=tuple(
            (side, CRITICAL, n_steps)
            for side, n_steps in ((10, 2000), (15, 1000), (20, 400), (32, 0))
        ),
        methods=("ours",),
    ),
    cells=cells,
    job=grown_job,
    gather=gather,
    extras=exact_answers,
)
