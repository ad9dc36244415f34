"""Tables and the figure of lattices that the pages show, and samples drawn live."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_correlations, torus_log_partition
from ebmtut.experiments.dnfs.lattices import (
    LEARNED,
    column_name,
    energy_distribution,
    pair_products,
    share_by_spread,
)
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.flows import (
    ExactRollout,
    Flow,
    OddLatticeNetwork,
    Rollout,
    effective_sample_size,
    independence_metropolis,
    log_partition,
    simulate,
    simulate_exact,
)
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, figure_size
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table
from ebmtut.samplers import annealed_importance_sampling, ising_gibbs

#: Methods of stored results, as tables call them.
SHOWN = {
    "ours": "flow",
    "paper, leConv": "published recipe",
    "untrained": "untrained flow",
    "AIS x4": "AIS ×4",
    "AIS x16": "AIS ×16",
    "SMC x4": "SMC ×4",
}


#: Scores of a baseline.
_JUDGED = ("ESS", "log Z error", "energy", "weighted energy")


#: Parts of a chain, whose means give its standard error.
_N_STRETCHES = 10


#: Baselines, in `draws_beside_nulls`.
NULL_DRAWS = ("untrained", "AIS", "AIS, weighted", "SMC", "SMC, weighted")


def with_nulls(row: Result, nulls: Result) -> Result:
    """Take baselines from a study with more runs, but not their CPU seconds."""
    table = dict(row.scalars["table"])
    for name, found in nulls.scalars["table"].items():
        table[name] = {
            column: cell | {key: found[column][key] for key in _JUDGED}
            for column, cell in table[name].items()
        }
    return replace(row, scalars=row.scalars | {"table": table})


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


def payback(cost: float, training: float, null_cost: float) -> float:
    """Number of effective samples at which a training breaks even, to two digits."""
    if null_cost <= cost:
        return math.inf
    return int(float(f"{training / (null_cost - cost):.1e}"))


#: Baselines with independent samples, and with dependent ones.
_INDEPENDENT, _DEPENDENT = ("AIS", "AIS x4", "AIS x16"), ("SMC", "SMC x4")


def payback_table(result: Result, column: str) -> Table:
    """Cost of an effective sample of the exactly simulated flow and of annealing."""
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
            share = share_by_spread(means, energy_distribution(side, sigma), n)
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
            "ms per sample": [1000 * v for v in pace.values()],
            "effective per s": [1 / v for v in cost.values()],
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


def stored_bound(result: Result, column: str) -> float:
    """Return the bound of the rates that a stored run of dnfs/ising found."""
    return float(result.scalars["table"]["ours"][column]["bound"][0])


def drawn_each_way(
    flow: Flow, steps: Sequence[int], n: int, *, bound: float, seed: int
) -> tuple[dict[str, Rollout], ExactRollout]:
    """Simulate a flow in several numbers of steps, and exactly."""
    stepped = {
        f"{k} steps": simulate(
            flow, n, k, chain_weights=True, generator=make_generator(seed)
        )
        for k in steps
    }
    thinned = simulate_exact(
        flow, n, bound=bound, path_weights=True, generator=make_generator(seed)
    )
    assert thinned.n_exceeded == 0
    return stepped, thinned


def weights_table(
    path: AnnealingPath, stepped: Mapping[str, Rollout], thinned: ExactRollout
) -> Table:
    """Evaluate one flow by each kind of weights."""
    target = path.target
    assert isinstance(target, LatticeIsing)
    exact = torus_log_partition(target.side, target.side, 2 * target.sigma)
    runs: list[tuple[str, str, Tensor, Tensor | None]] = []
    for name, run in stepped.items():
        runs.append((name, "path", run.x, run.log_weights))
        runs.append((name, "discrete-time", run.x, run.chain_log_weights))
    runs.append(("exact", "path", thinned.x, thinned.path_log_weights))
    runs.append(("exact", "thinning", thinned.x, thinned.log_weights))
    heads = ("simulation", "weights", "ESS", "log Z error", "energy")
    rows: list[tuple[Cell, ...]] = []
    for name, kind, x, log_weights in runs:
        assert log_weights is not None
        z = log_partition(log_weights, path.log_partition_start)
        energy = target(x)
        noise = float(energy.std()) / len(energy) ** 0.5
        share = effective_sample_size(log_weights)
        off = (z.estimate - exact, z.standard_error)
        rows.append((name, kind, share, off, (float(energy.mean()), noise)))
    columns = dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True))
    return Table(columns, caption=f"Errors are of {len(thinned.x)} samples.")


def chain_table(
    runs: Mapping[str, tuple[AnnealingPath, ExactRollout]],
    *,
    nulls: Sequence[str] = (),
    seed: int,
) -> Table:
    """Set mean energies of chains that propose a flow's samples beside exact ones."""
    heads = (
        "proposals",
        "n",
        "accepted",
        "as proposed",
        "as the chain has it",
        "exact",
    )
    rows: list[tuple[Cell, ...]] = []
    for name, (path, run) in runs.items():
        held = independence_metropolis(
            run.log_weights, generator=make_generator(seed)
        ).cpu()
        moved = float((held[1:] != held[:-1]).double().mean())
        energy = path.target(run.x).cpu().double()
        kept = [part.mean().item() for part in energy[held].tensor_split(_N_STRETCHES)]
        noise = float(energy.std()) / len(energy) ** 0.5
        proposed = float(energy.mean()), noise
        chain = mean_and_stderr(kept)
        assert isinstance(path.target, LatticeIsing)
        distribution = energy_distribution(path.target.side, path.target.sigma)
        exact = round(float(distribution.levels @ distribution.chances), 2)
        row = (name, len(held), moved, proposed, chain, exact)
        rows.append(row)
    columns = dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True))
    return Table(
        columns,
        caption="Mean energies of the proposals and of the chain.",
        kinds=["null" if name in nulls else "" for name in runs],
        digits=3,
    )


def pair_table(
    samples: Mapping[str, tuple[Tensor, Tensor | None]],
    energy: LatticeIsing,
    *,
    nulls: Sequence[str] = (),
) -> Table:
    """Set correlations of two spins, by distance, beside the exact ones."""
    side = energy.side
    exact = torus_correlations(side, side, 2 * energy.sigma)[1:]
    columns: dict[str, list[Cell]] = {"sampler": [*samples, "exact"]}
    columns |= {f"distance {r}": [] for r in range(1, len(exact) + 1)}
    for x, log_weights in samples.values():
        products = pair_products(x, side).double()
        if log_weights is None:
            log_weights = torch.zeros(len(x))
        w = log_weights.double().softmax(0)
        mean = w @ products
        noise = ((w[:, None] * (products - mean)) ** 2).sum(0).sqrt()
        for head, value, error in zip(
            list(columns)[1:], mean.tolist(), noise.tolist(), strict=True
        ):
            columns[head].append((value, error))
    for head, value in zip(list(columns)[1:], exact.tolist(), strict=True):
        columns[head].append(round(value, 4))
    kinds = ["null" if name in nulls else "" for name in samples]
    return Table(
        columns,
        caption="Correlation of two spins, by their distance along an axis. "
        "Errors are of the samples.",
        kinds=[*kinds, "exact"],
        digits=4,
    )


def draws_beside_nulls(
    flow: Flow, run: ExactRollout, *, n: int = 1000, n_steps: int = 64, seed: int
) -> dict[str, tuple[Tensor, Tensor | None]]:
    """Draw samples of a lattice by every sampler, with weights and without."""
    target = flow.path.target
    assert isinstance(target, LatticeIsing)
    network = OddLatticeNetwork(target.side, generator=make_generator(seed))
    bare, ours = (
        simulate(f, n, n_steps, generator=make_generator(seed))
        for f in (Flow(flow.path, network), flow)
    )
    draws: dict[str, tuple[Tensor, Tensor | None]] = {
        "untrained": (bare.x, None),
        "flow": (ours.x, None),
        "flow, weighted": (ours.x, ours.log_weights),
        "flow, exactly": (run.x, run.path_log_weights),
    }

    def sweep(x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        energy = LatticeIsing(target.side, target.sigma * t)
        return ising_gibbs(energy, x, 1, generator=generator)

    for name, level in (("AIS", 0.0), ("SMC", 0.5)):
        found = annealed_importance_sampling(
            flow.path,
            sweep,
            2 * n,
            n_steps,
            resample_below=level,
            generator=make_generator(seed),
        )
        draws[name] = found.x, None
        draws[f"{name}, weighted"] = found.x, found.log_weights
    return draws


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def draw_scaling(result: Result, grown: Result | None = None) -> Figure:
    """Draw path-weight ESS and error of the energy over the side of the lattice."""
    curves = [
        ("flow, trained on the lattice", "DNFS", "o-", _by_side(result, "ours")),
        ("AIS ×16", "GWG", "^--", _by_side(result, "AIS x16")),
    ]
    if grown is not None:
        transferred = _by_side(grown, "as carried") | _by_side(grown, "grown")
        curves.append(("flow, transferred", "LEAPS", "s", transferred))
    figure, axes = plt.subplots(1, 2, figsize=figure_size("full"))
    for label, color, style, found in curves:
        how: dict[str, Any] = {"color": COLORS[color], "ms": 6, "label": label}
        axes[0].plot(list(found), [ess for ess, _ in found.values()], style, **how)
        excess = [100 * energy for _, energy in found.values()]
        axes[1].plot(list(found), excess, style, **how)
    sides = sorted({side for *_, found in curves for side in found})
    titles = "effective fraction of the samples", "energy too high by [%]"
    for ax, title in zip(axes, titles, strict=True):
        ax.set(title=title, xlabel="sites per side", xscale="log")
        ax.set_xticks(sides, [str(side) for side in sides])
        ax.minorticks_off()
    axes[0].set(yscale="log")
    axes[1].set(ylim=(0, None))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=3, loc="outside lower center")
    return figure


def _by_side(result: Result, method: str) -> dict[int, tuple[float, float]]:
    """Return ESS and relative excess of the mean energy, by side of the lattice."""
    exact = result.scalars["exact"]
    return {
        int(lattice.partition("x")[0]): (
            _mean(cell["ESS"]),
            1 - _mean(cell["energy"]) / exact[lattice]["energy"],
        )
        for lattice, cell in result.scalars["table"].get(method, {}).items()
    }


def _rows_of(result: Result, column: str) -> dict[str, Any]:
    table = result.scalars["table"]
    return {method: row[column] for method, row in table.items() if column in row}


def _spread(values: list[float]) -> Cell:
    """Mean and its error, or the one value there is."""
    mean, stderr = mean_and_stderr(values)
    if stderr is None or not math.isfinite(mean):
        return round(mean, 4)
    return mean, stderr
