"""Row ed/densities-table (Table 1): NLL and MMD on seven densities."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.ed import densities
from ebmtut.experiments.ed.densities import FULL, PAPER, QUICK, seeds_of
from ebmtut.experiments.verdicts import Verdict, claim, compare, mean_and_stderr
from ebmtut.plotting import COLORS, figure_size
from ebmtut.results import Result

__all__ = ["EXPERIMENT", "log_z_apart"]

# Gaps to the exact entropy that we ask of our own runs, in nats.
GAPS = {"full": {"ED-Bern": 0.03, "ED-Grid": 0.05}}
# How far ED-Bern's NLL may be from the paper's, whose scale of the code moves it.
NEAR = 0.1
# Two estimates of the same log Z, in standard errors of their difference. Of
# hundreds of normal differences the largest stays below with 98 percent.
SIGMAS = 4.0

CHAINS = "the paper's samples are short Gibbs chains, ours are independent draws"


def draw_table(result: Result) -> Figure:
    """Draw gap to the entropy and MMD, a dot a seed."""
    densities = list(result.scalars["entropy"])
    table = result.scalars["table"]
    width, height = figure_size("full")
    figure, (gap, discrepancy) = plt.subplots(
        2, 1, figsize=(width, 1.25 * height), sharex=True
    )
    offsets = np.linspace(-0.27, 0.27, len(table))
    for offset, (method, row) in zip(offsets, table.items(), strict=True):
        style = {"color": COLORS[method], "ms": 4, "ls": "none"}
        for ax, metric in ((gap, "gap"), (discrepancy, "mmd")):
            for k, density in enumerate(densities):
                values = seeds_of(row[density], metric)
                label = method if k == 0 else None
                at = np.full(len(values), k + offset)
                ax.plot(at, values, "o", alpha=0.8, label=label, **style)
    null = [
        np.nanmean(np.concatenate([seeds_of(r[d], "mmd_null") for r in table.values()]))
        for d in densities
    ]
    discrepancy.plot(
        range(len(densities)),
        null,
        "_",
        ms=28,
        color=COLORS["null"],
        label="data against fresh data",
    )
    gap.set(ylabel="NLL minus entropy (nats)", yscale="log")
    discrepancy.set(ylabel="MMD² (1e-4)")
    discrepancy.set_xticks(range(len(densities)), densities, rotation=20)
    handles, labels = discrepancy.get_legend_handles_labels()
    figure.legend(handles, labels, ncols=5, loc="outside upper center")
    return figure


def check_table(result: Result) -> list[Verdict]:
    """Compare NLL and MMD with the paper's, and the gap with our bounds."""
    verdicts = []
    for method, row in result.scalars["table"].items():
        bound = GAPS.get(result.scale, {}).get(method)
        for density, cell in row.items():
            n = len(next(iter(cell.values())))
            for metric, table, excuse in (("nll", "NLL", ""), ("mmd", "MMD", CHAINS)):
                mean, stderr = mean_and_error(cell, metric)
                verdict = compare(
                    "ed/densities-table",
                    table,
                    method,
                    density,
                    mean,
                    stderr=stderr,
                    n_seeds=n,
                    excuse=excuse,
                )
                verdicts.append(verdict)
                if metric == "nll" and method == "ED-Bern" and bound is not None:
                    apart = abs(mean - (verdict.published or math.nan))
                    name = f"ED-Bern, {density}: NLL apart from the paper's"
                    verdicts.append(claim(name, apart, "at most", NEAR))
            if bound is not None:
                gap, stderr = mean_and_error(cell, "gap")
                name = f"{method}, {density}: NLL minus exact entropy"
                verdicts.append(
                    claim(name, gap, "at most", bound, stderr=stderr, n_seeds=n)
                )
    if (sigmas := log_z_apart(result)) is not None:
        name = "log Z by uniform draws and by a proposal, in standard errors"
        verdicts.append(claim(name, sigmas, "at most", SIGMAS, sanity=True))
    return verdicts


def mean_and_error(cell: dict[str, Any], metric: str) -> tuple[float, float | None]:
    """Mean over the seeds, and an error that holds that of the evaluation."""
    values, errors = (cell.get(name, [None]) for name in (metric, f"{metric}_se"))
    return mean_and_stderr(values, errors)


def log_z_apart(result: Result) -> float | None:
    """Largest difference of the two estimates of log Z, in standard errors.

    None where uniform draws were not made.
    """
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
