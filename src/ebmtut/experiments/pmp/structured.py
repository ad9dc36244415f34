"""Row pmp/structured (Figures 2 and 5): a lattice and random graphs, relearned."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, NonNegative, Number, OneOf, Positive, Range, checked
from ebmtut.data import ising_samples
from ebmtut.energies import BoltzmannMachine, Ising, lattice_adjacency
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.pmp.chains import (
    CHAINS,
    Work,
    draw,
    equal_sweeps,
    start_bits,
    start_samples,
    sweep_samples,
    update_samples,
    work,
)
from ebmtut.experiments.pmp.leads import took, with_table
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.losses import VARIABLES, persistent_match_moments
from ebmtut.metrics import mmd, mmd_of_fresh_sample, rmse
from ebmtut.plotting import COLORS, panel_size
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table
from ebmtut.samplers import ising_gibbs

__all__ = [
    "EXPERIMENT",
    "GRAPHS",
    "StructuredConfig",
    "learned_error",
    "structured_job",
    "structured_table",
    "structured_work_table",
    "true_model",
]

GRAPHS = ("random graph", "lattice")
METHODS = ("PMP", "PMP symmetric", "Gibbs-reset", "GWG-reset")


@checked
@dataclass(frozen=True)
class StructuredConfig:
    """Which graphs, and how their couplings are learned.

    Parameters
    ----------
    graphs
        Some of `GRAPHS`.
    side, coupling
        Of the periodic lattice: J = ``coupling`` on its edges.
    n_nodes
        Of the random graphs: mean degree 4, J normal with standard deviation
        1/2 on the edges, field 0.1.
    methods
        Some of `METHODS`, for learning with chains that start anew.
    sweeps
        Of learning and of sampling, one run each.
    gwg_sweeps
        GWG-reset makes no more than these: its moves look at all sites.
    updates
        Single-site updates a step of persistent chains; PMP beside them makes as
        many sweeps as take no longer than GWG's (`equal_sweeps`).
    n_data, n_data_sweeps
        Samples to learn from, and the Gibbs sweeps that each of them takes.
    n_steps, learning_rate, penalty
        Of Adam, and the weight of the l1 penalty.
    n_steps_persistent
        Of learning with chains that go on; None takes ``n_steps``.
    variables
        One of `VARIABLES`, in which step and penalty are measured.
    n_chains, n_chains_persistent
        Samples a step.
    n_judged
        Samples by which a method is judged.
    n_seeds
        Independent runs; run k has seed ``seed + k``.
    """

    graphs: tuple[Annotated[str, OneOf(GRAPHS)], ...] = GRAPHS
    side: Annotated[int, Range(low=3)] = 25
    coupling: Number = -0.1
    n_nodes: Annotated[int, Range(low=5)] = 200
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = METHODS
    sweeps: tuple[Count, ...] = (2, 5, 10, 25)
    gwg_sweeps: Count = 5
    updates: tuple[Count, ...] = (100, 200, 400)
    n_data: Annotated[int, Range(low=2)] = 2000
    n_data_sweeps: Count = 2000
    n_steps: Count = 1000
    n_steps_persistent: Count | None = None
    learning_rate: Positive = 1e-3
    penalty: NonNegative = 0.01
    variables: Annotated[str, OneOf(VARIABLES)] = "spins"
    n_chains: Count = 20
    n_chains_persistent: Count = 100
    n_judged: Count = 500
    n_seeds: Count = 1


def true_model(graph: str, config: StructuredConfig, seed: int) -> Ising:
    """Return the law exp(s'Js + b's) that the data are drawn from."""
    if graph == "lattice":
        return Ising(config.coupling * lattice_adjacency(config.side).float())
    generator = make_generator(seed)
    n = config.n_nodes
    there = torch.rand(n, n, generator=generator) < 4 / (n - 1)
    weight = 0.5 * torch.randn(n, n, generator=generator)
    # Half of a pair's J on either side of the diagonal: it is symmetrised.
    return Ising(2 * (weight * there).triu(1), torch.full((n,), 0.1))


@lru_cache(maxsize=2)
def true_data(graph: str, config: StructuredConfig, seed: int) -> Tensor:
    """Draw the data, bits of shape (n_data, n_sites): once for all methods."""
    generator = make_generator(seed + 1)
    n, sweeps = config.n_data, config.n_data_sweeps
    if graph == "lattice":
        return ising_samples(
            config.side, config.coupling, n, n_sweeps=sweeps, generator=generator
        )
    truth = true_model(graph, config, seed)
    start = start_bits(n, truth.n_sites, generator=generator)
    return ising_gibbs(truth, start, sweeps, generator=generator)


def learned_error(model: BoltzmannMachine, truth: Ising) -> float:
    """RMSE of J over all entries; W = 8J."""
    return rmse(model.symmetric_weight.detach() / 8, truth.symmetric_coupling.detach())


def log_mmd2(samples: Tensor, x: Tensor) -> float:
    """Natural logarithm of the V-statistic with the average Hamming kernel."""
    return math.log(mmd(samples, x, kernel="average_hamming", statistic="v"))


def structured_job(
    graph: str,
    mode: str,
    method: str,
    amount: int,
    config: StructuredConfig,
    seed: int,
    device: str = "cpu",
) -> Outcome:
    """Relearn one graph in one way.

    Parameters
    ----------
    graph, method
        One of `GRAPHS`; one of `METHODS`, or "Gibbs" or "GWG".
    mode
        "reset": ``amount`` sweeps in learning and in sampling. "persistent":
        ``amount`` single-site updates of chains that go on, or as many sweeps
        of PMP as take no longer than GWG's; 50 sweeps in sampling.
    config, seed
        How, and the seed of everything.
    device
        Where it learns and samples; the data are drawn on the CPU.
    """
    truth = true_model(graph, config, seed)
    x = true_data(graph, config, seed).to(device)
    generator = make_generator(seed + 2, device)
    n_sites = truth.n_sites
    sweeps, n_chains, n_steps = amount, config.n_chains, config.n_steps
    if mode == "persistent":
        sweeps, n_chains = equal_sweeps(amount, n_sites), config.n_chains_persistent
        n_steps = config.n_steps_persistent or n_steps
    advance = (
        partial(update_samples, n_updates=amount)
        if method in CHAINS
        else partial(sweep_samples, n_sweeps=sweeps)
    )
    began = time.process_time()
    model, _ = persistent_match_moments(
        x,
        partial(advance, method=method, generator=generator),
        start_samples(method, n_chains, n_sites, generator=generator),
        n_steps=n_steps,
        learning_rate=config.learning_rate,
        penalty=config.penalty,
        variables=config.variables,
        label=f"{method} {graph}",
    )
    seconds = time.process_time() - began
    final = amount if mode == "reset" else 50
    drawn = draw(method, model, config.n_judged, (final,), generator=generator)[final]
    coins = torch.rand(drawn.shape, generator=generator, device=device)
    null = (coins < x.mean(0)).to(x)
    return Outcome(
        {
            "log_mmd2": log_mmd2(drawn, x),
            "rmse": learned_error(model, truth),
            "seconds": seconds,
            "null_log_mmd2": log_mmd2(null, x),
            "data_log_mmd2": math.log(
                mmd_of_fresh_sample(x, config.n_judged, "average_hamming")
            ),
            "null_rmse": float(truth.symmetric_coupling.square().mean().sqrt()),
        }
    )


def cells(config: StructuredConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every graph, way of learning, method and amount of it."""
    plans = [
        ("reset", m, k)
        for m in config.methods
        for k in config.sweeps
        if m != "GWG-reset" or k <= config.gwg_sweeps
    ]
    rivals = [m for m in config.methods if m.startswith("PMP")] + [*CHAINS]
    plans += [("persistent", m, k) for m in rivals for k in config.updates]
    common = replace(config, graphs=(), methods=(), sweeps=(), updates=(), n_seeds=1)
    return {
        (graph, mode, method, str(amount)): {
            "graph": graph,
            "mode": mode,
            "method": method,
            "amount": amount,
            "config": common,
        }
        for graph in config.graphs
        for mode, method, amount in plans
    }


_LABELS = {"log_mmd2": "log MMD²", "rmse": "RMSE of J"}
_AMOUNTS = {"reset": "sweeps", "persistent": "single-site updates a step"}


def draw_structured(result: Result) -> Figure:
    """Draw a row of panels for each graph and way of learning: both metrics."""
    table = result.scalars["table"]
    lines = [(graph, mode) for graph in table for mode in _AMOUNTS]
    figure, axes = plt.subplots(
        len(lines),
        len(_LABELS),
        figsize=panel_size(len(lines), len(_LABELS), aspect=0.55, title=0.3),
        squeeze=False,
    )
    for line, (graph, mode) in zip(axes, lines, strict=True):
        for ax, metric in zip(line, _LABELS, strict=True):
            _panel(ax, table[graph][mode], metric)
            ax.set(title=f"{graph}, {mode}", ylabel=_LABELS[metric])
            ax.set_xlabel(_AMOUNTS[mode])
    # Chains that start anew and those that go on have names of their own.
    named: dict[str, Artist] = {}
    for ax in axes[:2, 0]:
        for line, name in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(name, line)
    figure.legend(
        list(named.values()), list(named), loc="outside lower center", ncols=4
    )
    return figure


def _panel(ax: Axes, rows: dict[str, dict], metric: str) -> None:
    amounts = [int(amount) for amount in next(iter(rows.values()))]
    for method, row in rows.items():
        values = [np.mean(cell[metric]) for cell in row.values()]
        ax.plot(
            [int(amount) for amount in row],
            values,
            "o-",
            ms=2.5,
            color=COLORS[method],
            label=method,
        )
    cell = next(iter(next(iter(rows.values())).values()))
    ax.axhline(
        np.mean(cell[f"null_{metric}"]), color=COLORS["null"], lw=1, label="null"
    )
    if metric == "log_mmd2":
        level = np.mean(cell["data_log_mmd2"])
        ax.axhline(level, color=COLORS["exact"], lw=1, label="fresh data")
    ax.set_xscale("log")
    ax.set_xticks(amounts, [str(amount) for amount in amounts])
    ax.minorticks_off()


def check_structured(result: Result) -> list[Verdict]:
    """PMP is ahead of chains that make as few sweeps, or take as long.

    "Ahead" is meant over the points of an axis, of which each is a run of its own:
    their mean difference, and its standard error.
    """
    verdicts = []
    for graph, modes in result.scalars["table"].items():
        for mode, rows in modes.items():
            for method in (m for m in rows if not m.startswith("PMP")):
                ahead = [
                    float(np.mean(cell["log_mmd2"]) - np.mean(ours["log_mmd2"]))
                    for amount, cell in rows[method].items()
                    if (ours := rows["PMP"].get(amount))
                ]
                mean, stderr = mean_and_stderr(ahead)
                name = f"{graph}, {mode}: mean log MMD^2 of {method} minus PMP's"
                of = {"stderr": stderr, "n_seeds": result.config["n_seeds"]}
                verdicts.append(claim(name, mean, "at least", 0.0, **of))
    return verdicts


def independent_bits(result: Result) -> Result:
    """Return the score of independent bits for every method, one for each graph."""

    def nothing(cell: dict[str, list[float]], null: float) -> dict[str, list[float]]:
        return cell | {"log_mmd2": [null] * len(cell["log_mmd2"])}

    table = {
        graph: {
            mode: {
                method: {
                    amount: nothing(cell, _reference(modes, "null_log_mmd2"))
                    for amount, cell in row.items()
                }
                for method, row in rows.items()
            }
            for mode, rows in modes.items()
        }
        for graph, modes in result.scalars["table"].items()
    }
    return with_table(result, table)


def _reference(modes: Mapping[str, Mapping[str, Any]], name: str) -> float:
    """Mean over all runs on one graph of what no run depends on but by noise."""
    return float(
        np.mean(
            [
                cell[name]
                for rows in modes.values()
                for row in rows.values()
                for cell in row.values()
            ]
        )
    )


def structured_table(result: Result, graph: str) -> Table:
    """Tabulate one graph, at both ends of each axis.

    Parameters
    ----------
    result
        Of this row.
    graph
        One of those that it has.
    """
    modes = result.scalars["table"][graph]
    names: list[str] = []
    cells: list[tuple[Cell, ...]] = []
    axes: list[str] = []
    for mode, rows in modes.items():
        ends = {method: _range(row) for method, row in rows.items()}
        usual = ends["PMP"]
        axes.append(f"{mode}: {usual} {_AMOUNTS[mode].removesuffix(' a step')}")
        for method, row in rows.items():
            first, *_, last = [*row.values()] * 2
            names.append(
                f"{mode}: {method}"
                + (f" ({ends[method]})" if ends[method] != usual else "")
            )
            scores = [float(np.mean(at["log_mmd2"])) for at in (first, last)]
            cells.append((*scores, float(np.mean(last["rmse"]))))
    null, data = (_reference(modes, f"{name}_log_mmd2") for name in ("null", "data"))
    cells += [(null, null, _reference(modes, "null_rmse")), (data, data, None)]
    heads = ("fewest", "most", "RMSE of J")
    columns: dict[str, list[Any]] = {
        "chains: method": [*names, "nothing learned", "fresh data"]
    }
    columns |= dict(zip(heads, map(list, zip(*cells, strict=True)), strict=True))
    return Table(
        columns,
        caption=f"The {graph}: log MMD² at both ends of the axis ({'; '.join(axes)}), "
        "and the couplings' error at its far end. Nothing learned: independent bits, "
        "couplings of zero. "
        + ("One seed." if result.config["n_seeds"] == 1 else "Means over seeds."),
        kinds=[""] * len(names) + ["null", "exact"],
    )


def _range(row: Mapping[str, Any]) -> str:
    amounts = sorted(row, key=int)
    return " to ".join(dict.fromkeys((amounts[0], amounts[-1])))


def structured_work_table(result: Result, graph: str) -> Table:
    """Tabulate what learning one graph computed, at the last point of each axis.

    Parameters
    ----------
    result
        Of this row.
    graph
        One of those that it has.
    """
    names, done, seconds = [], [], []
    for mode, rows in result.scalars["table"][graph].items():
        for method, row in rows.items():
            amount, last = [*row.items()][-1]
            names.append(f"{mode}: {method}, {amount}")
            done.append(_work_of_learning(result, graph, mode, method, int(amount)))
            seconds.append(took(np.mean(last["seconds"])))
    return Table(
        {
            "chains: method, amount": names,
            "site sums": [work.evaluations / 1e9 for work in done],
            "messages": [work.messages / 1e9 for work in done],
            "CPU time": seconds,
        },
        caption=f"The {graph}: what learning computed; sums over the couplings of one "
        "site, and messages, in thousands of millions.",
    )


def _work_of_learning(
    result: Result, graph: str, mode: str, method: str, amount: int
) -> Work:
    config = result.config
    n = config["n_nodes"] if graph == "random graph" else config["side"] ** 2
    n_chains, n_steps, n_sweeps = config["n_chains"], config["n_steps"], float(amount)
    if mode == "persistent":
        n_chains = config["n_chains_persistent"]
        n_steps = config.get("n_steps_persistent") or n_steps
        n_sweeps = amount / n if method in CHAINS else equal_sweeps(amount, n)
    pairs = n * (n - 1) / 2
    return work(method, n_chains * n_steps, n_sweeps, n, n_pairs=pairs)


EXPERIMENT = Experiment(
    id="pmp/structured",
    title="Lattices and random graphs",
    presets={
        "quick": StructuredConfig(
            side=15,
            n_nodes=100,
            methods=("PMP", "Gibbs-reset"),
            sweeps=(2, 5),
            updates=(50,),
            n_data_sweeps=500,
            n_steps=120,
            learning_rate=5e-3,
            n_chains=100,
        ),
        "full": StructuredConfig(),
        # From the text: graphs, 2000 samples, 20 chains that start anew, 1000 steps of
        # Adam at 0.001, penalty 0.01, 50 sweeps to judge chains that go on. From the
        # scripts of its code: amounts, 256 chains that go on, for 100,000 steps, five
        # seeds, 2000 samples judged. A million updates of a site are 5000 sweeps of
        # the graph's 200 sites and 1600 of the lattice's 625: ours are 5000 of both.
        # Ours as well: the sweeps of PMP beside chains that go on, with as many chains.
        "paper": StructuredConfig(
            sweeps=(5, 10, 25, 50, 100),
            gwg_sweeps=100,
            updates=(5, 10, 25, 50, 100),
            n_data_sweeps=5000,
            n_steps_persistent=100_000,
            n_chains_persistent=256,
            n_judged=2000,
            n_seeds=5,
        ),
    },
    cells=cells,
    job=structured_job,
    null=independent_bits,
    devices=("cpu", "cuda"),
    figure=draw_structured,
    check=check_structured,
)
