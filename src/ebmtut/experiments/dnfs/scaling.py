"""Our recipe at criticality on lattices of more and more sites.

Once with as many steps of training whatever the size, beside nulls, and once with as
many a site. Questions of ours and no rows of the facts: they are stored
beside the benchmarks, and `benchmarks/flow_studies.py` runs them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_log_partition
from ebmtut.experiments.dnfs.lattice_judge import in_steps
from ebmtut.experiments.dnfs.lattices import (
    CRITICAL,
    LEARNED,
    LatticeConfig,
    cells,
    exact_answers,
    lattice_job,
    new_network,
)
from ebmtut.experiments.experiment import Experiment, Names, no_claims
from ebmtut.experiments.jobs import Outcome
from ebmtut.flows import Flow
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, figure_size
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table


def scaling_table(result: Result) -> Table:
    """Set ESS beside log Z and energies, a row a method and lattice."""
    table, exact = result.scalars["table"], result.scalars["exact"]
    columns: dict[str, list[Cell]] = {
        head: []
        for head in (
            "lattice",
            "method",
            "ESS",
            "of the chain",
            "log Z error",
            "energy",
            "weighted",
            "CPU s",
            "CPU ms",
        )
    }
    kinds = []
    for lattice in exact:
        for method in table:
            cell = table[method][lattice]
            energies = [
                sum(cell[name]) / len(cell[name]) / exact[lattice]["energy"]
                for name in ("energy", "weighted energy")
            ]
            error: Cell = _mean(cell["log Z error"])
            if method != "SMC":
                stderr = cell["log Z stderr"]
                error = _mean(cell["log Z error"]), math.hypot(*stderr) / len(stderr)
            row: list[Cell] = [
                lattice.partition(",")[0],
                method,
                None if method == "SMC" else _mean(cell["ESS"]),
                _mean(cell["ESS chain"]) if "ESS chain" in cell else None,
                error,
                *energies,
                _mean(cell["train cpu s"]) if "train cpu s" in cell else None,
                _mean(cell["sample cpu ms"]),
            ]
            for head, value in zip(columns, row, strict=True):
                columns[head].append(value)
            kinds.append("" if method in LEARNED else "null")
    return Table(
        columns,
        caption="At criticality, 64 steps or sweeps. Energies over the exact mean.",
        kinds=kinds,
        digits=3,
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def draw_scaling(result: Result, grown: Result | None = None) -> Figure:
    """Draw path-weight ESS and error of the energy over the side of the lattice."""
    curves = [
        ("flow, trained on the lattice", "DNFS", "o-", _by_side(result, "ours")),
        ("AIS ×16", "GWG", "^--", _by_side(result, "AIS x16")),
    ]
    if grown is not None:
        transferred = _by_side(grown, "as carried") | _by_side(grown, "grown")
        curves.append(("flow, transferred", "LEAPS", "s", transferred))
    figure, axes = plt.subplots(1, 2, figsize=figure_size("full"))
    for label, color, style, found in curves:
        how: dict[str, Any] = {"color": COLORS[color], "ms": 6, "label": label}
        axes[0].plot(list(found), [ess for ess, _ in found.values()], style, **how)
        excess = [100 * energy for _, energy in found.values()]
        axes[1].plot(list(found), excess, style, **how)
    sides = sorted({side for *_, found in curves for side in found})
    titles = "effective fraction of the samples", "energy too high by [%]"
    for ax, title in zip(axes, titles, strict=True):
        ax.set(title=title, xlabel="sites per side", xscale="log")
        ax.set_xticks(sides, [str(side) for side in sides])
        ax.minorticks_off()
    axes[0].set(yscale="log")
    axes[1].set(ylim=(0, None))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=3, loc="outside lower center")
    return figure


def _by_side(result: Result, method: str) -> dict[int, tuple[float, float]]:
    """Return ESS and relative excess of the mean energy, by side of the lattice."""
    exact = result.scalars["exact"]
    return {
        int(lattice.partition("x")[0]): (
            _mean(cell["ESS"]),
            1 - _mean(cell["energy"]) / exact[lattice]["energy"],
        )
        for lattice, cell in result.scalars["table"].get(method, {}).items()
    }


#: How many times finer the steps of time are, at which a longer training is judged.
FINER = 4


def steps_table(fixed: Result, longer: Result, grown: Result) -> Table:
    """Compare flows of equal and of longer training with transferred networks."""
    rows = _steps_rows(fixed, longer, grown)
    keys = {"ESS": "ESS", "energy": "energy", "CPU s": "train cpu s"}
    columns = _columns(rows, keys)
    columns["log Z error"] = [
        (_mean(c["log Z error"]), math.hypot(*c["log Z stderr"]) / len(c["ESS"]))
        for *_, c, _ in rows
    ]
    order = ["lattice", "from", "steps", "ESS", "log Z error", "energy", "CPU s"]
    return Table(
        {head: columns[head] for head in order},
        caption="Ours at criticality, 64 steps of time.",
    )


def finer_table(fixed: Result, longer: Result, grown: Result) -> Table:
    """Show for the rows of `steps_table` what finer steps of time bring."""
    rows = _steps_rows(fixed, longer, grown)
    keys = {
        "energy": "energy",
        f"x{FINER} steps": "energy finer",
        "exactly": "energy exact",
        "chain": "ESS chain",
        f"chain x{FINER}": "ESS chain finer",
    }
    return Table(_columns(rows, keys), caption="Ours at criticality, by steps of time.")


# Side, side that the network begins from or 0, steps, scores, exact energy.
_Row = tuple[int, int, int, dict[str, list[float]], float]


def _steps_rows(fixed: Result, longer: Result, grown: Result) -> list[_Row]:
    results = (fixed, longer, grown)
    exact = {k: v for result in results for k, v in result.scalars["exact"].items()}
    rows = []
    for result in (fixed, longer):
        for side, _, n_steps in result.config["problems"]:
            rows.append((side, 0, n_steps, result.scalars["table"]["ours"]))
    before, table = 0, grown.scalars["table"]
    for side, _, n_steps in grown.config["problems"]:
        if before:
            rows.append((side, before, 0, table["as carried"]))
        if before and n_steps:
            rows.append((side, before, n_steps, table["grown"]))
        before = side
    found: list[_Row] = []
    for side, before, n_steps, table in sorted(rows, key=lambda row: row[:3]):
        lattice = next(name for name in table if name.startswith(f"{side}x"))
        found.append((side, before, n_steps, table[lattice], exact[lattice]["energy"]))
    return found


def _columns(rows: list[_Row], keys: dict[str, str]) -> dict[str, list[Cell]]:
    """Return names of the rows, and means of the scores; of energies over the exact."""

    def score(key: str, row: _Row) -> Cell:
        *_, cell, energy = row
        unit = energy if key.startswith("energy") else 1.0
        return _mean(cell[key]) / unit if key in cell else None

    columns: dict[str, list[Cell]] = {
        "lattice": [f"{side}x{side}" for side, *_ in rows],
        "from": [f"{before}x{before}" if before else None for _, before, *_ in rows],
        "steps": [n_steps for _, _, n_steps, *_ in rows],
    }
    for head, key in keys.items():
        columns[head] = [score(key, row) for row in rows]
    return columns


def finer_job(
    method: str,
    side: int,
    sigma: float,
    n_steps: int,
    config: LatticeConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Train and judge as `lattice_job` does, and judge at finer steps of time, too."""
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
        generator=make_generator(seed + 3_000_000),
    )
    return replace(found, scalars=found.scalars | finer)


def seeds_of(config: LatticeConfig, names: Names) -> int:
    """One for nulls and for the largest lattice."""
    large = names[1].startswith("32x32")
    return config.n_seeds if names[0] in LEARNED and not large else 1


# As many steps of training whatever the size, and as many of time.
_STEPS = 2000

SCALING = Experiment(
    id="dnfs/ising-scaling",
    title="How the flow of a critical lattice scales",
    presets={
        "quick": LatticeConfig(
            problems=((4, CRITICAL, 100),),
            n_seeds=1,
            n_samples=200,
            n_chain_samples=20,
        ),
        "full": LatticeConfig(
            problems=tuple((side, CRITICAL, _STEPS) for side in (6, 10, 15, 32)),
            methods=("ours", "untrained", "AIS", "AIS x16", "SMC"),
            n_seeds=2,
            n_samples=1000,
            n_chain_samples=50,
        ),
    },
    cells=cells,
    job=lattice_job,
    n_seeds=seeds_of,
    extras=exact_answers,
    figure=draw_scaling,
    check=no_claims,
)

PROPORTIONAL = Experiment(
    id="dnfs/ising-scaling-steps",
    title="The same with steps in proportion to the sites",
    presets={
        "quick": LatticeConfig(
            problems=((4, CRITICAL, 150),),
            methods=("ours",),
            n_seeds=1,
            n_samples=200,
            n_chain_samples=20,
        ),
        # As many a site as 2000 steps on 10 x 10; the last takes over an hour.
        "full": LatticeConfig(
            problems=((15, CRITICAL, 4500), (32, CRITICAL, 20480)),
            methods=("ours",),
            n_seeds=2,
            n_samples=1000,
            n_chain_samples=100,
        ),
    },
    cells=cells,
    job=finer_job,
    n_seeds=seeds_of,
    arrays={"*": "{name}/{cell}"},
    extras=exact_answers,
    figure=draw_scaling,
    check=no_claims,
)
