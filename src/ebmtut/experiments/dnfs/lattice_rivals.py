"""Other recipes on the lattices of dnfs/ising: LEAPS, a GFlowNet, the paper's own.

The paper's Figures 5 and 15 have the first two at sigma = 0.1; at criticality that row
runs our recipe alone. A study of ours at a small scale and no row of the facts: it is
stored beside the benchmarks, and `benchmarks/flow_studies.py` runs it.
Source: Holderrieth et al. (2025); Malkin et al. (2022); Ou, Zhang and Li (2025).
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
from ebmtut.experiments.dnfs.lattice_laws import (
    draw_energies,
    energy_law,
    law_distance,
)
from ebmtut.experiments.dnfs.lattices import (
    CRITICAL,
    LatticeConfig,
    column_name,
    train_lattice_flow,
)
from ebmtut.experiments.experiment import Experiment, Names, no_claims
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.streams import stream
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.flows import forward_trajectories, simulate
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, panel_size
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

POLICY = "GFlowNet"
METHODS = ("LEAPS, leConv", "LEAPS, leTF", "paper, leConv", POLICY)
_BARE = ", untrained"


@checked
@dataclass(frozen=True)
class RivalConfig:
    """Which rivals, and what each may spend.

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


def rival_job(
    method: str,
    sigma: float,
    n_steps: int,
    config: RivalConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Train one rival and judge it; without steps, judge it as it is."""
    target = LatticeIsing(config.side, sigma)
    path = AnnealingPath(target)
    start, n = path.log_partition_start, config.flow.n_samples
    generator = stream("evaluation", seed)
    if method == POLICY:
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
        scalars = {"train cpu s": seconds} if n_steps else {}
        found = {"losses": torch.tensor(losses).numpy()}
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
    scalars |= judged(path, exact, x, log_weights, spent)
    law = energy_law(config.side, sigma)
    scalars["distance"] = law_distance(arrays["energies"], law)
    return Outcome(scalars, arrays)


def cells(config: RivalConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every training, and for every method untrained."""
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


def seeds_of(config: RivalConfig, names: Names) -> int:
    """As many seeds as configured, one of what is untrained."""
    return 1 if names[0].endswith(_BARE) else config.n_seeds


def rival_table(row: Result, study: Result, column: str) -> Table:
    """Set the runs of the rivals, one by one, beside what the row has."""
    law = energy_law(study.config["side"], _sigmas(study)[column])
    shared = ("ours", "paper, leConv", "untrained", "AIS")
    steps = {
        column_name(side, sigma): {
            "ours": n,
            "paper, leConv": n * row.config["rival_steps"],
        }
        for side, sigma, n in row.config["problems"]
    }[column]
    table = row.scalars["table"]
    here = [name for name in shared if column in table[name]]
    rows: list[tuple[str, int | None, dict[str, list[float]]]] = []
    for name in here:
        energies = row.arrays[f"energies/{name}/{column}"]
        cell = {**table[name][column], "distance": [law_distance(energies, law)]}
        rows.append((name, steps.get(name), cell))
    for method, sigma, n in study.config["trainings"]:
        name = method if n else method + _BARE
        if column_name(study.config["side"], sigma) == column:
            cell = study.scalars["table"][name][column]
            for k in range(len(cell["ESS"])):
                run = {key: values[k : k + 1] for key, values in cell.items()}
                rows.append((name, n or None, run))
    exact = round(row.scalars["exact"][column]["energy"], 3)
    ends: dict[str, Cell] = {"ESS": 1.0, "log Z error": 0.0, "energy": exact}
    ends |= {"distance": 0.0, "train cpu s": None}
    columns: dict[str, list[Cell]] = {
        "method": [*(name for name, *_ in rows), "exact"],
        "steps": [*(n for _, n, _ in rows), None],
    }
    for key, end in ends.items():
        columns[key.removeprefix("train ").replace("cpu", "CPU")] = [
            *(mean_and_stderr(c[key]) if key in c else None for *_, c in rows),
            end,
        ]
    nulls = [name.endswith(_BARE) or name in ("untrained", "AIS") for name, *_ in rows]
    return Table(
        columns,
        caption=f"{column}: rivals run by run, with few steps; the others are means "
        "over runs. Distance: of the energies of a run, theirs of the first, from "
        "their exact law.",
        kinds=[*("null" if null else "" for null in nulls), "exact"],
        digits=3,
    )


def _sigmas(study: Result) -> dict[str, float]:
    side = study.config["side"]
    return {
        column_name(side, sigma): sigma for _, sigma, _ in study.config["trainings"]
    }


_COLORS = {
    "LEAPS, leConv": COLORS["LEAPS"],
    "LEAPS, leTF": COLORS["Gibbs"],
    "paper, leConv": COLORS["DNFS"],
    POLICY: COLORS["DMALA"],
}


def draw_rivals(result: Result) -> Figure:
    """Draw the energies of the first runs over their exact law, a panel a lattice."""
    sigmas = _sigmas(result)
    figure, axes = plt.subplots(
        1, len(sigmas), figsize=panel_size(1, len(sigmas), aspect=0.8), squeeze=False
    )
    for ax, (column, sigma) in zip(axes[0], sigmas.items(), strict=True):
        found = {
            method: result.arrays[f"energies/{method}/{column}"]
            for method, row in result.scalars["table"].items()
            if column in row
        }
        bins = energy_bins([*found.values()], sigma)
        for method, energies in found.items():
            color = _COLORS[method.removesuffix(_BARE)]
            draw_energies(ax, result.config["side"], sigma, energies, bins, color=color)
            ax.plot([], color=color, label=method)
        ax.set(title=column, xlabel="energy", yticks=[])
        ax.legend(fontsize=7)
    axes[0][0].set_ylabel("density")
    return figure


# Steps were set by pace, before any run, and none was tuned: LEAPS has those of the
# row's *paper, leConv*, the GFlowNet about as many CPU seconds, and at criticality the
# paper's recipe half as many steps as ours, as the processor was shared.
RIVALS = Experiment(
    id="dnfs/ising-rivals",
    title="LEAPS, a GFlowNet and the paper's recipe on a lattice",
    presets={
        "quick": RivalConfig(
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
        "full": RivalConfig(
            trainings=(
                ("LEAPS, leConv", 0.1, 0),
                ("LEAPS, leConv", 0.1, 6000),
                (POLICY, 0.1, 0),
                (POLICY, 0.1, 400),
                ("paper, leConv", CRITICAL, 0),
                ("paper, leConv", CRITICAL, 5000),
            ),
        ),
    },
    cells=cells,
    job=rival_job,
    n_seeds=seeds_of,
    arrays={"*": "{name}/{cell}"},
    figure=draw_rivals,
    check=no_claims,
)
