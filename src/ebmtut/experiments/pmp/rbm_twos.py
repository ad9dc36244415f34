"""Row pmp/rbm-twos (Figure 7 and its table): RBMs that learn the digit 2."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.pmp.rbm_digits import (
    QUICK,
    RBMConfig,
    judged_at,
    pmp_is_lowest,
    rbm_row,
    score,
    sheet,
)
from ebmtut.experiments.verdicts import Verdict, compare, mean_and_stderr
from ebmtut.plotting import figure_size
from ebmtut.results import Result

__all__ = ["EXPERIMENT", "check_twos", "draw_twos"]

#: As the table of the paper spells the methods.
_PRINTED = {"PCD-1": "PCD1", "PCD-100": "PCD100", "LP": "PmapLP"}


def draw_twos(result: Result) -> Figure:
    """Draw samples of the data, of independent pixels, and of every method."""
    k = judged_at(result)
    methods = list(result.scalars["table"])
    rows = {"data": ("data", result.scalars["data"]["log_mmd2"])}
    rows |= {m: (f"{m}/own@{k}", score(result, m, "log_mmd2", k)) for m in methods}
    rows["independent pixels"] = ("null", result.scalars["null"]["log_mmd2"])
    width, _ = figure_size("full")
    figure, axes = plt.subplots(len(rows), 1, figsize=(width, 0.6 * len(rows)))
    for ax, (name, (key, value)) in zip(axes, rows.items(), strict=True):
        sheet(ax, result.arrays.get(key), 12, 12)
        ax.text(
            -0.02,
            0.5,
            f"{name}\n{value:.2f}",
            va="center",
            ha="right",
            transform=ax.transAxes,
            size=8,
        )
    return figure


def check_twos(result: Result) -> list[Verdict]:
    """PMP is lowest; the paper's numbers stand beside ours."""
    verdicts = pmp_is_lowest(result)
    if result.scale == "quick":
        return verdicts
    k = judged_at(result)
    for method, row in result.scalars["table"].items():
        values = row.get(f"own/log_mmd2@{k}", [float("nan")])
        mean, stderr = mean_and_stderr(values)
        verdicts.append(
            compare(
                "pmp/rbm-twos",
                "log MMD^2",
                _PRINTED.get(method, method),
                "twos",
                mean,
                stderr=stderr,
                n_seeds=len(values),
                excuse=(
                    f"{result.scalars['n_data']} twos of {result.scalars['source']} "
                    f"and {result.config['n_steps']} updates (the paper has about "
                    "6000 and 1000), and how many samples it judges by is not said"
                ),
            )
        )
    return verdicts


_TWOS = RBMConfig(
    digit=2, n_hidden=250, n_judged=500, sweeps=(100,), n_sweeps_of={"PMP": 25}
)


EXPERIMENT = rbm_row(
    id="pmp/rbm-twos",
    title="RBM on the twos, with LP solver",
    presets={
        "quick": replace(QUICK, digit=2, sweeps=(25,)),
        "full": replace(_TWOS, n_seeds=3, lp_steps=60),
        "paper": replace(_TWOS, n_sweeps_of={}, n_seeds=10),
    },
    figure=draw_twos,
    check=check_twos,
)
