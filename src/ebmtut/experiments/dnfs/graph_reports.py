"""Tables and pictures of graph problems, for the pages."""

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import OneOf, checked
from ebmtut.energies import GraphBatch
from ebmtut.experiments.dnfs.graph_problems import fractions, n_evaluations, refined
from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.pivot import spread, table_of
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.plotting import OKABE_ITO
from ebmtut.results import Cell, Result, Table

#: The methods that the page shows; the notes show all.
SHORT = ("greedy", "untrained", "flow", "DMALA", "Gibbs", "flow + DMALA", "DMALA +")


class _Line(NamedTuple):
    """A method of a table: its scores, its label, its evaluations and its kind."""

    metric: str
    label: str
    evaluations: int
    kind: str = "null"


def _lines(result: Result) -> dict[str, _Line]:
    """Methods of a result."""
    n_times, most = result.config["n_time_steps"], max(result.config["refinements"])
    together = n_evaluations(n_times, most)
    return {
        "greedy": _Line("greedy", "random greedy", 1),
        "untrained": _Line("untrained DNFS", "untrained flow", n_times),
        "flow": _Line("DNFS", "trained flow", n_times, ""),
        "DMALA": _Line("DMALA 0", "annealed DMALA", n_times),
        "Gibbs": _Line("Gibbs 0", "annealed Gibbs", n_times // 2),
        "untrained + DMALA": _Line(
            f"untrained DNFS + DMALA {most}", "untrained flow + DMALA", together
        ),
        "flow + DMALA": _Line(f"DNFS + DMALA {most}", "flow + DMALA", together, ""),
        "DMALA +": _Line(f"DMALA {most}", "annealed DMALA", together),
        "Gibbs +": _Line(f"Gibbs {most}", "annealed Gibbs", n_times * (most + 1)),
    }


@checked
def fractions_table(
    result: Result,
    draws: Annotated[str, OneOf(("one", "best"))] = "one",
    methods: Sequence[str] | None = None,
) -> Table:
    """Fraction of the optimum by size of graphs: of one sample, or of the best."""
    rows, config = _lines(result), result.config
    shown = [rows[name] for name in methods or rows]
    columns: dict[str, list[Cell]] = {"method": [label for _, label, _, _ in shown]}
    columns["evaluations"] = [cost for _, _, cost, _ in shown]
    kind = "" if draws == "one" else ": best"
    errors: dict[bool, list[float]] = {}
    for size in result.scalars["table"]:
        scores = [fractions(result, size, metric + kind) for metric, *_ in shown]
        columns[size] = [
            round(float(np.mean(values)), 3) if methods else spread(values, 3)
            for values in scores
        ]
        for (_, label, *_), values in zip(shown, scores, strict=True):
            known = errors.setdefault("untrained" in label, [0.0])
            known.append(mean_and_stderr(values)[1] or 0.0)
    kinds = [kind for *_, kind in shown]
    if draws == "one":
        words = "one sample"
        if methods is None:
            columns["method"].append("exact distribution")
            columns["evaluations"].append(None)
            for size, optimum in result.scalars["optimum"].items():
                mean = result.scalars["exact law"].get(size)
                columns[size].append(mean and round(mean / optimum, 4))
            kinds.append("exact")
    else:
        spent = result.scalars["table"][size]
        columns["CPU s"] = [_digits(spent[f"{m}: CPU seconds"]) for m, *_ in shown]
        words = f"the best of {config['n_copies']} samples; CPU seconds of {size}"
    measured = methods is not None and max(errors[False]) > 0
    return Table(
        columns,
        caption=f"Fraction of the optimum by number of vertices, {words}. Standard "
        "errors over runs, where there are several"
        + (f", are at most {max(errors[False]):.2g}" if measured else "")
        + (f" (untrained flow: {max(errors[True]):.2g})." if measured else "."),
        kinds=kinds,
    )


def draw_fractions_by_method(result: Result, lowest: float) -> Figure:
    """Draw the fraction of the optimum of each method of the page, size by size.

    Methods below the axis have their range in words.
    """
    sizes = list(result.scalars["table"])
    lines = [_lines(result)[name] for name in SHORT]
    found = np.array(
        [[np.mean(fractions(result, s, of.metric)) for of in lines] for s in sizes]
    )
    figure, ax = plt.subplots(figsize=(4.8, 3.4))
    marks = zip(("o", "s", "^"), ("blue", "orange", "green"), strict=True)
    for size, means, (mark, color) in zip(sizes, found, marks, strict=False):
        shown = np.where(means < lowest, np.nan, means)
        label = size.replace("-", "–")
        ax.plot(shown, range(len(lines)), mark, color=OKABE_ITO[color], label=label)
    for k, values in enumerate(found.T):
        if max(values) < lowest:
            ends = dict.fromkeys(f"{end(values):.2f}" for end in (min, max))
            ax.text(lowest, k, f" ← {' to '.join(ends)}", va="center")
    ax.axvline(1, color="black", lw=1.2, ls="--")
    names = [f"{of.label} ({of.evaluations})" for of in lines]
    ax.set_yticks(range(len(lines)), names)
    ax.set(xlim=(lowest, None), ylim=(len(lines) - 0.5, -0.5))
    ax.set(xlabel="fraction of the optimum (dashed)")
    ax.grid(axis="y", lw=0.5, color="0.9")
    figure.legend(title="vertices", loc="outside upper right", ncols=3)
    return figure


def learners_table(result: Result, size: str | None = None) -> Table:
    """Fractions that other learners reach, and those that the paper prints."""
    size = size or next(iter(result.scalars["table"]))
    metrics = result.scalars["table"][size]
    problem = result.config["problem"]
    is_cut = problem == "max-cut"
    fact = get_fact(f"dnfs/{problem}").table("cut size" if is_cut else "set size")
    column = f"{'BA' if is_cut else 'ER'}{size}"
    top = fact.number("exact solver", column)
    assert top is not None
    names = {
        "greedy": "random greedy",
        "untrained DNFS": "untrained flow",
        "DNFS": "flow, messages",
        "leGF": "flow, leGF",
        "GFlowNet": "GFlowNet",
    }
    shown = [metric for metric in names if metric in metrics]
    lines: list[list[Cell]] = []
    for metric in shown:
        of = "training" if metric == "DNFS" else f"training of {metric}"
        seconds = metrics.get(f"{of}: CPU seconds")
        draws = (fractions(result, size, metric + kind) for kind in ("", ": best"))
        trained = _digits(seconds) if seconds else None
        sampled = _digits(metrics[f"{metric}: CPU seconds"])
        lines.append([names[metric], *(spread(d, 3) for d in draws), trained, sampled])
    for method in ("DNFS", "GFlowNet"):
        score = fact.number(method, column)
        assert score is not None
        lines.append([f"the paper's {method}", round(score / top, 3), None, None, None])
    best = f"best of {result.config['n_copies']}"
    heads = ("method", "one sample", best, "training, CPU s", "sampling, CPU s")
    kinds = ["null" if m in ("greedy", "untrained DNFS") else "" for m in shown]
    return table_of(
        heads,
        lines,
        caption=f"Fraction of the largest {'cut' if is_cut else 'independent set'}, "
        f"graphs of {size} vertices.",
        kinds=kinds + ["paper"] * (len(lines) - len(shown)),
    )


def temperature_table(*results: Result) -> Table:
    """Set a flow that learned while the temperature fell beside one at a single one."""
    columns: dict[str, list[Cell]] = {"graphs": []}
    for result in results:
        most = max(result.config["refinements"])
        falling, single = "DNFS", "other temperature"
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
            if "other temperature" not in result.scalars["table"][size]:
                continue
            columns["graphs"].append(f"{problem}, {size}")
            for head, metric in heads.items():
                cell = spread(fractions(result, size, metric), 3)
                columns.setdefault(head, []).append(cell)
    return Table(
        columns,
        caption="Fraction of the optimum in one sample, by temperature of training.",
    )


def _digits(values: list[float]) -> float:
    """Two digits of a mean."""
    return float(f"{np.mean(values):.2g}")


def draw_graph_states(
    graphs: GraphBatch, states: dict[str, Float[Tensor, " n_sites"]]
) -> Figure:
    """Draw one graph a panel for each state, its vertices on a circle."""
    n = int(graphs.n_vertices[0])
    angle = 2 * math.pi * np.arange(n) / n
    place = np.stack([np.sin(angle), np.cos(angle)], 1)
    figure, axes = plt.subplots(1, len(states), figsize=(4.8, 2.6))
    for ax, (title, x) in zip(np.atleast_1d(axes), states.items(), strict=True):
        bits = x[:n].numpy()
        for i, j in np.argwhere(np.triu(graphs.adjacency[0].numpy())):
            strong = bits[i] and bits[j]
            color = OKABE_ITO["vermillion"] if strong else "0.75"
            ax.plot(*place[[i, j]].T, color=color, lw=1.5 if strong else 0.6, zorder=1)
        fill = np.where(bits > 0, OKABE_ITO["blue"], "white")
        ax.scatter(*place.T, c=fill, edgecolors=OKABE_ITO["blue"], s=40, zorder=2)
        ax.set_title(title, fontsize=10)
        ax.set_aspect("equal")
        ax.axis("off")
    return figure
