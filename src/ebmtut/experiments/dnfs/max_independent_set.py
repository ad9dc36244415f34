"""Row dnfs/max-independent-set: one flow over random graphs, beside annealing."""

from __future__ import annotations

from dataclasses import replace

from ebmtut.experiments.dnfs.graph_problems import (
    GraphProblemConfig,
    cells,
    check_shares,
    draw_shares,
    graph_job,
    n_seeds,
    optima,
)
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.verdicts import Verdict
from ebmtut.results import Result

__all__ = ["EXPERIMENT"]

_FULL = GraphProblemConfig(problem="max-independent-set")


def check(result: Result) -> list[Verdict]:
    """Set the row beside the paper's table."""
    return check_shares(result, "ER", "set size")


EXPERIMENT = Experiment(
    id="dnfs/max-independent-set",
    title="Maximum independent set",
    presets={
        "quick": replace(
            _FULL,
            sizes=("16-20",),
            n_train=100,
            n_test=20,
            n_copies=16,
            refinements=(0, 1, 3),
            train=replace(_FULL.train, n_steps=300),
            n_seeds=(1,),
        ),
        "full": _FULL,
    },
    cells=cells,
    job=graph_job,
    n_seeds=n_seeds,
    arrays={"losses": "losses/{cell}"},
    stack=True,
    extras=optima,
    figure=draw_shares,
    check=check,
)
