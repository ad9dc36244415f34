"""LEAPS and a GFlowNet on the lattice of dnfs/ising, beside what was learned there.

The paper's Figures 5 and 15 have both. A study of ours at a small scale and no row of
the facts: it is stored beside the benchmarks, and `benchmarks/flow_studies.py` runs it.
Source: Holderrieth et al. (2025); Malkin et al. (2022).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from ebmtut.checks import Count, OneOf, checked
from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_log_partition
from ebmtut.experiments.dnfs.balanced_policy import balanced_policy
from ebmtut.experiments.dnfs.lattice_judge import energy_bins, judged, kept
from ebmtut.experiments.dnfs.lattice_laws import draw_law, energy_law, law_distance
from ebmtut.experiments.dnfs.lattices import (
    LatticeConfig,
    column_name,
    new_network,
    train_lattice_flow,
)
from ebmtut.experiments.dnfs.scaling import no_claims
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.flows import Flow, forward_trajectories, simulate
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, figure_size
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

__all__ = ["RIVALS", "RivalConfig", "rival_job", "rival_table"]

METHODS = ("LEAPS, leConv", "LEAPS, leTF", "GFlowNet")


@checked
@dataclass(frozen=True)
class RivalConfig:
    """Which rivals, and what each may spend.

    Parameters
    ----------
    steps
        Pairs of one of `METHODS` and its optimiser steps; 0: untrained, one run.
    side, sigma
        The lattice, of even side.
    n_seeds
        Independent runs of what is trained.
    policy_rate
        Learning rate of the GFlowNet, as on the planes.
    flow
        Sizes, rates, samples and time steps of the flows.
    """

    steps: tuple[tuple[Annotated[str, OneOf(METHODS)], int], ...]
    side: Count = 10
    sigma: float = 0.1
    n_seeds: Count = 2
    policy_rate: float = 3e-3
    flow: LatticeConfig = field(default_factory=lambda: LatticeConfig(problems=()))


def rival_job(
    method: str,
    n_steps: int,
    config: RivalConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Train one rival and judge it; without steps, judge it as it is.

    Returns
    -------
    outcome
        Of flows ESS by the weights of continuous time, of the GFlowNet by those of its
        ways; what `judged` says besides; distance of the energies from their exact
        law; CPU seconds. Energies, log-weights and losses.
    """
    side, sigma = config.side, config.sigma
    law = energy_law(side, sigma)
    target = LatticeIsing(side, sigma)
    path = AnnealingPath(target)
    exact = torus_log_partition(side, side, 2 * sigma)
    start = path.log_partition_start
    generator = make_generator(seed + 1_000_000)
    n = config.flow.n_samples
    scalars: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    if method == "GFlowNet":
        # Its log Z begins where the flow's path does: from 0 it would not get there.
        policy, losses, seconds = balanced_policy(
            target,
            n_steps,
            config.policy_rate,
            seed=seed,
            identity={"sigma": sigma},
            log_z=start,
            checkpoint=checkpoint,
        )
        if n_steps:
            scalars = {"train cpu s": seconds}
            arrays = {"losses": torch.tensor(losses).numpy()}
        began = time.process_time()
        with torch.no_grad():
            x, forward, backward = forward_trajectories(policy, n, generator=generator)
        log_weights = backward - forward - target(x) - start
    else:
        if n_steps:
            flow, scalars, found = train_lattice_flow(
                method, path, n_steps, config.flow, seed=seed, checkpoint=checkpoint
            )
            arrays = {"losses": found["losses"]}
        else:
            network = new_network(method, side, config.flow, seed=seed)
            flow = Flow(path, network, rates="one_way")
        began = time.process_time()
        drawn = simulate(flow, n, config.flow.n_time_steps, generator=generator)
        x, log_weights = drawn.x, drawn.log_weights
    spent = time.process_time() - began
    scalars |= judged(path, exact, x, log_weights, spent)
    arrays |= kept(path, x, log_weights)
    scalars["distance"] = law_distance(arrays["energies"], law)
    return Outcome(scalars, arrays)


def cells(config: RivalConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method, trained or not."""
    alone = replace(config, steps=(), n_seeds=1)
    column = column_name(config.side, config.sigma)
    return {
        (method if n_steps else f"{method}, untrained", column): {
            "method": method,
            "n_steps": n_steps,
            "config": alone,
        }
        for method, n_steps in config.steps
    }


def seeds_of(config: RivalConfig, names: Names) -> int:
    """As many seeds as configured, one of what is untrained."""
    return 1 if names[0].endswith("untrained") else config.n_seeds


def rival_table(row: Result, study: Result) -> Table:
    """Set the rivals beside what the row learned, on its first lattice.

    Parameters
    ----------
    row
        Of dnfs/ising.
    study
        Of `RIVALS`, on that row's first lattice.
    """
    side, sigma, n_steps = row.config["problems"][0]
    column = column_name(side, sigma)
    law = energy_law(side, sigma)
    rows = {}
    given = {"ours": n_steps, "paper, leConv": n_steps * row.config["rival_steps"]}
    for name in (*given, "untrained", "AIS"):
        cell = dict(row.scalars["table"][name][column])
        cell["distance"] = [law_distance(row.arrays[f"energies/{name}/{column}"], law)]
        rows[name] = cell
    steps = given | {name: n for name, n in study.config["steps"] if n}
    rows |= {name: cells[column] for name, cells in study.scalars["table"].items()}
    columns: dict[str, list[Cell]] = {"method": [*rows, "exact"]}
    columns["steps"] = [*(steps.get(name) for name in rows), None]
    exact = round(row.scalars["exact"][column]["energy"], 3)
    heads: dict[str, Cell] = {"ESS": 1.0, "log Z error": 0.0, "energy": exact}
    heads |= {"distance": 0.0, "train cpu s": None}
    for key, known in heads.items():
        columns[key.replace("train cpu s", "CPU s")] = [
            *(
                mean_and_stderr(cell[key]) if key in cell else None
                for cell in rows.values()
            ),
            known,
        ]
    nulls = [name.endswith("untrained") or name == "AIS" for name in rows]
    return Table(
        columns,
        caption=f"{column}: the rivals with few steps; the distance is that from the "
        "exact law of the energy.",
        kinds=[*("null" if null else "" for null in nulls), "exact"],
    )


_COLORS = {
    "LEAPS, leConv": COLORS["LEAPS"],
    "LEAPS, leTF": COLORS["Gibbs"],
    "GFlowNet": COLORS["DMALA"],
}


def draw_energies(result: Result) -> Figure:
    """Draw the energies of the first runs over their exact law."""
    figure, ax = plt.subplots(figsize=figure_size("wide"))
    side, sigma = result.config["side"], result.config["sigma"]
    found = {
        method: result.arrays[f"energies/{method}/{column_name(side, sigma)}"]
        for method in result.scalars["table"]
    }
    bins = energy_bins(list(found.values()), sigma)
    draw_law(ax, energy_law(side, sigma), bins)
    for method, energies in found.items():
        name = method.removesuffix(", untrained")
        ax.hist(
            energies,
            bins,
            density=True,
            histtype="step",
            color=_COLORS[name],
            ls="-" if name == method else ":",
            label=method,
        )
    ax.set(xlabel="energy", ylabel="density", yticks=[])
    ax.legend(fontsize=7)
    return figure


# Steps were set by what minutes of a core allow, before any was run; none was tuned.
RIVALS = Experiment(
    id="dnfs/ising-rivals",
    title="LEAPS and a GFlowNet on a lattice",
    presets={
        "quick": RivalConfig(
            steps=(
                ("LEAPS, leConv", 0),
                ("LEAPS, leConv", 5),
                ("GFlowNet", 0),
                ("GFlowNet", 2),
            ),
            side=4,
            flow=LatticeConfig(problems=(), n_samples=100, n_warmup=2, n_time_steps=8),
        ),
        "full": RivalConfig(
            steps=(
                ("LEAPS, leConv", 0),
                ("LEAPS, leConv", 3000),
                ("GFlowNet", 0),
                ("GFlowNet", 200),
            ),
        ),
    },
    cells=cells,
    job=rival_job,
    n_seeds=seeds_of,
    arrays={"*": "{name}/{cell}"},
    figure=draw_energies,
    check=no_claims,
)
