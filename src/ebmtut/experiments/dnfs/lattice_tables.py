"""What the row dnfs/ising says: a table of quality, and when training is paid back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

#: Methods of stored results, as tables call them.
SHOWN = {
    "ours": "flow",
    "paper, leConv": "published recipe",
    "untrained": "untrained flow",
    "AIS x4": "AIS ×4",
    "AIS x16": "AIS ×16",
    "SMC x4": "SMC ×4",
}


def quality_table(
    result: Result, column: str, methods: Sequence[str] | None = None
) -> Table:
    """Set ESS beside the error of log Z and the energies, of some methods or all."""
    exact = result.scalars["exact"][column]
    rows = _rows_of(result, column)
    rows = {m: rows[m] for m in methods or rows}
    table: dict[str, list[Cell]] = {"method": [SHOWN.get(m, m) for m in rows]}
    table["method"].append("exact")
    # Samples of SMC depend on each other, so that their ESS does not compare.
    table["ESS"] = [
        None if m.startswith("SMC") else _spread(cell["ESS"])
        for m, cell in rows.items()
    ]
    table["ESS"].append(1.0)
    table["error of log Z"] = [
        *(_spread(cell["log Z error"]) for cell in rows.values()),
        0.0,
    ]
    for head, key in {
        "energy": "energy",
        "weighted energy": "weighted energy",
    }.items():
        table[head] = [_spread(cell[key]) for cell in rows.values()]
        table[head].append(round(exact["energy"], 2))
    kinds = ["" if method in LEARNED else "null" for method in rows]
    return Table(
        table,
        caption=f"{column}: log Z is {exact['log Z']:.3f}. "
        "Standard errors over runs, where there are several.",
        kinds=[*kinds, "exact"],
        digits=4,
    )


def simulations_table(result: Result, column: str) -> Table:
    """Set the trained flows' four kinds of weights beside each other."""
    cell = _rows_of(result, column)["ours"]
    exact = result.scalars["exact"][column]["energy"]
    n = result.config["n_time_steps"]
    kinds = {
        (f"{n} steps", "path"): "",
        (f"{n} steps", "discrete-time"): " chain",
        ("exact", "path"): " path",
        ("exact", "thinning"): " exact",
    }
    table: dict[str, list[Cell]] = {
        "simulation": [*(simulation for simulation, _ in kinds), "exact values"],
        "weights": [*(weights for _, weights in kinds), "\u2013"],
    }
    for head, key, value in (
        ("ESS", "ESS", 1.0),
        ("error of log Z", "log Z error", 0.0),
        ("weighted energy", "weighted energy", round(exact, 2)),
    ):
        table[head] = [*(_spread(cell[key + kind]) for kind in kinds.values()), value]
    return Table(
        table,
        caption=f"{column}. Standard errors over {len(cell['ESS'])} trained flows.",
        kinds=["", "", "", "", "exact"],
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
    """Set the cost of a flow's effective sample beside that of annealing.

    The flow is simulated exactly, so that its weights are exact, too.
    """
    rows = _rows_of(result, column)
    ours, n_steps = rows["ours"], result.config["n_time_steps"]
    # A candidate is one evaluation of the network, and so is a jump that is taken.
    evaluations = {"flow": fmean(ours["candidates"]) + fmean(ours["jumps"])}
    fractions, pace = (
        {"flow": fmean(ours["ESS path"])},
        {"flow": ours["sample cpu ms path"]},
    )
    for name, factor in zip(_INDEPENDENT, (1, 4, 16), strict=True):
        label = SHOWN.get(name, name)
        evaluations[label] = factor * n_steps
        pace[label] = rows[name]["sample cpu ms"]
        fractions[label] = fmean(rows[name]["ESS"])
    cost = {name: evaluations[name] / fractions[name] for name in evaluations}
    training = fmean(ours["train evaluations"])
    flow, *baselines = cost.values()
    return Table(
        {
            "method": ["flow, exact simulation", *list(cost)[1:]],
            "evaluations": [round(v) for v in cost.values()],
            "CPU ms": [fmean(pace[name]) / fractions[name] for name in cost],
            "break-even": [None, *(payback(flow, training, v) for v in baselines)],
        },
        caption=f"{column}: cost of one effective sample, means over "
        f"{len(ours['ESS'])} runs.",
        kinds=["", *("null" for _ in baselines)],
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
