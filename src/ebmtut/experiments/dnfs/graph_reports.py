"""What the page on graph problems shows beside its figures: a table, a graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import OneOf, checked
from ebmtut.energies import GraphBatch
from ebmtut.experiments.dnfs.graph_learners import OTHER_TEMPERATURE
from ebmtut.experiments.dnfs.graph_shares import refined, shares
from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.plotting import OKABE_ITO, panel_size
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

#: The methods that the page shows; the notes show all.
SHORT = ("greedy", "untrained", "flow", "DMALA", "Gibbs", "flow + DMALA", "DMALA +")


@checked
def shares_table(
    result: Result,
    draws: Annotated[str, OneOf(("one", "best"))] = "one",
    methods: Sequence[str] | None = None,
) -> Table:
    """Set out the fraction of the optimum that methods reach, by size of graphs.

    Of one sample, beside the exact distribution's, or of the best of each graph's
    samples, beside the CPU seconds of sampling the largest graphs.
    """
    config = result.config
    n_times = config["n_time_steps"]
    most = max(config["refinements"])
    together = n_times * (most + 2)
    # A chain of DMALA evaluates both ends of each temperature; a sweep counts once.
    rows = {
        "greedy": ("greedy", "random greedy", 1, "null"),
        "untrained": ("untrained DNFS", "untrained flow", n_times, "null"),
        "flow": ("DNFS", "trained flow", n_times, ""),
        "DMALA": ("DMALA 0", "annealed DMALA", n_times, "null"),
        "Gibbs": ("Gibbs 0", "annealed Gibbs", n_times // 2, "null"),
        "untrained + DMALA": (
            f"untrained DNFS + DMALA {most}",
            "untrained flow + DMALA",
            together,
            "null",
        ),
        "flow + DMALA": (f"DNFS + DMALA {most}", "flow + DMALA", together, ""),
        "DMALA +": (f"DMALA {most}", "annealed DMALA", together, "null"),
        "Gibbs +": (f"Gibbs {most}", "annealed Gibbs", n_times * (most + 1), "null"),
    }
    shown = [rows[name] for name in methods or rows]
    columns: dict[str, list[Cell]] = {"method": [label for _, label, _, _ in shown]}
    columns["evaluations"] = [cost for _, _, cost, _ in shown]
    kind = "" if draws == "one" else ": best"
    for size in result.scalars["table"]:
        scores = [shares(result, size, metric + kind) for metric, *_ in shown]
        columns[size] = [_spread(values) for values in scores]
    kinds = [kind for *_, kind in shown]
    if draws == "one":
        words = "one sample"
        if methods is None:
            exact, optima = result.scalars["exact law"], result.scalars["optimum"]
            fractions = [
                round(exact[size] / optima[size], 4) if size in exact else None
                for size in result.scalars["table"]
            ]
            last = ("exact distribution", None, *fractions)
            for column, cell in zip(columns.values(), last, strict=True):
                column.append(cell)
            kinds.append("exact")
    else:
        spent = result.scalars["table"][size]
        seconds = [float(np.mean(spent[f"{m}: CPU seconds"])) for m, *_ in shown]
        columns["CPU s"] = [float(f"{v:.2g}") for v in seconds]
        words = f"the best of {config['n_copies']} samples; CPU seconds of {size}"
    return Table(
        columns,
        caption=f"Fraction of the optimum by number of vertices, {words}. Standard "
        "errors over runs, where there are several.",
        kinds=kinds,
    )


def rivals_table(
    result: Result, size: str | None = None, *, printed: bool = True
) -> Table:
    """Set out what other learners reach in about as much time as the message network.

    With the fractions that the paper prints, if `printed`.
    """
    size = size or next(iter(result.scalars["table"]))
    metrics = result.scalars["table"][size]
    problem = result.config["problem"]
    is_cut = problem == "max-cut"
    fact = get_fact(f"dnfs/{problem}").table("cut size" if is_cut else "set size")
    column = f"{'BA' if is_cut else 'ER'}{size}"
    top = fact.number("exact solver", column)
    assert top is not None
    names = {
        "DNFS": "flow, messages",
        "leGF": "flow, leGF",
        "GFlowNet": "GFlowNet",
    }
    rows: list[tuple[str, str, str | None, str]] = [
        ("greedy", "random greedy", None, "null"),
        ("untrained DNFS", "untrained flow", None, "null"),
    ]
    for metric, label in names.items():
        if metric in metrics:
            of = "training" if metric == "DNFS" else f"training of {metric}"
            rows.append((metric, label, f"{of}: CPU seconds", ""))
    columns: dict[str, list[Cell]] = {"method": [label for _, label, _, _ in rows]}
    heads = ("one sample", f"best of {result.config['n_copies']}")
    for head, kind in zip(heads, ("", ": best"), strict=True):
        scores = [shares(result, size, metric + kind) for metric, *_ in rows]
        columns[head] = [_spread(values) for values in scores]
    columns["training, CPU s"] = [
        None if key is None else _digits(metrics[key]) for _, _, key, _ in rows
    ]
    columns["sampling, CPU s"] = [
        _digits(metrics[f"{metric}: CPU seconds"]) for metric, *_ in rows
    ]
    kinds = [kind for *_, kind in rows]
    for method in ("DNFS", "GFlowNet") if printed else ():
        score = fact.number(method, column)
        assert score is not None
        last = (f"the paper's {method}", round(score / top, 3), None, None, None)
        for cells, cell in zip(columns.values(), last, strict=True):
            cells.append(cell)
        kinds.append("paper")
    best = "cut" if is_cut else "independent set"
    return Table(
        columns,
        caption=f"Fraction of the largest {best}, graphs of {size} vertices.",
        kinds=kinds,
    )


def temperature_table(*results: Result) -> Table:
    """Set a flow that learned while the temperature fell beside one at a single one."""
    columns: dict[str, list[Cell]] = {"graphs": []}
    for result in results:
        most = max(result.config["refinements"])
        falling, single = "DNFS", OTHER_TEMPERATURE
        if not result.config["rollout"]["anneal"]:
            falling, single = single, falling
        heads = {
            "one T": single,
            "T falls": falling,
            "one T, + DMALA": refined(single, most),
            "T falls, + DMALA": refined(falling, most),
        }
        problem = "cuts" if result.config["problem"] == "max-cut" else "sets"
        for size in result.scalars["table"]:
            if OTHER_TEMPERATURE not in result.scalars["table"][size]:
                continue
            columns["graphs"].append(f"{problem}, {size}")
            for head, metric in heads.items():
                cell = _spread(shares(result, size, metric))
                columns.setdefault(head, []).append(cell)
    return Table(
        columns,
        caption="Share of the optimum of one draw, by the temperature of training.",
    )


def _digits(values: list[float]) -> float:
    """Two digits of a mean."""
    return float(f"{np.mean(values):.2g}")


def _spread(values: list[float]) -> Cell:
    """Mean and its error, or the one value there is; that of all where runs agree."""
    mean, stderr = mean_and_stderr(values)
    return round(mean, 3) if stderr is None else (mean, stderr)


def draw_graph_states(
    graphs: GraphBatch,
    states: dict[str, Float[Tensor, " n_sites"]],
    *,
    mark_cut: bool = False,
) -> Figure:
    """Draw one graph a panel for each state, its vertices on a circle."""
    n = int(graphs.n_vertices[0])
    angle = 2 * math.pi * np.arange(n) / n
    place = np.stack([np.sin(angle), np.cos(angle)], 1)
    size = panel_size(1, len(states), aspect=1.1)
    figure, axes = plt.subplots(1, len(states), figsize=size)
    for ax, (title, x) in zip(np.atleast_1d(axes), states.items(), strict=True):
        bits = x[:n].numpy()
        for i, j in np.argwhere(np.triu(graphs.adjacency[0].numpy())):
            strong = bits[i] != bits[j] if mark_cut else bits[i] and bits[j]
            color = OKABE_ITO["vermillion"] if strong else "0.75"
            ax.plot(*place[[i, j]].T, color=color, lw=1.5 if strong else 0.6, zorder=1)
        fill = np.where(bits > 0, OKABE_ITO["blue"], "white")
        ax.scatter(*place.T, c=fill, edgecolors=OKABE_ITO["blue"], s=40, zorder=2)
        ax.set_title(title, fontsize=8)
        ax.set_aspect("equal")
        ax.axis("off")
    return figure
