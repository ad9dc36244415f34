"""What the page on graph problems shows beside its figures: a table, a graph."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.energies import GraphBatch
from ebmtut.experiments.dnfs.graph_problems import shares
from ebmtut.plotting import OKABE_ITO, panel_size
from ebmtut.results import Result

__all__ = ["draw_graph_states", "shares_table"]


def shares_table(result: Result, size: str, *, seconds: bool = False) -> str:
    """Set out every method's share of the optimum on graphs of one size.

    Parameters
    ----------
    result
        Of dnfs/max-independent-set or dnfs/max-cut.
    size
        Which graphs.
    seconds
        Whether to add the CPU seconds of sampling.

    Returns
    -------
    text
        A line a method: how many evaluations of all ratios it makes at a state, the
        mean share of one state, and that of the best of each graph's.
    """
    config = result.config
    n_times = config["n_time_steps"]
    most = max(config["refinements"])
    together = n_times * (most + 2)
    rows = [
        ("greedy", "random greedy", 1),
        ("untrained DNFS", "flow, untrained", n_times),
        ("DNFS", "flow, trained", n_times),
        ("DMALA 0", "annealed DMALA", n_times),
        ("Gibbs 0", "annealed Gibbs", n_times),
        (f"DNFS + DMALA {most}", "flow + DMALA", together),
        (f"DMALA {most}", "annealed DMALA", together),
        (f"Gibbs {most}", "annealed Gibbs", together),
    ]
    head = f"{'':17}evaluations  one state  best of {config['n_copies']}"
    lines = [head + ("   CPU s" if seconds else "")]
    for metric, label, cost in rows:
        one = float(np.mean(shares(result, size, metric)))
        best = float(np.mean(shares(result, size, f"{metric}: best")))
        line = f"{label:17}{cost:11}  {one:9.3f}  {best:9.3f}"
        if seconds:
            spent = result.scalars["table"][size][f"{metric}: CPU seconds"]
            line += f"   {np.mean(spent):5.1f}"
        lines.append(line)
    if size in result.scalars["exact law"]:
        law = result.scalars["exact law"][size] / result.scalars["optimum"][size]
        lines.append(f"{'exact law':17}{'':11}  {law:9.3f}")
    return "\n".join(lines)


def draw_graph_states(
    graphs: GraphBatch,
    states: dict[str, Float[Tensor, " n_sites"]],
    *,
    mark_cut: bool = False,
) -> Figure:
    """Draw one graph a panel for each state, its vertices on a circle.

    Parameters
    ----------
    graphs
        A single graph.
    states
        Bits by the panel's title; ones are filled.
    mark_cut
        Whether edges between the sides are drawn strong, else those inside the
        chosen vertices.
    """
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
