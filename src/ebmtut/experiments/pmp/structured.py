"""Row pmp/structured (Figures 2 and 5): a lattice and random graphs, relearned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor

from ebmtut.checks import Count, NonNegative, Number, OneOf, Positive, Range, checked
from ebmtut.data import ising_samples
from ebmtut.energies import BoltzmannMachine, Ising, lattice_adjacency
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.pmp.chains import (
    CHAINS,
    draw,
    equal_sweeps,
    start_bits,
    start_samples,
    sweep_samples,
    update_samples,
)
from ebmtut.experiments.pmp.structured_reports import (
    check_structured,
    draw_structured,
    independent_bits,
)
from ebmtut.experiments.pmp.timed_loop import timed_loop
from ebmtut.losses import VARIABLES, persistent_match_moments
from ebmtut.metrics import mmd, mmd_of_fresh_sample, rmse
from ebmtut.random import make_generator
from ebmtut.samplers import ising_gibbs
from ebmtut.training import CpuClock

__all__ = [
    "EXPERIMENT",
    "GRAPHS",
    "StructuredConfig",
    "learned_error",
    "structured_job",
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
    checkpoint: Path | None = None,
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
    checkpoint
        File for the state of learning, which goes on from it; None for none.
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
    clock = CpuClock()
    model, _ = persistent_match_moments(
        x,
        partial(advance, method=method, generator=generator),
        start_samples(method, n_chains, n_sites, generator=generator),
        n_steps=n_steps,
        learning_rate=config.learning_rate,
        penalty=config.penalty,
        variables=config.variables,
        label=f"{method} {graph}",
        on_step=clock.tick,
        loop=timed_loop(
            checkpoint,
            config,
            clock,
            generator=generator,
            learned=[graph, mode, method, amount],
            seed=seed,
        ),
    )
    final = amount if mode == "reset" else 50
    drawn = draw(method, model, config.n_judged, (final,), generator=generator)[final]
    coins = torch.rand(drawn.shape, generator=generator, device=device)
    null = (coins < x.mean(0)).to(x)
    return Outcome(
        {
            "log_mmd2": log_mmd2(drawn, x),
            "rmse": learned_error(model, truth),
            "seconds": float(clock.seconds),
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
