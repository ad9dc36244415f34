"""Experiment ed/densities-table (Table 1): NLL and MMD on seven densities."""

import math
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.ed import densities
from ebmtut.experiments.ed.densities import FULL, PAPER, QUICK, seeds_of
from ebmtut.experiments.verdicts import Verdicts, claim, compare, mean_and_stderr
from ebmtut.plotting import COLORS
from ebmtut.results import Result

# Gaps to the exact entropy that we ask of our own runs, in nats.
GAPS = {"full": {"ED-Bern": 0.03, "ED-Grid": 0.05}}
# How far ED-Bern's NLL may be from the paper's, whose scale of the code moves it.
NEAR = 0.1
# Standard errors; the largest of hundreds of normal differences is below with 98 %.
SIGMAS = 4.0

CHAINS = (
    "the paper's samples come from Gibbs chains, those of this book are independent"
)


def draw_table(result: Result) -> Figure:
    """Draw KL to the data and MMD, a dot per seed, and data against held-out data."""
    densities = list(result.scalars["entropy"])
    table = result.scalars["table"]
    figure, (gap, discrepancy) = plt.subplots(2, 1, sharex=True, figsize=(6.5, 5))
    at = np.arange(len(densities))
    offsets = np.linspace(-0.27, 0.27, len(table))
    for offset, (method, row) in zip(offsets, table.items(), strict=True):
        for ax, metric in ((gap, "gap"), (discrepancy, "mmd")):
            for k, density in enumerate(densities):
                values = seeds_of(row[density], metric)
                x, label = np.full(len(values), k + offset), method if k == 0 else None
                ax.plot(x, values, "o", color=COLORS[method], ms=4, label=label)
    cells = [[row[density] for row in table.values()] for density in densities]
    null = [np.concatenate([seeds_of(c, "mmd_null") for c in cs]) for cs in cells]
    means = np.array([np.nanmean(values) for values in null])
    spread = np.array([np.nanstd(values, ddof=1) for values in null])
    style = {"width": 0.75, "color": COLORS["null"], "alpha": 0.35}
    label = "data against held-out data"
    discrepancy.bar(at, 2 * spread, bottom=means - spread, label=label, **style)
    gap.set(ylabel="NLL minus entropy (nats)", yscale="log")
    # A diverged run lies beyond the axis.
    discrepancy.set(ylabel="MMD² (1e-4)", ylim=(-1, 2))
    discrepancy.set_xticks(at, densities, rotation=20)
    handles, labels = discrepancy.get_legend_handles_labels()
    figure.legend(handles, labels, ncols=5, loc="outside upper center")
    return figure


def check_table(result: Result) -> Verdicts:
    """Compare NLL and MMD with the paper's, and the gap with our bounds."""
    for method, row in result.scalars["table"].items():
        bound = GAPS.get(result.scale, {}).get(method)
        for density, cell in row.items():
            n = len(next(iter(cell.values())))
            for metric, table, excuse in (("nll", "NLL", ""), ("mmd", "MMD", CHAINS)):
                mean, stderr = mean_and_error(cell, metric)
                where = ("ed/densities-table", table, method, density)
                of: Any = {"stderr": stderr, "n_seeds": n}
                yield (beside := compare(*where, mean, excuse=excuse, **of))
                if metric == "nll" and method == "ED-Bern" and bound is not None:
                    apart = abs(mean - (beside.published or math.nan))
                    name = f"ED-Bern, {density}: difference of the NLL from the paper's"
                    yield claim(name, apart, "at most", NEAR)
            if bound is not None:
                gap, stderr = mean_and_error(cell, "gap")
                name = f"{method}, {density}: NLL minus exact entropy"
                of = {"stderr": stderr, "n_seeds": n}
                yield claim(name, gap, "at most", bound, **of)
    if (sigmas := log_z_apart(result)) is not None:
        name = "log Z by uniform samples minus by a proposal, in standard errors"
        yield claim(name, sigmas, "at most", SIGMAS, sanity=True)


def mean_and_error(cell: dict[str, Any], metric: str) -> tuple[float, float | None]:
    """Mean over the seeds, and an error that holds that of the evaluation."""
    values, errors = (cell.get(name, [None]) for name in (metric, f"{metric}_se"))
    return mean_and_stderr(values, errors)


def log_z_apart(result: Result) -> float | None:
    """Largest difference of the two estimates of log Z, in standard errors, or None."""
    cells = [
        cell
        for row in result.scalars["table"].values()
        for cell in row.values()
        if "log_z_uniform" in cell
    ]
    if not cells:
        return None
    uniform, fitted, *errors = (
        np.concatenate([seeds_of(cell, key) for cell in cells])
        for key in ("log_z_uniform", "log_z", "log_z_uniform_se", "log_z_se")
    )
    return float(np.nanmax(np.abs(uniform - fitted) / np.hypot(*errors)))


EXPERIMENT = replace(
    densities.EXPERIMENT,
    id="ed/densities-table",
    title="NLL and MMD on seven densities",
    presets={"quick": QUICK, "full": FULL, "paper": PAPER},
    figure=draw_table,
    check=check_table,
)
