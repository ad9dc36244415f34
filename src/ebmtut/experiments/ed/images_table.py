"""Row ed/images-table (Table 2): likelihoods of energies of binary images."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.ed import images
from ebmtut.experiments.ed.image_models import DISCREPANCIES, METHODS
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.plotting import COLORS, figure_size
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

__all__ = ["EXPERIMENT", "how_table", "nll_table"]

#: Beyond this many nats between a walk and one of a quarter of its steps an estimate
#: of log Z has not settled.
SETTLED = 1.0


def nll_table(result: Result) -> Table:
    """Write NLLs of held-out images, a row a method and a column a set.

    Parameters
    ----------
    result
        Of this row.
    """
    scalars = result.scalars
    table, sets = scalars["table"], list(scalars["null"])
    columns: dict[str, list[Cell]] = {
        "NLL [nats]": [*table, "mixture of Bernoulli laws", "independent bits"]
    }
    for name in sets:
        found = [_mean(row[name], "nll", "nll_se") for row in table.values()]
        null = scalars["null"][name]["nll"]
        columns[name] = [*found, scalars["mixture"][name], null]
    return Table(
        columns,
        kinds=[""] * (len(table) + 1) + ["null"],
        caption="Errors: of log Z, by the scatter of the chains.",
    )


def how_table(result: Result, name: str) -> Table:
    """Write how far the numbers of one set can be trusted, and what they cost.

    Parameters
    ----------
    result
        Of this row.
    name
        Of the set.
    """
    rows = {method: row[name] for method, row in result.scalars["table"].items()}
    heads = {
        "settled": "log Z minus a short walk's [nats]",
        "ess": "effective share",
        "variety": "variety / data's",
        "seconds": "training [CPU s]",
    }
    columns: dict[str, list[Cell]] = {name: [*rows, "independent bits"]}
    for metric, head in heads.items():
        means = [_mean(row, metric)[0] for row in rows.values()]
        found: list[Cell] = [*means]
        if metric == "seconds":
            found = [round(s) if math.isfinite(s) else None for s in means]
        columns[head] = [*found, result.scalars["null"][name].get(metric)]
    return Table(columns, kinds=[""] * len(rows) + ["null"], digits=2)


def _mean(
    cell: dict[str, Any], metric: str, error: str = ""
) -> tuple[float, float | None]:
    values = cell.get(metric, [None])
    return mean_and_stderr(values, cell.get(error, [None] * len(values)))


def draw_table(result: Result) -> Figure:
    """Draw the NLL of every run, with the mixture's and independent bits' as lines."""
    scalars = result.scalars
    table, sets = scalars["table"], list(scalars["null"])
    figure, ax = plt.subplots(figsize=figure_size("wide"))
    for k, name in enumerate(sets):
        width = (k - 0.4, k + 0.4)
        for value, color, style, label in (
            (scalars["null"][name]["nll"], COLORS["null"], "-", "independent bits"),
            (scalars["mixture"][name], COLORS["exact"], "--", "mixture"),
        ):
            ax.plot(width, (value, value), style, color=color, lw=1.5,
                    label=label if k == 0 else None)  # fmt: skip
        for place, (method, row) in enumerate(table.items()):
            values = row[name].get("nll", [math.nan])
            at = k + 0.6 * ((place + 0.5) / len(table) - 0.5)
            chains = method.startswith("PCD")
            ax.plot(
                [at] * len(values),
                values,
                "s" if chains else "o",
                color=COLORS[method.removeprefix("PCD, ")],
                ls="none",
                label=method if k == 0 else None,
            )
    ax.set_xticks(range(len(sets)), sets)
    ax.set(ylabel="held-out NLL [nats]", xlim=(-0.6, len(sets) - 0.4))
    figure.legend(ncols=4, loc="outside lower center", fontsize=9)
    return figure


def check_table(result: Result) -> list[Verdict]:
    """Ask energy discrepancy for more than a mixture, and the walks to settle."""
    verdicts = []
    for method, row in result.scalars["table"].items():
        for name, cell in row.items():
            nll, stderr = _mean(cell, "nll", "nll_se")
            of: dict[str, Any] = {"stderr": stderr, "n_seeds": result.config["n_seeds"]}
            if method in DISCREPANCIES:
                label = f"{method}, {name}: NLL minus that of the mixture"
                beside = result.scalars["mixture"][name]
                verdicts.append(claim(label, nll - beside, "at most", 0.0, **of))
            if "settled" in cell:
                label = f"{method}, {name}: change of log Z in the last three quarters"
                moved = abs(_mean(cell, "settled")[0])
                verdicts.append(claim(label, moved, "at most", SETTLED, sanity=True))
    return verdicts


_PRESETS = images.EXPERIMENT.presets

EXPERIMENT = replace(
    images.EXPERIMENT,
    id="ed/images-table",
    title="Test NLL of binary image models",
    presets={**_PRESETS, "quick": replace(_PRESETS["quick"], methods=METHODS)},
    figure=draw_table,
    check=check_table,
)
