"""What is said of RBMs that learned digits: scores, tables, claims and their null."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebmtut.experiments.pmp.chains import Work, work
from ebmtut.experiments.pmp.leads import lead, took, with_table
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.losses import sweeps_of_chain
from ebmtut.plotting import image_grid
from ebmtut.results import Result
from ebmtut.results.tables import Table

__all__ = [
    "independent_pixels",
    "judged_at",
    "pmp_is_lowest",
    "rbm_table",
    "rbm_work_table",
    "score",
    "scores",
    "sees_pairs",
    "sheet",
]

_MEASURES = {
    "log_mmd2": "log MMD²",
    "sharp": "sharp",
    "pairs": "pairs",
    "nearest": "nearest",
}
_CLAIMED = {
    "log_mmd2": "log MMD^2",
    "sharp": "log MMD^2, sharp kernel",
    "pairs": "error of pair covariances",
}


def score(
    result: Result, method: str, measure: str, k: int, sampler: str = "own"
) -> float:
    """Mean over seeds of a measure after k sweeps; NaN if learning diverged."""
    row = result.scalars["table"][method]
    return float(np.mean(row.get(f"{sampler}/{measure}@{k}", [np.nan])))


def scores(
    result: Result, method: str, measure: str, sampler: str = "own"
) -> dict[int, list[float]]:
    """Scores by number of sweeps, one a seed; NaN if learning diverged."""
    row = result.scalars["table"][method]
    lost = [float("nan")] * len(row["seconds"])
    return {
        k: row.get(f"{sampler}/{measure}@{k}", lost) for k in result.config["sweeps"]
    }


def judged_at(result: Result) -> int:
    """Sweeps at which methods are compared: those of learning."""
    return int(result.config["n_sweeps"])


def rbm_table(result: Result) -> Table:
    """Tabulate scores at the sweeps of learning."""
    k = judged_at(result)
    table = result.scalars["table"]
    columns: dict[str, list[Any]] = {
        "learned with": [*table, "independent pixels", "fresh data (expected)"]
    }
    for measure, head in _MEASURES.items():
        if measure not in result.scalars["null"]:
            continue  # stored before pairs were judged
        values = [
            mean_and_stderr(scores(result, method, measure)[k]) for method in table
        ]
        columns[head] = [v if e is None else (v, e) for v, e in values]
        columns[head] += [result.scalars[name][measure] for name in ("null", "data")]
    return Table(
        columns,
        caption=f"Samples after {k} sweeps: log MMD² with the paper's kernel, with a "
        "sharper one, "
        + ("the error of pair covariances, " if "pairs" in columns else "")
        + "and the part of pixels that differ from the nearest datum. "
        + (
            "Errors over seeds."
            if result.config["n_seeds"] > 1
            else "One seed, so no errors."
        ),
        kinds=[""] * len(table) + ["null", "exact"],
    )


def rbm_work_table(result: Result) -> Table:
    """Tabulate what learning computed."""
    table = result.scalars["table"]
    done = [_work_of_learning(result, method) for method in table]
    return Table(
        {
            "learned with": list(table),
            "site sums": [work.evaluations / 1e9 for work in done],
            "messages": [work.messages / 1e9 for work in done],
            "CPU time": [took(np.mean(row["seconds"])) for row in table.values()],
        },
        caption="What learning computed: sums over the couplings of one site, and "
        "messages, in thousands of millions.",
    )


def _work_of_learning(result: Result, method: str) -> Work:
    config, n_visible = result.config, result.arrays["data"].shape[1]
    default = config["n_sweeps_of"].get(method, config["n_sweeps"])
    return work(
        method,
        config["n_chains"] * config["n_steps"],
        sweeps_of_chain(method) or default,
        n_visible + config["n_hidden"],
        n_pairs=n_visible * config["n_hidden"],
    )


def pmp_is_lowest(result: Result, measure: str = "pairs") -> list[Verdict]:
    """Set every method beside PMP at the sweeps of learning."""
    k = judged_at(result)
    ours = scores(result, "PMP", measure)
    verdicts = []
    for method in (m for m in result.scalars["table"] if m != "PMP"):
        ahead, stderr = lead(scores(result, method, measure), ours, k)
        name = f"{_CLAIMED[measure]} of {method} minus that of PMP at {k} sweeps"
        n = len(ours[k])
        verdicts.append(claim(name, ahead, "at least", 0.0, stderr=stderr, n_seeds=n))
    return verdicts


def sees_pairs(
    result: Result, k: int, sampler: str = "own", measure: str = "pairs"
) -> Verdict:
    """Set PMP beside independent pixels, by a measure that sees more than means."""
    own = scores(result, "PMP", measure, sampler)
    null = result.scalars["null"][measure]
    of_null = {j: [null] * len(seeds) for j, seeds in own.items()}
    behind, stderr = lead(own, of_null, k)
    name = f"{_CLAIMED[measure]}: PMP minus independent pixels"
    return claim(name, behind, "at most", 0.0, stderr=stderr, n_seeds=len(own[k]))


def independent_pixels(result: Result) -> Result:
    """Return the scores of independent pixels for every method: nothing learned."""
    null = result.scalars["null"]

    def learned_nothing(name: str, seeds: list[float]) -> list[float]:
        measure = name.split("/")[-1].split("@")[0]
        return [null[measure]] * len(seeds) if measure in null else list(seeds)

    table = {
        method: {name: learned_nothing(name, seeds) for name, seeds in row.items()}
        for method, row in result.scalars["table"].items()
    }
    return with_table(result, table)


def sheet(ax: Axes, pictures: np.ndarray | None, n: int, n_columns: int) -> None:
    """Show some pictures, or say that there are none."""
    if pictures is None:
        ax.text(0.5, 0.5, "diverged", ha="center", va="center", size=9)
        ax.set_axis_off()
        return
    side = round(pictures.shape[1] ** 0.5)
    image_grid(ax, pictures[:n].reshape(-1, side, side), n_columns)
