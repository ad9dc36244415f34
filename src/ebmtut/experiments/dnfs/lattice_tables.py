"""What the row dnfs/ising says: a table of quality, and when training is paid back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from torch import Tensor

from ebmtut.experiments.dnfs.lattice_laws import energy_law, share_by_spread
from ebmtut.experiments.dnfs.lattices import LEARNED, column_name
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.flows import (
    Flow,
    effective_sample_size,
    log_partition,
    simulate,
    weighted_mean,
)
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table
from ebmtut.states import enumerate_states


def quality_table(result: Result, column: str) -> Table:
    """Set ESS beside the error of log Z and the energies, of every method."""
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
    kinds = ["" if method in LEARNED else "null" for method in rows]
    return Table(
        table,
        caption=f"{column}: log Z is {exact['log Z']:.3f}. "
        "Errors over runs, where there are several.",
        kinds=[*kinds, "exact"],
        digits=4,
    )


def flow_table(flows: Mapping[str, Flow], *, seed: int) -> Table:
    """Judge flows of one small path by 2000 samples of 64 steps, beside enumeration."""
    runs = {
        name: simulate(flow, 2000, 64, generator=make_generator(seed))
        for name, flow in flows.items()
    }
    path = next(iter(flows.values())).path
    return sample_table({k: (run.x, run.log_weights) for k, run in runs.items()}, path)


def sample_table(
    samples: Mapping[str, tuple[Tensor, Tensor]], path: AnnealingPath
) -> Table:
    """Judge weighted samples of the end of one small path, beside enumeration."""
    rows = {}
    for name, (x, log_weights) in samples.items():
        found = log_partition(log_weights, path.log_partition_start)
        energy = weighted_mean(log_weights, path.target(x))
        share = effective_sample_size(log_weights)
        rows[name] = share, found.estimate, found.lower_bound, float(energy)
    x = enumerate_states(path.n_sites, path.n_states).float()
    minus = -path.target(x).double()
    log_z = float(minus.logsumexp(0))
    rows["exact"] = 1.0, log_z, log_z, -float(minus.softmax(0) @ minus)
    heads = ("ESS", "log Z", "its bound", "mean energy")
    columns = zip(*rows.values(), strict=True)
    kinds = {"untrained": "null", "exact": "exact"}
    return Table(
        {"flow": list(rows), **dict(zip(heads, map(list, columns), strict=True))},
        kinds=[kinds.get(name, "") for name in rows],
        digits=4,
    )


def payback(cost: float, training: float, null_cost: float) -> float:
    """Effective samples from which on a training is paid back, to two digits."""
    if null_cost <= cost:
        return math.inf
    return int(float(f"{training / (null_cost - cost):.1e}"))


#: Nulls whose samples are independent, and those whose are not.
_INDEPENDENT, _DEPENDENT = ("AIS", "AIS x4", "AIS x16"), ("SMC", "SMC x4")


def payback_table(result: Result, column: str) -> Table:
    """Set the cost of a flow's effective sample beside that of annealing."""
    rows = _rows_of(result, column)
    ours, n_steps = rows["ours"], result.config["n_time_steps"]
    # A candidate is one evaluation of the network, and so is a jump that is taken.
    looks = {"flow": fmean(ours["candidates"]) + fmean(ours["jumps"])}
    shares, pace = (
        {"flow": fmean(ours["ESS path"])},
        {"flow": ours["sample cpu ms path"]},
    )
    for name, factor in zip(_INDEPENDENT, (1, 4, 16), strict=True):
        label = f"AIS, {factor * n_steps} sweeps"
        looks[label], pace[label] = factor * n_steps, rows[name]["sample cpu ms"]
        shares[label] = fmean(rows[name]["ESS"])
    cost = {name: looks[name] / shares[name] for name in looks}
    training = fmean(ours["train evaluations"])
    flow, *nulls = cost.values()
    return Table(
        {
            "method": list(cost),
            "looks": [round(v) for v in cost.values()],
            "CPU ms": [fmean(pace[name]) / shares[name] for name in cost],
            "paid back after": [None, *(payback(flow, training, v) for v in nulls)],
        },
        caption=f"{column}: cost of an effective sample, by means over "
        f"{len(ours['ESS'])} runs; and after how many of them the looks of the "
        "training are paid back.",
        kinds=["", *("null" for _ in nulls)],
        digits=2,
    )


def seconds_table(result: Result, column: str) -> Table:
    """Compare a flow with annealing by CPU seconds, without and with its training."""
    rows = _rows_of(result, column)
    ours, n = rows["ours"], result.config["n_samples"]
    found = {
        "flow, 64 steps": (ours["ESS"], ours["sample cpu ms"]),
        "flow, exactly": (ours["ESS path"], ours["sample cpu ms path"]),
        **{m: (rows[m]["ESS"], rows[m]["sample cpu ms"]) for m in _INDEPENDENT},
    }
    side, sigma = next(
        (side, sigma)
        for side, sigma, _ in result.config["problems"]
        if column_name(side, sigma) == column
    )
    for name in _DEPENDENT:
        means = rows[name]["weighted energy"]
        if len(means) > 1:
            share = share_by_spread(means, energy_law(side, sigma), n)
            found[name] = [share], rows[name]["sample cpu ms"]
    nulls = list(found)[2:]
    shares = {name: fmean(ess) for name, (ess, _) in found.items()}
    pace = {name: fmean(ms) / 1000 for name, (_, ms) in found.items()}
    cost = {name: pace[name] / shares[name] for name in found}
    flow, *_ = found
    training, drawing = fmean(ours["train cpu s"]), n * pace[flow]
    back = [payback(cost[flow], training, cost[name]) for name in nulls]
    learned = [name not in nulls for name in found]
    return Table(
        {
            "method": list(found),
            "ESS": list(shares.values()),
            "ms a sample": [1000 * v for v in pace.values()],
            "effective a second": [1 / v for v in cost.values()],
            "in as long": [round(drawing / v) for v in cost.values()],
            "with training": [
                round((drawing + (0 if mine else training)) / v)
                for v, mine in zip(cost.values(), learned, strict=True)
            ],
            "behind after": [
                *(None for _ in range(sum(learned))),
                *(v if math.isfinite(v) else "never" for v in back),
            ],
        },
        caption=f"{column}, CPU seconds. In as long: effective samples in the "
        f"{drawing:.2g} seconds in which the flow draws {n}; with training: in these "
        f"and the {training:.0f} of the training, which the flow has spent.",
        kinds=["" if mine else "null" for mine in learned],
        digits=3,
    )


def _rows_of(result: Result, column: str) -> dict[str, Any]:
    table = result.scalars["table"]
    return {method: row[column] for method, row in table.items() if column in row}


def _spread(values: list[float]) -> Cell:
    """Mean and its error, or the one value there is."""
    mean, stderr = mean_and_stderr(values)
    if stderr is None or not math.isfinite(mean):
        return round(mean, 4)
    return mean, stderr
