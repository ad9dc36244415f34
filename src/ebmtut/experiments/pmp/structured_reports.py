"""What is said of relearned graphs: figure, claims and their null, tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebmtut.experiments.pmp.chains import (
    CHAINS,
    Work,
    equal_sweeps,
    work,
)
from ebmtut.experiments.pmp.leads import took, with_table
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.plotting import COLORS, panel_size, part_rows
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

__all__ = [
    "check_structured",
    "draw_structured",
    "independent_bits",
    "structured_table",
    "structured_work_table",
]

_LABELS = {"log_mmd2": "log MMD²", "rmse": "RMSE of J"}
_AMOUNTS = {"reset": "sweeps", "persistent": "single-site updates a step"}


def draw_structured(result: Result) -> Figure:
    """Draw a row of panels for each graph and way of learning: both metrics."""
    table = result.scalars["table"]
    lines = [(graph, mode) for graph in table for mode in _AMOUNTS]
    figure, axes = plt.subplots(
        len(lines),
        len(_LABELS),
        figsize=panel_size(len(lines), len(_LABELS), aspect=0.55, title=0.3),
        squeeze=False,
    )
    for line, (graph, mode) in zip(axes, lines, strict=True):
        for ax, metric in zip(line, _LABELS, strict=True):
            _panel(ax, table[graph][mode], metric)
            ax.set(title=f"{graph}, {mode}", ylabel=_LABELS[metric])
            ax.set_xlabel(_AMOUNTS[mode])
    # A colour is a method, whether its chains start anew or go on: a title says which.
    named: dict[str, Artist] = {}
    for ax in axes[:2, 0]:
        for line, name in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(name.removesuffix("-reset"), line)
    figure.legend(
        list(named.values()), list(named), loc="outside lower center", ncols=3
    )
    part_rows(figure)
    return figure


def _panel(ax: Axes, rows: dict[str, dict], metric: str) -> None:
    amounts = [int(amount) for amount in next(iter(rows.values()))]
    for method, row in rows.items():
        values = [np.mean(cell[metric]) for cell in row.values()]
        ax.plot(
            [int(amount) for amount in row],
            values,
            "o-",
            ms=2.5,
            color=COLORS[method],
            label=method,
        )
    cell = next(iter(next(iter(rows.values())).values()))
    ax.axhline(
        np.mean(cell[f"null_{metric}"]),
        color=COLORS["null"],
        lw=1,
        label="nothing learned",
    )
    if metric == "log_mmd2":
        level = np.mean(cell["data_log_mmd2"])
        ax.axhline(level, color=COLORS["exact"], lw=1, label="fresh data")
    ax.set_xscale("log")
    ax.set_xticks(amounts, [str(amount) for amount in amounts])
    ax.minorticks_off()


def check_structured(result: Result) -> list[Verdict]:
    """PMP is ahead of chains that make as few sweeps, or take as long.

    "Ahead" is meant over the points of an axis, of which each is a run of its own:
    their mean difference, and its standard error.
    """
    verdicts = []
    for graph, modes in result.scalars["table"].items():
        for mode, rows in modes.items():
            for method in (m for m in rows if not m.startswith("PMP")):
                ahead = [
                    float(np.mean(cell["log_mmd2"]) - np.mean(ours["log_mmd2"]))
                    for amount, cell in rows[method].items()
                    if (ours := rows["PMP"].get(amount))
                ]
                mean, stderr = mean_and_stderr(ahead)
                name = f"{graph}, {mode}: mean log MMD^2 of {method} minus PMP's"
                of = {"stderr": stderr, "n_seeds": result.config["n_seeds"]}
                verdicts.append(claim(name, mean, "at least", 0.0, **of))
    return verdicts


def independent_bits(result: Result) -> Result:
    """Return the score of independent bits for every method, one for each graph."""

    def nothing(cell: dict[str, list[float]], null: float) -> dict[str, list[float]]:
        return cell | {"log_mmd2": [null] * len(cell["log_mmd2"])}

    table = {
        graph: {
            mode: {
                method: {
                    amount: nothing(cell, _reference(modes, "null_log_mmd2"))
                    for amount, cell in row.items()
                }
                for method, row in rows.items()
            }
            for mode, rows in modes.items()
        }
        for graph, modes in result.scalars["table"].items()
    }
    return with_table(result, table)


def _reference(modes: Mapping[str, Mapping[str, Any]], name: str) -> float:
    """Mean over all runs on one graph of what no run depends on but by noise."""
    return float(
        np.mean(
            [
                cell[name]
                for rows in modes.values()
                for row in rows.values()
                for cell in row.values()
            ]
        )
    )


def structured_table(result: Result, graph: str) -> Table:
    """Tabulate one graph, at both ends of each axis.

    Parameters
    ----------
    result
        Of this row.
    graph
        One of those that it has.
    """
    modes = result.scalars["table"][graph]
    names: list[str] = []
    cells: list[tuple[Cell, ...]] = []
    axes: list[str] = []
    for mode, rows in modes.items():
        ends = {method: _range(row) for method, row in rows.items()}
        usual = ends["PMP"]
        axes.append(f"{mode}: {usual} {_AMOUNTS[mode].removesuffix(' a step')}")
        for method, row in rows.items():
            first, *_, last = [*row.values()] * 2
            names.append(
                f"{mode}: {method}"
                + (f" ({ends[method]})" if ends[method] != usual else "")
            )
            scores = [float(np.mean(at["log_mmd2"])) for at in (first, last)]
            cells.append((*scores, float(np.mean(last["rmse"]))))
    null, data = (_reference(modes, f"{name}_log_mmd2") for name in ("null", "data"))
    cells += [(null, null, _reference(modes, "null_rmse")), (data, data, None)]
    heads = ("fewest", "most", "RMSE of J")
    columns: dict[str, list[Any]] = {
        "chains: method": [*names, "nothing learned", "fresh data"]
    }
    columns |= dict(zip(heads, map(list, zip(*cells, strict=True)), strict=True))
    return Table(
        columns,
        caption=f"The {graph}: log MMD² at both ends of the axis ({'; '.join(axes)}), "
        "and the couplings' error at its far end. Nothing learned: independent bits, "
        "couplings of zero. "
        + ("One seed." if result.config["n_seeds"] == 1 else "Means over seeds."),
        kinds=[""] * len(names) + ["null", "exact"],
    )


def _range(row: Mapping[str, Any]) -> str:
    amounts = sorted(row, key=int)
    return " to ".join(dict.fromkeys((amounts[0], amounts[-1])))


def structured_work_table(result: Result, graph: str) -> Table:
    """Tabulate what learning one graph computed, at the last point of each axis.

    Parameters
    ----------
    result
        Of this row.
    graph
        One of those that it has.
    """
    names, done, seconds = [], [], []
    for mode, rows in result.scalars["table"][graph].items():
        for method, row in rows.items():
            amount, last = [*row.items()][-1]
            names.append(f"{mode}: {method}, {amount}")
            done.append(_work_of_learning(result, graph, mode, method, int(amount)))
            seconds.append(took(np.mean(last["seconds"])))
    return Table(
        {
            "chains: method, amount": names,
            "site sums": [work.evaluations / 1e9 for work in done],
            "messages": [work.messages / 1e9 for work in done],
            "CPU time": seconds,
        },
        caption=f"The {graph}: what learning computed; sums over the couplings of one "
        "site, and messages, in thousands of millions.",
    )


def _work_of_learning(
    result: Result, graph: str, mode: str, method: str, amount: int
) -> Work:
    config = result.config
    n = config["n_nodes"] if graph == "random graph" else config["side"] ** 2
    n_chains, n_steps, n_sweeps = config["n_chains"], config["n_steps"], float(amount)
    if mode == "persistent":
        n_chains = config["n_chains_persistent"]
        n_steps = config.get("n_steps_persistent") or n_steps
        n_sweeps = amount / n if method in CHAINS else equal_sweeps(amount, n)
    pairs = n * (n - 1) / 2
    return work(method, n_chains * n_steps, n_sweeps, n, n_pairs=pairs)
