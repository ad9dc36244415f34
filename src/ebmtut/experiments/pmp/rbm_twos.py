"""Row pmp/rbm-twos (Figure 7 and its table): RBMs that learn the digit 2."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.pmp.rbm_digits import QUICK, RBMConfig, rbm_row
from ebmtut.experiments.pmp.rbm_reports import (
    judged_at,
    pmp_is_lowest,
    score,
    scores,
    sees_pairs,
    sheet,
)
from ebmtut.experiments.verdicts import Verdict, compare, mean_and_stderr
from ebmtut.plotting import figure_size
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

__all__ = ["EXPERIMENT", "check_twos", "draw_twos", "programs_table", "twos_table"]

#: As the table of the paper spells the methods.
_PRINTED = {"PCD-1": "PCD1", "PCD-100": "PCD100", "LP": "PmapLP"}


def draw_twos(result: Result) -> Figure:
    """Draw samples of data, independent pixels and methods, with the pairs' error."""
    k = judged_at(result)
    methods = list(result.scalars["table"])
    rows = {"data": ("data", result.scalars["data"]["pairs"])}
    rows |= {m: (f"{m}/own@{k}", score(result, m, "pairs", k)) for m in methods}
    rows["independent pixels"] = ("null", result.scalars["null"]["pairs"])
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
            size=9,
        )
    return figure


def check_twos(result: Result) -> list[Verdict]:
    """PMP has the data's pairs before others do; the paper's numbers stand beside ours.

    The paper ranks by a kernel that sees little but the pixels' means.
    """
    k = judged_at(result)
    verdicts = [*pmp_is_lowest(result), sees_pairs(result, k)]
    if result.scale == "quick":
        return verdicts
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


def twos_table(result: Result) -> Table:
    """Set our scores beside the paper's number."""
    k = judged_at(result)
    printed = get_fact("pmp/rbm-twos").table("log MMD^2")
    methods = list(result.scalars["table"])
    ends = [result.scalars[name] for name in ("null", "data")]

    def column(measure: str) -> list[Cell]:
        found = [mean_and_stderr(scores(result, m, measure)[k]) for m in methods]
        ours: list[Cell] = [v if e is None else (v, e) for v, e in found]
        return [*ours, None, *(end[measure] for end in ends)]

    of_paper: list[Cell] = []
    for method in [*methods, "LP"]:
        cell = (_PRINTED.get(method, method), "twos")
        value, spread = printed.number(*cell), printed.deviation(*cell)
        of_paper.append(None if value is None else (value, spread or 0.0))
    return Table(
        {
            "method": [*methods, "linear programs", "independent pixels", "fresh data"],
            "pairs": column("pairs"),
            "log MMD²": column("log_mmd2"),
            "the paper": [*of_paper, None, None],
            "CPU time [s]": [
                float(np.mean(result.scalars["table"][m]["seconds"])) for m in methods
            ]
            + [None] * 3,
        },
        caption=f"The twos after {k} sweeps; lower is better. Pairs: the error of "
        "pair covariances. Ours: means and standard errors of "
        f"{result.config['n_seeds']} seeds. Fresh data: what a perfect sampler can "
        "expect. The paper: its log MMD², as printed. Time: of learning.",
        kinds=[""] * len(methods) + ["paper", "null", "exact"],
    )


def programs_table(result: Result) -> Table:
    """Tabulate the reduced problem, on which linear programs can learn, too."""
    k = judged_at(result)
    rows, ends = result.scalars["reduced"], result.scalars["reduced_ends"]
    last = (ends["null"], ends["data"])
    columns: dict[str, list[Cell]] = {
        "method": [*rows, "independent pixels", "fresh data (expected)"]
    }
    for measure, head in (("log_mmd2", "log MMD²"), ("pairs", "pairs")):
        found = [row[f"own/{measure}@{k}"][0] for row in rows.values()]
        columns[head] = [*found, *(end[measure] for end in last)]
    seconds = [row["seconds"][0] for row in rows.values()]
    columns["CPU time [s]"] = [*seconds, None, None]
    return Table(
        columns,
        caption="Pictures of 7 × 7 pixels, 10 hidden units, 60 updates, one seed: "
        "log MMD² with the paper's kernel, and the error of pair covariances.",
        kinds=[""] * len(rows) + ["null", "exact"],
    )


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
