"""Is the flow needed? Joint training with annealed sweeps in the flow's place.

The control of dnfs/ebm-training: the same energy, data, steps and sweeps, and no flow.
No row of the facts: it is stored beside the benchmarks, and
`benchmarks/flow_studies.py` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs.captions import range_of, ranges_of
from ebmtut.experiments.dnfs.joint_training import JointConfig, sweeps_job
from ebmtut.experiments.experiment import Experiment, Names, no_claims
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.plotting import COLORS, figure_size
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table


def cells(config: JointConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every density."""
    alone = replace(config, densities=(), methods=(), n_seeds=1)
    return {("sweeps", d): {"density": d, "config": alone} for d in config.densities}


def control_table(trained: Result, control: Result) -> Table:
    """Set the energies' distances from the data beside each other."""
    rival = "EB-GFN" in trained.scalars["table"]

    def column(result: Result, method: str) -> list[Cell]:
        cells = result.scalars["table"][method].values()
        found: list[Cell] = [range_of(cell["KL"]) for cell in cells]
        return [*found, fmean(mean_and_stderr(cell["cpu s"])[0] for cell in cells)]

    columns = {
        "density": [*control.scalars["table"]["sweeps"], "CPU s, mean"],
        "flow and sweeps": column(trained, "DNFS"),
        "sweeps alone": column(control, "sweeps"),
    }
    if rival:
        columns["EB-GFN"] = column(trained, "EB-GFN")
    nulls = control.scalars["table"]["sweeps"].values()
    columns["independent bits"] = [*(range_of(c["null KL"]) for c in nulls), None]
    words = "Nats of the energy above the entropy of the data." + ranges_of(trained)
    return Table(columns, caption=words, digits=3)


def draw_control(result: Result) -> Figure:
    """Draw the distance of each run, over that of independent bits."""
    table = result.scalars["table"]["sweeps"]
    figure, ax = plt.subplots(figsize=figure_size("wide"))
    for key, mark, color in (
        ("KL", "o", COLORS["Gibbs"]),
        ("null KL", "_", COLORS["null"]),
    ):
        for k, cell in enumerate(table.values()):
            ax.plot([k] * len(cell[key]), cell[key], mark, ls="none", color=color)
    ax.set_xticks(range(len(table)), list(table), rotation=20)
    ax.set(ylabel="NLL minus entropy [nats]", yscale="log")
    return figure


CONTROL = Experiment(
    id="dnfs/joint-control",
    title="Joint training without a flow",
    presets={
        "quick": JointConfig(densities=("8gaussians",), n_steps=100, n_samples=128),
        "full": JointConfig(n_seeds=2),
    },
    cells=cells,
    job=sweeps_job,
    figure=draw_control,
    check=no_claims,
)
