"""The nulls of dnfs/ising with as many runs as what is learned there, and more of SMC.

That row has one run of each null. A study of ours and no row of the facts: it is stored
beside the benchmarks, and `benchmarks/flow_studies.py` runs it.
"""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs import ising
from ebmtut.experiments.dnfs.lattice_laws import energy_law
from ebmtut.experiments.dnfs.lattices import (
    NULLS,
    LatticeConfig,
    cells,
    column_name,
    lattice_job,
)
from ebmtut.experiments.experiment import Experiment, Names, no_claims
from ebmtut.plotting import COLORS, panel_size
from ebmtut.results import Result

#: What a run of a null is judged by.
_JUDGED = ("ESS", "log Z error", "energy", "weighted energy")
#: Runs of SMC for each of another null: what its samples are worth is told by their
#: spread alone, as they depend on each other.
MORE = 8


def seeds_of(config: LatticeConfig, names: Names) -> int:
    """As many seeds as configured, of SMC eight times as many."""
    return config.n_seeds * (MORE if names[0].startswith("SMC") else 1)


def with_nulls(row: Result, nulls: Result) -> Result:
    """Return the row with the study's runs of nulls in the place of its own.

    Seconds stay those of the row: of another day they do not compare with the flow's.
    """
    table = dict(row.scalars["table"])
    for name, found in nulls.scalars["table"].items():
        table[name] = {
            column: cell | {key: found[column][key] for key in _JUDGED}
            for column, cell in table[name].items()
        }
    return replace(row, scalars=row.scalars | {"table": table})


def draw_runs(result: Result) -> Figure:
    """Draw the weighted mean energy of every run over the exact one."""
    lattices = [
        column_name(side, sigma) for side, sigma, _ in result.config["problems"]
    ]
    figure, axes = plt.subplots(
        1,
        len(lattices),
        figsize=panel_size(1, len(lattices), aspect=0.8),
        squeeze=False,
    )
    methods = list(result.scalars["table"])
    for ax, lattice, problem in zip(
        axes[0], lattices, result.config["problems"], strict=True
    ):
        law = energy_law(*problem[:2])
        ax.axhline(law.levels @ law.chances, color=COLORS["exact"], lw=1, ls=":")
        for k, row in enumerate(result.scalars["table"].values()):
            found = row[lattice]["weighted energy"]
            ax.plot([k] * len(found), found, "o", color=COLORS["null"], ms=3)
        ax.set_xticks(range(len(methods)), methods, rotation=30)
        ax.set(title=lattice)
    axes[0][0].set_ylabel("weighted mean energy")
    return figure


_FULL = ising.EXPERIMENT.presets["full"]
assert isinstance(_FULL, LatticeConfig)
MANY_NULLS = Experiment(
    id="dnfs/ising-nulls",
    title="Nulls of a lattice, run by run",
    presets={
        "quick": LatticeConfig(
            problems=((4, 0.1, 0),),
            methods=NULLS,
            n_seeds=1,
            n_samples=100,
            n_chain_samples=5,
            n_time_steps=8,
        ),
        # Of the weights that cost more there are enough in the row.
        "full": replace(_FULL, methods=NULLS, n_chain_samples=10),
    },
    cells=cells,
    job=lattice_job,
    n_seeds=seeds_of,
    figure=draw_runs,
    check=no_claims,
)
