"""What the row dnfs/ising says, as tables: quality, kinds of weights, and cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ebmtut.experiments.dnfs.lattices import LEARNED
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

__all__ = ["payback", "quality_table", "training_table", "weights_table"]

#: Kinds of weights, by the suffix under which the row keeps them.
WEIGHTS = {
    "": "steps, continuous time",
    " chain": "steps, discrete chain",
    " swept": "steps and sweeps, continuous time",
    " path": "exact, continuous time",
    " exact": "exact, its candidates",
}


def quality_table(result: Result, column: str) -> Table:
    """Set ESS beside the error of log Z and the energies, of every method.

    Parameters
    ----------
    result
        Of the row dnfs/ising.
    column
        The lattice.
    """
    exact = result.scalars["exact"][column]
    rows = _rows_of(result, column)
    heads = ("ESS", "log Z error", "energy", "weighted energy")
    table: dict[str, list[Cell]] = {"method": [*rows, "exact"]}
    for head in heads:
        table[head] = [_spread(cell[head]) for cell in rows.values()]
    table["ESS"].append(1.0)
    table["log Z error"].append(0.0)
    for head in heads[2:]:
        table[head].append(round(exact["energy"], 3))
    table["runs"] = [len(cell["ESS"]) for cell in rows.values()] + [None]
    kinds = ["" if method in LEARNED else "null" for method in rows]
    return Table(
        table,
        caption=f"{column}: log Z is {exact['log Z']:.3f}. Errors over runs.",
        kinds=[*kinds, "exact"],
        digits=4,
    )


def weights_table(result: Result, column: str, method: str = "ours") -> Table:
    """Judge one network by every kind of simulation and of weights.

    Parameters
    ----------
    result, column
        As for `quality_table`.
    method
        Whose network.
    """
    cell = result.scalars["table"][method][column]
    exact = result.scalars["exact"][column]["energy"]
    n_steps = result.config["n_time_steps"]
    n_candidates = round(float(np.mean(cell["candidates"])))
    n_jumps = round(float(np.mean(cell["jumps"])))
    evaluations = {"": n_steps, " swept": n_steps, " chain": 2 * n_steps}
    thinned = n_candidates + n_jumps
    table: dict[str, list[Cell]] = {"simulation, weights": [*WEIGHTS.values(), "exact"]}
    table["evaluations"] = [*(evaluations.get(k, thinned) for k in WEIGHTS), None]
    for head in ("ESS", "log Z error", "energy", "weighted energy"):
        table[head] = [_spread(cell[head + kind]) for kind in WEIGHTS]
    table["ESS"].append(1.0)
    table["log Z error"].append(0.0)
    table["energy"].append(round(exact, 3))
    table["weighted energy"].append(round(exact, 3))
    return Table(
        table,
        caption=f"{column}, {n_steps} steps. Errors over runs.",
        kinds=["" for _ in WEIGHTS] + ["exact"],
        digits=4,
    )


def payback(cost: float, training: float, null_cost: float) -> float:
    """Effective samples from which on a training is paid back.

    Parameters
    ----------
    cost, null_cost
        Of an effective sample, of the flow and of a null.
    training
        Cost of the training, in the same units.

    Returns
    -------
    number
        Infinite where a null's sample costs no more.
    """
    return training / (null_cost - cost) if null_cost > cost else math.inf


def training_table(result: Result, column: str) -> Table:
    """Answer from how many effective samples on the training is paid back.

    Against each null whose samples are independent, in evaluations of all
    sites of a state and in CPU seconds; a backward pass counts as two.

    Parameters
    ----------
    result, column
        As for `quality_table`.
    """
    ours = result.scalars["table"]["ours"][column]
    nulls = _rows_of(result, column)
    n_steps = result.config["n_time_steps"]

    def mean(cell: dict[str, Any], name: str) -> float:
        return float(np.mean(cell[name]))

    ess = mean(ours, "ESS path")
    evaluations = (mean(ours, "candidates") + mean(ours, "jumps")) / ess
    ms = mean(ours, "sample cpu ms path") / ess
    table: dict[str, list[Cell]] = {
        "method": ["flow, exact simulation"],
        "ESS": [round(ess, 3)],
        "evaluations": [round(evaluations)],
        "CPU ms": [float(f"{ms:.2g}")],
        "paid back: evaluations": [None],
        "paid back: CPU s": [None],
    }
    for method in ("AIS", "AIS x4", "AIS x16"):
        if method not in nulls:
            continue
        cell = nulls[method]
        share = mean(cell, "ESS")
        sweeps = n_steps * int(method.partition(" x")[2] or 1)
        null_ms = mean(cell, "sample cpu ms") / share
        after = payback(evaluations, mean(ours, "train evaluations"), sweeps / share)
        later = payback(ms, 1000 * mean(ours, "train cpu s"), null_ms)
        table["method"].append(f"AIS, {sweeps} sweeps")
        table["ESS"].append(round(share, 3))
        table["evaluations"].append(round(sweeps / share))
        table["CPU ms"].append(float(f"{null_ms:.2g}"))
        for head, n in (
            ("paid back: evaluations", after),
            ("paid back: CPU s", later),
        ):
            table[head].append("never" if math.isinf(n) else f"{n:.2g}")
    kinds = ["", *["null"] * (len(table["method"]) - 1)]
    for head in ("paid back: evaluations", "paid back: CPU s"):
        table[head][0] = ""
    return Table(
        table,
        caption=(
            f"{column}: cost of an effective sample, and the number of effective "
            "samples after which the flow's training is paid back."
        ),
        kinds=kinds,
    )


def _rows_of(result: Result, column: str) -> dict[str, Any]:
    table = result.scalars["table"]
    return {method: row[column] for method, row in table.items() if column in row}


def _spread(values: list[float]) -> Cell:
    """Mean and its error, or the one value there is."""
    mean, stderr = mean_and_stderr(values)
    if stderr is None or not math.isfinite(mean):
        return float(f"{mean:.4g}")
    return mean, stderr
