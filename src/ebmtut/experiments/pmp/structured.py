"""Row pmp/structured (Figures 2 and 5): a lattice and random graphs, relearned."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmtut.checks import check_choice, check_range
from ebmtut.data import ising_samples
from ebmtut.energies import BoltzmannMachine, Ising, lattice_adjacency
from ebmtut.experiments.jobs import Outcome, commits_of, run_jobs, scalars_of
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
)
from ebmtut.experiments.registry import Experiment
from ebmtut.losses import persistent_match_moments
from ebmtut.metrics import mmd, mmd_of_fresh_sample, rmse
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.samplers import ising_gibbs

__all__ = ["GRAPHS", "STRUCTURED", "StructuredConfig", "run_structured", "true_model"]

GRAPHS = ("lattice", "random graph")
METHODS = ("PMP", "PMP symmetric", "Gibbs-reset", "GWG-reset")


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
    updates
        Single-site updates a step of persistent chains; PMP beside them makes as
        many sweeps as take no longer than GWG's (`equal_sweeps`).
    n_data, n_data_sweeps
        Samples to learn from, and the Gibbs sweeps that each of them takes.
    n_steps, learning_rate, penalty
        Of Adam, and the weight of the l1 penalty.
    n_chains, n_chains_persistent
        Samples a step.
    n_judged
        Samples by which a method is judged.
    n_seeds
        Independent runs; run k has seed ``seed + k``.
    """

    graphs: tuple[str, ...] = GRAPHS
    side: int = 25
    coupling: float = -0.1
    n_nodes: int = 200
    methods: tuple[str, ...] = METHODS
    sweeps: tuple[int, ...] = (2, 5, 10, 25)
    updates: tuple[int, ...] = (100, 200, 400)
    n_data: int = 2000
    n_data_sweeps: int = 2000
    n_steps: int = 1000
    learning_rate: float = 1e-3
    penalty: float = 0.01
    n_chains: int = 20
    n_chains_persistent: int = 100
    n_judged: int = 500
    n_seeds: int = 1

    def __post_init__(self) -> None:
        for graph in self.graphs:
            check_choice("graphs", graph, GRAPHS)
        for method in self.methods:
            check_choice("methods", method, METHODS)
        check_range("side", self.side, low=3, integer=True)
        check_range("n_nodes", self.n_nodes, low=5, integer=True)
        for name in (
            "n_data_sweeps",
            "n_steps",
            "n_chains",
            "n_chains_persistent",
            "n_judged",
            "n_seeds",
        ):
            check_range(name, getattr(self, name), low=1, integer=True)
        for count in (*self.sweeps, *self.updates):
            check_range("sweeps, updates", count, low=1, integer=True)
        # The halves of the data are held against each other.
        check_range("n_data", self.n_data, low=2, integer=True)
        check_range("coupling", self.coupling)
        check_range("learning_rate", self.learning_rate, low=0, include_low=False)
        check_range("penalty", self.penalty, low=0)


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
    graph: str, mode: str, method: str, amount: int, config: StructuredConfig, seed: int
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
    """
    truth = true_model(graph, config, seed)
    x = true_data(graph, config, seed)
    generator = make_generator(seed + 2)
    n_sites = truth.n_sites
    if mode == "reset":
        sweeps, n_chains = amount, config.n_chains
    else:
        sweeps, n_chains = equal_sweeps(amount, n_sites), config.n_chains_persistent
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
        n_steps=config.n_steps,
        learning_rate=config.learning_rate,
        penalty=config.penalty,
        label=f"{method} {graph}",
    )
    seconds = time.process_time() - began
    final = amount if mode == "reset" else 50
    drawn = draw(method, model, config.n_judged, (final,), generator=generator)[final]
    null = (torch.rand(drawn.shape, generator=generator) < x.mean(0)).to(x)
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


def structured_jobs(config: StructuredConfig, seed: int) -> dict[str, dict[str, Any]]:
    """List the jobs: what each of them learns, by a name that says it."""
    plans = [("reset", m, k) for m in config.methods for k in config.sweeps]
    rivals = [m for m in config.methods if m.startswith("PMP")] + [*CHAINS]
    plans += [("persistent", m, k) for m in rivals for k in config.updates]
    common = replace(config, graphs=(), methods=(), sweeps=(), updates=(), n_seeds=1)
    return {
        f"{graph}-{mode}-{method}-{amount}-{seed + k}".replace(" ", "_"): {
            "graph": graph,
            "mode": mode,
            "method": method,
            "amount": amount,
            "config": common,
            "seed": seed + k,
        }
        for k in range(config.n_seeds)
        for graph in config.graphs
        for mode, method, amount in plans
    }


def run_structured(
    config: StructuredConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
    checkpoints: Path | None = None,
) -> Result:
    """Relearn every graph in every way. The kernels are the CPU's.

    Returns
    -------
    Result
        ``scalars["table"][graph][mode][method][amount][metric]`` lists the seeds.
    """
    jobs = structured_jobs(config, seed)
    outcomes = run_jobs(
        structured_job,
        jobs,
        folder=checkpoints,
        progress=progress,
        label="pmp/structured",
    )
    runs: dict[tuple[str, str, str, str], list[Outcome]] = {}
    for name, job in jobs.items():
        cell = (job["graph"], job["mode"], job["method"], str(job["amount"]))
        runs.setdefault(cell, []).append(outcomes[name])
    table: dict[str, Any] = {}
    for (graph, mode, method, amount), found in runs.items():
        row = table.setdefault(graph, {}).setdefault(mode, {}).setdefault(method, {})
        row[amount] = scalars_of(found)
    scalars: Mapping[str, Any] = {"table": table, "commits": commits_of(outcomes)}
    return Result("pmp/structured", "quick", asdict(config), dict(scalars), {})


STRUCTURED = Experiment(
    id="pmp/structured",
    title="Lattices and random graphs",
    presets={
        "quick": StructuredConfig(
            methods=("PMP", "Gibbs-reset"),
            sweeps=(2, 5),
            updates=(100,),
            n_data_sweeps=500,
            n_steps=300,
            learning_rate=3e-3,
            n_chains=100,
        ),
        "full": StructuredConfig(),
    },
    run=run_structured,
    figure=draw_structured,
    check=check_structured,
    resumes=True,
)
