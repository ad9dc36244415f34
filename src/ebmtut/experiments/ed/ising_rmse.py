"""Experiment ed/ising-rmse (Table 3): the error of learned couplings."""

import math
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.ed import couplings
from ebmtut.experiments.ed.couplings import IsingConfig
from ebmtut.experiments.experiment import Experiment, with_cells
from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.verdicts import Verdicts, claim, compare
from ebmtut.plotting import COLORS, figure_size
from ebmtut.results import Result

# What we ask of ED-Grid; nothing at 0.5, where J = 0 has the paper's number.
OURS = {
    "10x10, 0.1": 4.7,
    "10x10, 0.2": 4.7,
    "10x10, 0.3": 3.1,
    "10x10, 0.4": 2.6,
    "9x9, -0.1": 4.5,
    "9x9, -0.2": 4.0,
}


def draw_rmse(result: Result) -> Figure:
    """Draw −ln RMSE by lattice: runs (filled), the paper's numbers, and J = 0."""
    table = result.scalars["table"]
    columns = list(next(iter(table.values())))
    at = np.arange(len(columns))
    figure, ax = plt.subplots(figsize=figure_size("full"))
    null = [next(iter(table.values()))[c]["null"][0] for c in columns]
    ax.hlines(null, at - 0.4, at + 0.4, color=COLORS["null"], label="J = 0")
    printed = get_fact("ed/ising-rmse").table("negative log-RMSE")
    methods = list(dict.fromkeys([*table, *printed.published]))
    for x, method in zip(np.linspace(-0.3, 0.3, len(methods)), methods, strict=True):
        color = COLORS[method]
        if method in table:
            scores = [np.mean(table[method][c]["nlr"]) for c in columns]
            ax.plot(at + x, scores, "o", color=color, label=method)
        if method in printed.published:
            known = [c for c in columns if c in printed.columns]
            found = [printed.number(method, c) or math.nan for c in known]
            there = at[[c in known for c in columns]]
            ax.plot(there + x, found, "s", color=color, mfc="none")
    ax.set_xticks(at, columns, rotation=20)
    ax.set(ylabel="−ln RMSE (higher is better)", xlabel="lattice, coupling σ")
    figure.legend(ncols=5, loc="outside upper center")
    return figure


def check_rmse(result: Result) -> Verdicts:
    """Compare with the paper's numbers, and ED-Grid with our own bounds."""
    printed = get_fact("ed/ising-rmse").table("negative log-RMSE").published
    for method, row in result.scalars["table"].items():
        for column, cell in row.items():
            values = cell["nlr"]
            if method in printed:
                where = ("ed/ising-rmse", "negative log-RMSE", method, column)
                yield compare(*where, values)
            if method == "ED-Grid" and result.scale != "quick" and column in OURS:
                name = f"ED-Grid, {column}: negative log-RMSE"
                yield claim(name, values, "at least", OURS[column])


def no_coupling(result: Result) -> Result:
    """Return J = 0: its error, and edges in no order, of which few are true."""

    def untrained(cell: dict[str, Any], method: str, column: str) -> dict[str, Any]:
        truth = result.arrays[f"truth/{column}"]
        is_edge = truth[np.triu_indices(len(truth), 1)] != 0
        return {"nlr": cell["null"], "precision": [float(is_edge.mean())]}

    return with_cells(result, untrained)


# The paper does not say how many steps it takes, nor whether the l1 penalty is of the
# mean, as here, or of the sum. Adam moves a coupling by about its rate per step.
PAPER = IsingConfig(
    penalties=(10.0, 5.0, 1.0, 0.1, 0.01),
    train=replace(IsingConfig().train, n_steps=50_000, learning_rate=1e-4),
)

EXPERIMENT = Experiment(
    id="ed/ising-rmse",
    title="Error of learned couplings",
    presets={
        "quick": IsingConfig(
            problems=((10, 0.1), (10, 0.2), (9, -0.2)),
            methods=("ED-Grid",),
            penalties=(20.0,),
            train=replace(IsingConfig().train, n_steps=400),
        ),
        "full": IsingConfig(methods=couplings.METHODS, n_seeds_near_order=3),
        # The paper's numbers of ED-Pool could not be read: there is nothing to compare.
        "paper": replace(PAPER, methods=("ED-Bern", "ED-Grid")),
    },
    cells=couplings.cells,
    n_seeds=couplings.n_seeds,
    job=couplings.ising_job,
    arrays={"coupling": "{cell}"},
    extras=couplings.true_couplings,
    baseline=no_coupling,
    figure=draw_rmse,
    check=check_rmse,
    devices=("cpu", "cuda"),
)
