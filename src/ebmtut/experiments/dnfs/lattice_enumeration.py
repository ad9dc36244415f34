"""Flows of 4 x 4 and 5 x 5 lattices beside the sums over all of their states.

A check of ours and no row of the facts: it is stored beside the benchmarks, and
`benchmarks/flow_studies.py` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.energies import LatticeIsing
from ebmtut.exact import exact_log_partition, exact_mean
from ebmtut.experiments.dnfs.lattice_judge import rate_bound
from ebmtut.experiments.dnfs.lattice_laws import pair_products
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
from ebmtut.flows import log_partition, simulate, simulate_exact, weighted_mean
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, panel_size
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

STEPPED, EXACTLY = "in steps", "exactly"


def enumeration_job(
    method: str,
    side: int,
    sigma: float,
    n_steps: int,
    config: LatticeConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Train our recipe, or leave it untrained, and estimate what a sum would give."""
    path = AnnealingPath(LatticeIsing(side, sigma))
    flow, scalars, _ = train_lattice_flow(
        "ours", path, n_steps, config, seed=seed, checkpoint=checkpoint
    )
    generator = stream("evaluation", seed)
    n, n_times = config.n_samples, config.n_time_steps
    stepped = simulate(flow, n, n_times, generator=generator)
    bound = rate_bound(flow, n_times, generator=generator)
    thinned = simulate_exact(
        flow, n, bound=bound, path_weights=True, generator=generator
    )
    assert thinned.path_log_weights is not None
    found = {
        STEPPED: _estimates(path, stepped.x, stepped.log_weights),
        EXACTLY: _estimates(path, thinned.x, thinned.path_log_weights),
    }
    return Outcome({**scalars, "exceeded": thinned.n_exceeded, **found})


def _estimates(path: AnnealingPath, x: Tensor, log_weights: Tensor) -> dict[str, Any]:
    assert isinstance(path.target, LatticeIsing)
    z = log_partition(log_weights, path.log_partition_start)
    means = weighted_mean(log_weights, _observables(path.target, x))
    noise = {"log Z stderr": z.standard_error}
    return {"log Z": z.estimate, **noise, **_named(path.target, means)}


def _observables(energy: LatticeIsing, x: Tensor) -> Tensor:
    """Energy, bits, and products of two spins by distance: a column each."""
    return torch.cat([energy(x)[:, None], x, pair_products(x, energy.side)], 1)


def _named(energy: LatticeIsing, means: Tensor) -> dict[str, Any]:
    mean, *others = means.tolist()
    marginals, products = others[: energy.n_sites], others[energy.n_sites :]
    return {"energy": mean, "marginals": marginals, "products": products}


def enumerated(config: LatticeConfig, seed: int) -> Outcome:
    """Sum over all states of each lattice, of which there are 33.5 million on 5 x 5."""
    table = {}
    for side, sigma, _ in config.problems:
        energy = LatticeIsing(side, sigma)
        log_z = float(exact_log_partition(energy, energy.n_sites))
        means = exact_mean(energy, partial(_observables, energy))
        table[column_name(side, sigma)] = {"log Z": log_z, **_named(energy, means)}
    return Outcome({"exact": table})


def cells(config: LatticeConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every lattice, trained and not."""
    alone = replace(config, problems=(), methods=(), n_seeds=1)
    return {
        (method, column_name(side, sigma)): {
            "method": method,
            "side": side,
            "sigma": sigma,
            "n_steps": n_steps if method == "ours" else 0,
            "config": alone,
        }
        for side, sigma, n_steps in config.problems
        for method in config.methods
    }


def enumeration_table(result: Result) -> Table:
    """Set what flows estimate beside the sums over all states."""
    exact = result.scalars["exact"]
    distances = range(1, 1 + min(len(known["products"]) for known in exact.values()))
    heads = ["lattice", "flow", "log Z", "energy", "marginal off by"]
    columns: dict[str, list[Cell]] = {
        head: [] for head in (*heads, *(f"distance {r}" for r in distances))
    }
    kinds = []
    for lattice, known in exact.items():
        rows: list[tuple[Cell, ...]] = []
        for method, row in result.scalars["table"].items():
            for way in (STEPPED, EXACTLY):
                runs = row[lattice][way]
                rows.append((f"{method}, {way}", *_row(runs, known, distances)))
                kinds.append("null" if method == "untrained" else "")
        ends = [round(known["products"][r - 1], 4) for r in distances]
        energy = round(known["energy"], 3)
        rows.append(("all states", round(known["log Z"], 4), energy, 0.0, *ends))
        kinds.append("exact")
        for row in rows:
            for column, cell in zip(columns.values(), (lattice, *row), strict=True):
                column.append(cell)
    return Table(
        columns,
        caption=f"{result.config['n_samples']} samples a run; errors over runs, of "
        "log Z no smaller than its weights say.",
        kinds=kinds,
        digits=6,
    )


def _row(
    runs: list[dict[str, Any]], known: Mapping[str, Any], distances: range
) -> list[Cell]:
    """Means over the runs; of marginals the error of the worst."""
    off = [
        max(
            abs(a - b)
            for a, b in zip(run["marginals"], known["marginals"], strict=True)
        )
        for run in runs
    ]
    log_z = mean_and_stderr(
        [run["log Z"] for run in runs], [run["log Z stderr"] for run in runs]
    )
    products = [[run["products"][r - 1] for run in runs] for r in distances]
    values = [[run["energy"] for run in runs], off, *products]
    return [log_z, *(mean_and_stderr(v) for v in values)]


def draw_errors(result: Result) -> Figure:
    """Draw the errors of log Z and of the energy, a point a flow and lattice."""
    exact = result.scalars["exact"]
    figure, axes = plt.subplots(1, 2, figsize=panel_size(1, 2, aspect=0.75))
    colors = {"ours": COLORS["DNFS"], "untrained": COLORS["null"]}
    for method, row in result.scalars["table"].items():
        for way, marker in ((STEPPED, "o"), (EXACTLY, "x")):
            for ax, key in zip(axes, ("log Z", "energy"), strict=True):
                off = [
                    abs(fmean(run[key] for run in row[k][way]) - exact[k][key])
                    for k in exact
                ]
                how = {"color": colors[method], "label": f"{method}, {way}"}
                ax.plot(list(exact), off, marker, **how)
                ax.set(title=f"|error of {key}|", yscale="log")
    axes[0].legend(fontsize=7)
    return figure


ENUMERATED = Experiment(
    id="dnfs/ising-enumerated",
    title="Small lattices beside the sums over all states",
    presets={
        "quick": LatticeConfig(
            problems=((3, 0.1, 60), (4, CRITICAL, 30)),
            methods=("ours", "untrained"),
            n_seeds=1,
            n_samples=300,
            n_time_steps=16,
            n_warmup=20,
        ),
        "full": LatticeConfig(
            problems=((4, CRITICAL, 1000), (5, CRITICAL, 1000)),
            methods=("ours", "untrained"),
            n_seeds=2,
            n_samples=4000,
        ),
    },
    cells=cells,
    job=enumeration_job,
    extras=enumerated,
    figure=draw_errors,
    check=no_claims,
)
