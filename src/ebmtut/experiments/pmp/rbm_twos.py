"""Row pmp/rbm-twos (Figure 7 and its table): RBMs that learn the digit 2."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.pmp.leads import cell
from ebmtut.experiments.pmp.rbm_digits import (
    QUICK,
    RBMConfig,
    judged_at,
    name_row,
    pmp_is_lowest,
    rbm_row,
    score,
    scores,
    sees_pairs,
    sheet,
)
from ebmtut.experiments.verdicts import Verdict, compare, mean_and_stderr
from ebmtut.plotting import TEXT_WIDTH
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

#: As the table of the paper spells the methods.
_PRINTED = {"PCD-1": "PCD1", "PCD-100": "PCD100", "LP": "PmapLP"}


def draw_twos(result: Result) -> Figure:
    """Draw samples of data, independent pixels and methods, with the pairs' error."""
    k = judged_at(result)
    methods = list(result.scalars["table"])
    rows = {"data": ("data", result.scalars["data"]["pairs"])}
    rows |= {m: (f"{m}/own@{k}", score(result, m, "pairs", k)) for m in methods}
    rows["independent\npixels"] = ("null", result.scalars["null"]["pairs"])
    size = (TEXT_WIDTH, 0.6 * len(rows))
    figure, axes = plt.subplots(len(rows), 1, figsize=size)
    for ax, (name, (key, value)) in zip(axes, rows.items(), strict=True):
        sheet(ax, result.arrays.get(key), 12, 12)
        name_row(ax, f"{name}\n{value:.2f}", rotation=0)
    return figure


def check_twos(result: Result) -> list[Verdict]:
    """PMP has the lowest error of pairs; the paper's numbers are compared, too."""
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


def _ends(result: Result, measure: str) -> list[Cell]:
    """Return the scores of all methods, independent pixels and held-out data."""
    k = judged_at(result)
    found = [cell(scores(result, m, measure)[k]) for m in result.scalars["table"]]
    return [*found, *(result.scalars[name][measure] for name in ("null", "data"))]


def pairs_table(result: Result) -> Table:
    """Tabulate the error of pair covariances, and the time of learning."""
    table = result.scalars["table"]
    seconds = [round(float(np.mean(row["seconds"]))) for row in table.values()]
    return Table(
        {
            "method": [*table, "independent pixels", "500 held-out twos, expected"],
            "error of covariances": _ends(result, "pairs"),
            "CPU time of learning [s]": [*seconds, None, None],
        },
        caption="Means and standard errors over "
        f"{result.config['n_seeds']} seeds; lower is better.",
        kinds=[""] * len(table) + ["null", "exact"],
    )


def twos_table(result: Result) -> Table:
    """Set log MMD^2 beside the paper's numbers."""
    printed = get_fact("pmp/rbm-twos").table("log MMD^2")
    methods = list(result.scalars["table"])
    of_paper: list[Cell] = []
    for method in [*methods, "LP"]:
        entry = (_PRINTED.get(method, method), "twos")
        value, spread = printed.number(*entry), printed.deviation(*entry)
        of_paper.append(None if value is None else (value, spread or 0.0))
    found = _ends(result, "log_mmd2")
    return Table(
        {
            "method": [*methods, "linear programs", "independent pixels", "fresh data"],
            "log MMD²": [*found[: len(methods)], None, *found[len(methods) :]],
            "the paper": [*of_paper, None, None],
        },
        caption=f"After {judged_at(result)} sweeps; lower is better. Means and "
        f"standard errors of {result.config['n_seeds']} seeds beside the paper's.",
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
