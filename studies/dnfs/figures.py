"""The one figure of the studies: a score of every run, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.results import Result


def _draw(result: Result, key: str) -> Figure:
    figure, ax = plt.subplots(layout="constrained")
    names = []
    for method, row in result.scalars["table"].items():
        for column, cell in row.items():
            values = cell.get(key, [])
            ax.plot(values, [len(names)] * len(values), "o")
            names.append(f"{method}, {column}")
    ax.set(xlabel=key, yticks=range(len(names)), yticklabels=names)
    return figure


def scores_of_runs(key: str) -> Callable[[Result], Figure]:
    """Return the function that draws one score."""
    return partial(_draw, key=key)
