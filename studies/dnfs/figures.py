"""What the studies share: one figure, a score of every run, and no claims."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs.recipes import LatticeConfig
from ebmtut.experiments.experiment import Experiment, no_claims
from ebmtut.results import Result

#: Sizes of the studies of lattices, at quick and at full scale.
QUICK = LatticeConfig(problems=(), n_seeds=1, n_samples=200, n_chain_samples=20)
FULL = LatticeConfig(problems=(), n_seeds=2, n_samples=1000, n_chain_samples=50)


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


def study(
    id: str, title: str, quick: Any, full: Any, *, score: str = "ESS", **how: Any
) -> Experiment[Any]:
    """Declare a study: a computation beside the rows, which claims nothing."""
    return Experiment(
        id=id,
        title=title,
        presets={"quick": quick, "full": full},
        figure=scores_of_runs(score),
        check=no_claims,
        **how,
    )
