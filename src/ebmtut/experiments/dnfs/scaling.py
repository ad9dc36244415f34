"""Our recipe at criticality on lattices of more and more sites.

A question of ours and no row of the facts: it is stored beside the benchmarks, and
`benchmarks/flow_studies.py` runs it.
"""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs.lattices import (
    CRITICAL,
    LEARNED,
    LatticeConfig,
    cells,
    exact_answers,
    lattice_job,
)
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.verdicts import Verdict
from ebmtut.plotting import COLORS, figure_size
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

__all__ = ["SCALING", "scaling_table"]

_COLORS = {
    "ours": COLORS["DNFS"],
    "untrained": COLORS["null"],
    "AIS": COLORS["Gibbs"],
    "AIS x16": COLORS["GWG"],
    "SMC": COLORS["DMALA"],
}


def scaling_table(result: Result) -> Table:
    """Set ESS beside log Z and energies, a row a method and lattice.

    Parameters
    ----------
    result
        Of `SCALING`.

    Returns
    -------
    table
        Each error of log Z with the standard error that the weights tell, and the
        energies over the exact one. "CPU s": of training; "CPU ms": of a sample. The
        samples of SMC depend on each other: no ESS, no standard error.
    """
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


def draw_scaling(result: Result) -> Figure:
    """Draw ESS, the error of log Z, and the energy, over the side of the lattice."""
    table, exact = result.scalars["table"], result.scalars["exact"]
    sides = [side for side, _, _ in result.config["problems"]]
    width, height = figure_size("full")
    figure, axes = plt.subplots(1, 3, figsize=(width, height))
    for method, row in table.items():
        how: dict[str, Any] = {"color": _COLORS[method], "marker": "o", "ms": 4}
        how |= {"ls": "-" if method in LEARNED else "--", "label": method}
        cells = [row[lattice] for lattice in exact]
        energies = [answer["energy"] for answer in exact.values()]
        if method != "SMC":  # whose samples are not independent
            axes[0].plot(sides, [_mean(c["ESS"]) for c in cells], **how)
        errors = [abs(_mean(c["log Z error"])) for c in cells]
        axes[1].plot(sides, errors, **how)
        share = [_mean(c["energy"]) / e for c, e in zip(cells, energies, strict=True)]
        axes[2].plot(sides, share, **how)
    axes[2].axhline(1, color=COLORS["exact"], lw=1, ls=":")
    titles = ("ESS, continuous time", "|error of log Z|", "energy / exact")
    for ax, title in zip(axes, titles, strict=True):
        ax.set(title=title, xlabel="side", xscale="log")
        ax.set_xticks(sides, [str(side) for side in sides])
        ax.minorticks_off()
    for ax in axes[:2]:
        ax.set_yscale("log")
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=5, loc="outside lower center", fontsize=8)
    return figure


def no_claims(result: Result) -> list[Verdict]:
    """Claim nothing: it is a question."""
    return []


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
