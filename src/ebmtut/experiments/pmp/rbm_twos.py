"""Experiment pmp/rbm-twos (Figure 7 and its table): RBMs that learn the digit 2."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.pmp import rbm_digits as digits
from ebmtut.experiments.verdicts import Verdicts, compare
from ebmtut.plotting import TEXT_WIDTH
from ebmtut.results import Cell, Result, Table

#: As the table of the paper spells the methods.
_OTHERS = ("linear programs", "independent pixels", "perfect sampler (expected)")
_PRINTED = {"PCD-1": "PCD1", "PCD-100": "PCD100", "LP": "PmapLP"}


def draw_twos(result: Result) -> Figure:
    """Draw data, samples of all methods and independent pixels, a row each."""
    k = result.config["n_sweeps"]
    rows = {"data": "data"} | {m: f"{m}/own@{k}" for m in result.scalars["table"]}
    rows["independent\npixels"] = "null"
    size = (0.7 * TEXT_WIDTH, 0.5 * len(rows))
    figure, axes = plt.subplots(len(rows), 1, figsize=size)
    for ax, (name, key) in zip(axes, rows.items(), strict=True):
        digits.sheet(ax, result.arrays.get(key), 8, 8, vmin=-0.1)
        digits.name_row(ax, name, rotation=0)
    return figure


def check_twos(result: Result) -> Verdicts:
    """PMP has the lowest error of pairs; the paper's numbers are compared, too."""
    k = result.config["n_sweeps"]
    yield from digits.pmp_is_lowest(result)
    yield digits.sees_pairs(result, k)
    if result.scale == "quick":
        return
    excuse = (
        f"{result.scalars['n_data']} twos of {result.scalars['source']} "
        f"and {result.config['n_steps']} updates (the paper has about "
        "6000 and 1000), and it does not say how many samples it evaluates"
    )
    for method, row in result.scalars["table"].items():
        values = row.get(f"own/log_mmd2@{k}", [float("nan")])
        entry = ("pmp/rbm-twos", "log MMD^2", _PRINTED.get(method, method), "twos")
        yield compare(*entry, values, excuse=excuse)


def pairs_table(result: Result) -> Table:
    """Tabulate the error of pair covariances, and the time of learning."""
    table = result.scalars["table"]
    seconds = [round(float(np.mean(row["seconds"]))) for row in table.values()]
    return Table(
        {
            "method": [*table, "independent pixels", "perfect sampler, expected"],
            "error of covariances": digits.shown_scores(result, "pairs"),
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
    for method in (*methods, "LP"):
        entry = (_PRINTED.get(method, method), "twos")
        value = printed.number(*entry)
        of_paper.append(None if value is None else (value, printed.deviation(*entry)))
    found = digits.shown_scores(result, "log_mmd2")
    return Table(
        {
            "method": [*methods, *_OTHERS],
            "log MMD²": [*found[: len(methods)], None, *found[len(methods) :]],
            "the paper": [*of_paper, None, None],
        },
        caption=f"After {result.config['n_sweeps']} sweeps; lower is better. Means and "
        f"standard errors of {result.config['n_seeds']} seeds beside the paper's.",
        kinds=[""] * len(methods) + ["paper", "null", "exact"],
    )


def programs_table(result: Result) -> Table:
    """Tabulate the reduced problem, on which linear programs can learn, too."""
    k = result.config["n_sweeps"]
    rows, ends = result.scalars["reduced"], result.scalars["reduced_ends"]
    columns: dict[str, list[Cell]] = {"method": [*rows, *_OTHERS[1:]]}
    for measure, head in (("log_mmd2", "log MMD²"), ("pairs", "pairs")):
        found = [row[f"own/{measure}@{k}"][0] for row in rows.values()]
        columns[head] = [*found, *(ends[of][measure] for of in ("null", "data"))]
    seconds = [row["seconds"][0] for row in rows.values()]
    columns["CPU time [s]"] = [*seconds, None, None]
    return Table(
        columns,
        caption="Pictures of 7 × 7 pixels, 10 hidden units, 60 updates, one seed: "
        "log MMD² with the paper's kernel, and the error of pair covariances.",
        kinds=[""] * len(rows) + ["null", "exact"],
    )


_TWOS = digits.RBMConfig(
    digit=2, n_hidden=250, n_judged=500, sweeps=(100,), n_sweeps_of={"PMP": 25}
)


EXPERIMENT = digits.rbm_row(
    id="pmp/rbm-twos",
    title="RBM on the twos, with LP solver",
    presets={
        "quick": replace(digits.QUICK, digit=2, sweeps=(25,)),
        "full": replace(_TWOS, n_seeds=3, lp_steps=60),
        "paper": replace(_TWOS, n_sweeps_of={}, n_seeds=10),
    },
    figure=draw_twos,
    check=check_twos,
)
