"""Experiment pmp/structured (Figures 2 and 5): a lattice and a random graph."""

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, NonNegative, Number, OneOf, Positive, Range, checked
from ebmtut.data import ising_samples
from ebmtut.energies import BoltzmannMachine, Ising, lattice_adjacency
from ebmtut.experiments.experiment import Cells, Experiment, Outcome, stream
from ebmtut.experiments.jobs import timed_loop
from ebmtut.experiments.pmp import chains, shared
from ebmtut.experiments.verdicts import Verdicts, claim, mean_and_stderr
from ebmtut.losses import VARIABLES, persistent_match_moments
from ebmtut.metrics import mmd_of_fresh_sample, rmse
from ebmtut.plotting import COLORS, panel_size, part_rows
from ebmtut.random import bernoulli, make_generator
from ebmtut.results import Result
from ebmtut.samplers import boltzmann_gwg, ising_gibbs
from ebmtut.training import CpuClock

GRAPHS = ("random graph", "lattice")
RESET = ("PMP", "PMP symmetric", "Gibbs-reset", "GWG-reset")


@checked
@dataclass(frozen=True)
class StructuredConfig:
    """Which graphs, and how their couplings are learned."""

    graphs: tuple[Annotated[str, OneOf(GRAPHS)], ...] = GRAPHS
    side: Annotated[int, Range(low=3)] = 25
    coupling: Number = -0.1
    n_nodes: Annotated[int, Range(low=5)] = 200
    methods: tuple[Annotated[str, OneOf(RESET)], ...] = RESET
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
    """Return the distribution exp(s'Js + b's) of the data."""
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
    generator = stream("samples", seed)
    n, sweeps = config.n_data, config.n_data_sweeps
    if graph == "lattice":
        return ising_samples(
            config.side, config.coupling, n, n_sweeps=sweeps, generator=generator
        )
    truth = true_model(graph, config, seed)
    start = chains.random_bits(n, truth.n_sites, generator=generator)
    return ising_gibbs(truth, start, sweeps, generator=generator)


def learned_error(model: BoltzmannMachine, truth: Ising) -> float:
    """RMSE of J over all entries; W = 8J."""
    return rmse(model.symmetric_weight.detach() / 8, truth.symmetric_coupling.detach())


def update_samples(
    state: chains.Chains,
    model: BoltzmannMachine,
    *,
    method: str,
    n_updates: int,
    generator: torch.Generator,
) -> chains.Chains:
    """Move persistent chains on by single sites, in turn or as GWG chooses them."""
    x, done = state.x, state.n_updates + n_updates
    if chains.METHODS[method].kind == "GWG":
        x = boltzmann_gwg(model, x, n_updates, generator=generator)
        return chains.Chains(x, done)
    x, weight = x.clone(), model.symmetric_weight.detach()
    for site in torch.arange(state.n_updates, done) % model.n_sites:
        logit = x @ weight[site] + model.bias[site].detach()
        x[:, site] = bernoulli(logit.sigmoid(), generator=generator)
    return chains.Chains(x, done)


def structured_job(
    graph: str,
    mode: str,
    method: str,
    amount: int,
    config: StructuredConfig,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
) -> Outcome:
    """Relearn one graph in one way."""
    truth = true_model(graph, config, seed)
    x = true_data(graph, config, seed).to(device)
    generator = stream("training on samples", seed, device)
    n_sites = truth.n_sites
    sweeps, n_chains, n_steps = amount, config.n_chains, config.n_steps
    if mode == "persistent":
        # Sweeps of PMP that take no longer than GWG's single-site updates. An update
        # evaluates all n sites, a sweep n^2 / 2 pairs; a pair takes less than a third
        # of the time of a site.
        sweeps = max(1, 6 * amount // n_sites)
        n_chains = config.n_chains_persistent
        n_steps = config.n_steps_persistent or n_steps
    advance = (
        partial(update_samples, n_updates=amount)
        if method in chains.CHAINS
        else partial(chains.sweep_samples, n_sweeps=sweeps)
    )
    clock = CpuClock()
    which: dict[str, Any] = {"learned": [graph, mode, method, amount], "seed": seed}
    model, _ = persistent_match_moments(
        x,
        partial(advance, method=method, generator=generator),
        chains.start_samples(method, n_chains, n_sites, generator=generator),
        n_steps=n_steps,
        learning_rate=config.learning_rate,
        penalty=config.penalty,
        variables=config.variables,
        label=f"{method} {graph}",
        on_step=clock.tick,
        loop=timed_loop(checkpoint, config, clock, generator=generator, **which),
    )
    k = amount if mode == "reset" else 50
    drawn = chains.draw(method, model, config.n_judged, (k,), generator=generator)[k]
    coins = torch.rand(drawn.shape, generator=generator, device=device)
    null = (coins < x.mean(0)).to(x)
    of_fresh = mmd_of_fresh_sample(x, config.n_judged, "average_hamming")
    return Outcome(
        {
            "log_mmd2": chains.log_mmd2(drawn, x),
            "rmse": learned_error(model, truth),
            "seconds": float(clock.seconds),
            "null_log_mmd2": chains.log_mmd2(null, x),
            "data_log_mmd2": math.log(of_fresh),
            "null_rmse": float(truth.symmetric_coupling.square().mean().sqrt()),
        }
    )


def cells(config: StructuredConfig) -> Cells:
    """Name a cell for every graph, way of learning, method and amount of it."""
    plans = [
        ("reset", m, k)
        for m in config.methods
        for k in config.sweeps
        if m != "GWG-reset" or k <= config.gwg_sweeps
    ]
    others = [m for m in config.methods if chains.METHODS[m].kind == "PMP"]
    others += chains.CHAINS
    plans += [("persistent", m, k) for m in others for k in config.updates]
    common = replace(config, graphs=(), methods=(), sweeps=(), updates=(), n_seeds=1)
    keys = ("graph", "mode", "method", "amount", "config")
    return {
        (graph, *plan[:2], str(plan[2])): dict(
            zip(keys, (graph, *plan, common), strict=True)
        )
        for graph in config.graphs
        for plan in plans
    }


_LABELS = {"log_mmd2": "log MMD²", "rmse": "RMSE of J"}
_SHORT = {"Gibbs-reset": "Gibbs", "GWG-reset": "GWG"}
AMOUNTS = {"reset": "sweeps", "persistent": "single-site updates per step"}


def draw_structured(result: Result) -> Figure:
    """Draw a row of panels for each graph and way of learning: both metrics."""
    table = result.scalars["table"]
    lines = [(graph, mode) for graph in table for mode in AMOUNTS]
    size = panel_size(len(lines), 2, aspect=0.55, title=0.3)
    figure, axes = plt.subplots(len(lines), 2, figsize=size, squeeze=False)
    for line, (graph, mode) in zip(axes, lines, strict=True):
        rows = table[graph][mode]
        first = next(iter(next(iter(rows.values())).values()))
        for ax, (metric, label) in zip(line, _LABELS.items(), strict=True):
            curves = {
                method: {int(k): float(np.mean(of[metric])) for k, of in row.items()}
                for method, row in rows.items()
            }
            levels = {"nothing learned": ("null", np.mean(first[f"null_{metric}"]))}
            if metric == "log_mmd2":
                levels["held-out data"] = ("exact", np.mean(first["data_log_mmd2"]))
            shared.draw_curves(ax, curves, levels)
            shared.log_ticks(ax, [*next(iter(curves.values()))])
            ax.set(title=f"{graph}, {mode}", ylabel=label, xlabel=AMOUNTS[mode])
    # A colour is a method, whether its chains are persistent or not.
    named: dict[str, tuple[Any, str]] = {}
    for ax in axes[:2, 0]:
        for line, name in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(COLORS.get(name, name), (line, _SHORT.get(name, name)))
    handles, labels = zip(*named.values(), strict=True)
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    part_rows(figure)
    return figure


def check_structured(result: Result) -> Verdicts:
    """PMP is ahead of chains that make as few sweeps, or take as long."""
    for graph, modes in result.scalars["table"].items():
        for mode, rows in modes.items():
            for method in (m for m in rows if chains.METHODS[m].kind != "PMP"):
                ahead = [
                    float(np.mean(cell["log_mmd2"]) - np.mean(ours["log_mmd2"]))
                    for amount, cell in rows[method].items()
                    if (ours := rows["PMP"].get(amount))
                ]
                mean, stderr = mean_and_stderr(ahead)
                name = f"{graph}, {mode}: mean log MMD^2 of {method} minus PMP's"
                of = {"stderr": stderr, "n_seeds": result.config["n_seeds"]}
                yield claim(name, mean, "at least", 0.0, **of)


def independent_bits(result: Result) -> Result:
    """Return the score of independent bits for every method, one for each graph."""
    table = deepcopy(result.scalars["table"])
    for modes in table.values():
        rows = [row for rows in modes.values() for row in rows.values()]
        cells = [cell for row in rows for cell in row.values()]
        # Between runs on one graph it differs by noise only.
        null = float(np.mean([cell["null_log_mmd2"] for cell in cells]))
        for cell in cells:
            cell["log_mmd2"] = [null] * len(cell["log_mmd2"])
    return replace(result, scalars=result.scalars | {"table": table})


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
        # Adam at 0.001, penalty 0.01, 50 sweeps to evaluate chains that go on. From the
        # scripts of its code: amounts, 256 chains that go on, for 100,000 steps, five
        # seeds, 2000 samples evaluated. A million updates of a site are 5000 sweeps of
        # the graph's 200 sites and 1600 of the lattice's 625: here 5000 of both. Not
        # from either: the sweeps of PMP beside chains that go on, with as many chains.
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
    baseline=independent_bits,
    devices=("cpu", "cuda"),
    figure=draw_structured,
    check=check_structured,
)
