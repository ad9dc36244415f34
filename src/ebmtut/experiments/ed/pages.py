"""Tables and drawings that only the pages of this chapter show."""

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.data import DENSITIES
from ebmtut.experiments.ed.couplings import PROBLEMS, column_name
from ebmtut.experiments.ed.densities_table import mean_and_error
from ebmtut.experiments.ed.evaluation import evaluate_independent_bits
from ebmtut.experiments.ed.images_table import mean_of
from ebmtut.experiments.pivot import Pivot
from ebmtut.plotting import COLORS, image_grid
from ebmtut.results import Cell, Result, Table


def density_table(result: Result, metric: str, *, baseline: bool = True) -> Table:
    """Write the KL to the data ("gap") or the MMD, and their baselines, by density."""
    heads = {"gap": "KL to the data [0.001 nats]", "mmd": "MMD² [1e-4]"}
    factor, ours = {"gap": 1e3, "mmd": 1.0}[metric], result.scalars["table"]

    def column(cells: list[dict[str, Any]], metric: str) -> list[Cell]:
        found = [mean_and_error(cell, metric) for cell in cells]
        return [(factor * v, None if e is None else factor * e) for v, e in found]

    columns: dict[str, list[Cell]] = {heads[metric]: [*DENSITIES]}
    for method, row in ours.items():
        columns[method] = column([row[d] for d in DENSITIES], metric)
    if baseline:
        bits = [evaluate_independent_bits(d) for d in DENSITIES]
        lists = [{key: [value] for key, value in found.items()} for found in bits]
        columns["independent bits"] = column(lists, metric)
    if metric == "mmd":
        row = next(iter(ours.values()))
        columns["held-out data"] = column([row[d] for d in DENSITIES], "mmd_null")
    return Table(columns)


def draw_completions(true: Tensor, filled: Tensor, hidden: Tensor) -> Figure:
    """Draw what is given of some images, what was filled in, and the true images."""
    given = true.clone()
    given[:, hidden] = 0.4
    side = math.isqrt(true.shape[1])
    rows = {"given": given, "filled in": filled, "true": true}
    figure, axes = plt.subplots(3, 1, figsize=(4.5, 1.7))
    for ax, (name, images) in zip(axes, rows.items(), strict=True):
        image_grid(ax, images.reshape(-1, side, side), len(true), vmin=0, vmax=1)
        where = {"ha": "right", "va": "center", "transform": ax.transAxes}
        ax.text(-0.01, 0.5, name, fontsize=10, **where)
    return figure


def nll_table(result: Result, *, short: bool = False) -> Table:
    """Write NLLs of held-out images; the short table leaves out DULA."""
    scalars = result.scalars
    table = dict(scalars["table"])
    if short:
        table.pop("PCD, DULA", None)
    names = [*table, "mixture of Bernoulli distributions", "independent bits"]
    columns: dict[str, list[Cell]] = {"NLL [nats]": [*names]}
    for name, null in scalars["null"].items():
        found = [mean_of(row[name], "nll", "nll_se") for row in table.values()]
        columns[name] = [*found, scalars["mixture"][name], null["nll"]]
    return Table(columns, kinds=[""] * (len(table) + 1) + ["null"])


# How reliable the estimates of one set are, and what they cost.
HOW = Pivot(
    head="MNIST 14x14",
    rows={
        "{method}": "table/{method}/MNIST 14x14",
        "independent bits": "null/MNIST 14x14",
    },
    columns={
        "log Z minus a short walk's [nats]": "settled",
        "effective fraction": "ess",
        "variety / data's": "variety",
        "training [CPU s]": "seconds",
    },
    kinds={"independent bits": "null"},
)


def draw_edges(result: Result) -> Figure:
    """Draw what is learned for the edges of the first lattice and for other pairs."""
    table = result.scalars["table"]
    column = next(iter(next(iter(table.values()))))
    truth = result.arrays[f"truth/{column}"]
    pairs = np.triu(np.ones_like(truth, dtype=bool), k=1)
    kinds = {"no edge": pairs & (truth == 0), "edge": pairs & (truth != 0)}
    true = [float(truth[kind].mean()) for kind in kinds.values()]
    learned = {name: result.arrays[f"{name}/{column}"] for name in table}
    bins = np.histogram_bin_edges([x[pairs] for x in learned.values()], bins=50)
    size = (4.5, 1.1 * len(table) + 0.6)
    figure, axes = plt.subplots(len(table), 1, figsize=size, sharex=True, squeeze=False)
    for ax, (method, couplings) in zip(axes[:, 0], learned.items(), strict=True):
        colors = ("#999999", COLORS[method])
        for kind, color in zip(kinds.values(), colors, strict=True):
            counts, _ = np.histogram(couplings[kind], bins)
            ax.stairs(counts / counts.max(), bins, fill=True, color=color, alpha=0.6)
        ax.vlines(true, 0, 1.1, color="black", lw=1, ls="--")
        ax.set_title(method, loc="right", y=0.6, color=COLORS[method])
        ax.set(yticks=[], ylim=(0, 1.1))
        ax.spines["left"].set_visible(False)
    for name, at in zip(kinds, true, strict=True):
        axes[0, 0].text(at, 1.15, f"{name}: {at:g}", ha="center", va="bottom")
    axes[-1, 0].set_xlabel("learned coupling")
    return figure


# Scores by method, and by lattice; pseudo-likelihood is a run of its own beside it.
SCORES = Pivot(
    head="−ln RMSE",
    rows={"{method}": "table/{method}"},
    columns={
        f"{sigma:g}": f"{column_name(side, sigma)}/nlr" for side, sigma in PROBLEMS
    },
    kinds={"J = 0": "null"},
    caption="By coupling σ: 10 × 10, and 9 × 9 where it is negative",
)


BY_LATTICE = Pivot(
    head="lattice, coupling σ",
    rows={"{lattice}": "table/ED-Grid/{lattice}"},
    columns={
        "J = 0": "null",
        "pseudo-likelihood": "/table/PL/{lattice}/nlr",
        "ED-Bern": "/table/ED-Bern/{lattice}/nlr",
        "ED-Grid": "/table/ED-Grid/{lattice}/nlr",
    },
    even=True,
)
