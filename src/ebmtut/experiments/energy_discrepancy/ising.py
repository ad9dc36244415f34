"""Rows ed/ising-heatmaps (Figure 2) and ed/ising-rmse (Table 3)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut.checks import check_choice, check_range
from ebmtut.data import ising_samples
from ebmtut.energies import Ising, lattice_adjacency
from ebmtut.experiments.energy_discrepancy.ising_reports import (
    check_heatmaps,
    check_rmse,
    draw_heatmaps,
    draw_rmse,
)
from ebmtut.experiments.jobs import Outcome, commits_of, run_jobs, scalars_of
from ebmtut.experiments.registry import Experiment
from ebmtut.losses import (
    Bernoulli,
    Grid,
    Perturbation,
    Pool,
    energy_discrepancy_loss,
)
from ebmtut.metrics import negative_log_rmse
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.training import TrainConfig, train

__all__ = [
    "HEATMAPS",
    "PROBLEMS",
    "RMSE",
    "IsingConfig",
    "edge_precision",
    "fit_coupling",
    "ising_job",
    "run_ising",
]

METHODS = ("ED-Bern", "ED-Grid", "ED-Pool")

# Columns of Table 3: side of the lattice and coupling sigma.
PROBLEMS = (
    (10, 0.1),
    (10, 0.2),
    (10, 0.3),
    (10, 0.4),
    (10, 0.5),
    (9, -0.1),
    (9, -0.2),
)


@dataclass(frozen=True)
class IsingConfig:
    """Which lattices, and how their couplings are learned.

    Parameters
    ----------
    problems
        Pairs (side, sigma): J is sigma times the adjacency of the periodic
        side x side lattice.
    methods
        Some of "ED-Bern", "ED-Grid", "ED-Pool".
    penalties
        Weights of the l1 penalty, mean |J_ij| over all entries; as in the
        paper, the best one for each cell is reported, and beside it the one
        that would have been chosen without knowing the truth.
    n_seeds
        Independent data sets and runs; run k has seed ``seed + k``.
    n_data, n_sweeps
        Samples, and Gibbs sweeps that each of them takes.
    n_negatives, stabilizer, eps
        M, w, and the noise of ED-Bern. The window of ED-Pool is the lattice.
    train
        How to train.
    """

    problems: tuple[tuple[int, float], ...] = PROBLEMS
    methods: tuple[str, ...] = METHODS
    penalties: tuple[float, ...] = (10.0, 25.0, 60.0)
    n_seeds: int = 1
    n_data: int = 2000
    n_sweeps: int = 10_000
    n_negatives: int = 32
    stabilizer: float = 1.0
    eps: float = 0.1
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(
            n_steps=1000,
            batch_size=256,
            learning_rate=1e-2,
            ema_decay=0.99,
            precision="float32",
        )
    )

    def __post_init__(self) -> None:
        for method in self.methods:
            check_choice("methods", method, METHODS)
        for penalty in self.penalties:
            check_range("penalties", penalty, low=0)


def edge_precision(estimate: Tensor, truth: Tensor) -> float:
    """Part of the true edges among as many largest learned couplings.

    Parameters
    ----------
    estimate, truth
        Symmetric couplings, shape (d, d); an edge is a non-zero of ``truth``.
    """
    upper = torch.triu_indices(len(truth), len(truth), 1)
    is_edge = truth[upper[0], upper[1]] != 0
    strength = estimate[upper[0], upper[1]].abs()
    largest = strength.topk(int(is_edge.sum())).indices
    return float(is_edge[largest].double().mean())


def perturbation_of(method: str, config: IsingConfig, n_sites: int) -> Perturbation:
    """Return the perturbation that a method stands for."""
    if method == "ED-Bern":
        return Bernoulli(config.eps)
    return Grid() if method == "ED-Grid" else Pool(n_sites)


def fit_coupling(
    x: Tensor, method: str, penalty: float, config: IsingConfig, *, seed: int
) -> Tensor:
    """Learn couplings from samples by energy discrepancy.

    Parameters
    ----------
    x
        Bits, shape (n_data, n_sites).
    method, penalty, config
        See `IsingConfig`.
    seed
        Seed of minibatches and noise.

    Returns
    -------
    Tensor
        Symmetric couplings with a zero diagonal, shape (n_sites, n_sites).
    """
    n_sites = x.shape[1]
    perturbation = perturbation_of(method, config, n_sites)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        pick = torch.randint(len(x), (n,), generator=generator, device=x.device)
        return x[pick]

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        discrepancy = energy_discrepancy_loss(
            energy,
            x,
            perturbation,
            n_negatives=config.n_negatives,
            stabilizer=config.stabilizer,
            n_backward=8,
            generator=generator,
        )
        assert isinstance(energy, Ising)
        return discrepancy + penalty * energy.symmetric_coupling.abs().mean()

    start = torch.zeros(n_sites, n_sites, device=x.device)
    result = train(
        Ising(start, learnable=True),
        loss,
        sample,
        config.train,
        generator=make_generator(seed, str(x.device)),
        label=f"{method} Ising",
    )
    assert isinstance(result.energy, Ising)
    return result.energy.symmetric_coupling.detach()


def held_out_loss(
    coupling: Tensor, x: Tensor, method: str, config: IsingConfig, seed: int
) -> float:
    """Energy discrepancy of couplings on fresh data, without the penalty."""
    generator = make_generator(seed, str(x.device))
    with torch.no_grad():
        return energy_discrepancy_loss(
            Ising(coupling),
            x,
            perturbation_of(method, config, x.shape[1]),
            n_negatives=config.n_negatives,
            stabilizer=config.stabilizer,
            generator=generator,
        ).item()


def ising_job(
    side: int,
    sigma: float,
    method: str,
    config: IsingConfig,
    seed: int,
    device: str = "cpu",
) -> Outcome:
    """Draw data of one lattice and learn its couplings at every penalty.

    Returns
    -------
    Outcome
        Scalars at the best penalty and (``*_chosen``) at the one with the
        smallest held-out loss; the couplings at the best penalty.
    """
    generator = make_generator(seed, device)
    x = ising_samples(
        side, sigma, config.n_data, n_sweeps=config.n_sweeps, generator=generator
    )
    fresh = ising_samples(
        side, sigma, config.n_data, n_sweeps=config.n_sweeps, generator=generator
    )
    truth = sigma * lattice_adjacency(side).to(x)
    start = time.perf_counter()
    fits = [
        fit_coupling(x, method, penalty, config, seed=seed)
        for penalty in config.penalties
    ]
    seconds = time.perf_counter() - start
    scores = [negative_log_rmse(fit, truth) for fit in fits]
    losses = [held_out_loss(fit, fresh, method, config, seed) for fit in fits]
    best, chosen = int(np.argmax(scores)), int(np.argmin(losses))
    return Outcome(
        {
            "nlr": scores[best],
            "penalty": config.penalties[best],
            "precision": edge_precision(fits[best], truth),
            "nlr_chosen": scores[chosen],
            "penalty_chosen": config.penalties[chosen],
            "null": negative_log_rmse(torch.zeros_like(truth), truth),
            "seconds": seconds,
        },
        {"coupling": fits[best].cpu().numpy()},
    )


def column_name(side: int, sigma: float) -> str:
    """Name a column of Table 3 as the facts do."""
    return f"{side}x{side}, {sigma:g}"


def run_ising(
    config: IsingConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
    checkpoints: Path | None = None,
    id: str = "ed/ising-rmse",
) -> Result:
    """Learn the couplings of every lattice by every method.

    Returns
    -------
    Result
        ``scalars["table"][method][column][metric]`` lists the seeds; arrays
        ``truth/column`` and ``method/column`` are couplings of the first.
    """
    jobs: dict[str, Mapping[str, Any]] = {
        f"{method}-{side}-{sigma:g}-{seed + k}": {
            "side": side,
            "sigma": sigma,
            "method": method,
            "config": replace(config, problems=(), methods=()),
            "seed": seed + k,
            "device": device,
        }
        for k in range(config.n_seeds)
        for method in config.methods
        for side, sigma in config.problems
    }
    outcomes = run_jobs(
        ising_job,
        jobs,
        folder=checkpoints,
        n_workers=1 if device == "cuda" else None,
        progress=progress,
        label=id,
    )
    arrays: dict[str, np.ndarray] = {}
    table: dict[str, Any] = {method: {} for method in config.methods}
    for side, sigma in config.problems:
        column = column_name(side, sigma)
        truth = sigma * lattice_adjacency(side)
        arrays[f"truth/{column}"] = truth.numpy().astype(np.float32)
        for method in config.methods:
            runs = [
                outcomes[f"{method}-{side}-{sigma:g}-{seed + k}"]
                for k in range(config.n_seeds)
            ]
            arrays[f"{method}/{column}"] = runs[0].arrays["coupling"]
            table[method][column] = scalars_of(runs)
    scalars = {"table": table, "commits": commits_of(outcomes)}
    return Result(id, "quick", asdict(config), scalars, arrays)


_HEATMAP = IsingConfig(problems=((10, 0.2),), penalties=(20.0,))

HEATMAPS = Experiment(
    id="ed/ising-heatmaps",
    title="Heat maps of learned couplings",
    presets={
        "quick": replace(_HEATMAP, train=replace(_HEATMAP.train, n_steps=400)),
        "full": replace(_HEATMAP, train=replace(_HEATMAP.train, n_steps=2000)),
    },
    run=partial(run_ising, id="ed/ising-heatmaps"),
    figure=draw_heatmaps,
    check=check_heatmaps,
    resumes=True,
)
RMSE = Experiment(
    id="ed/ising-rmse",
    title="Error of learned couplings",
    presets={
        "quick": IsingConfig(
            problems=((10, 0.1), (10, 0.2), (9, -0.2)),
            methods=("ED-Grid",),
            penalties=(20.0,),
            train=replace(IsingConfig().train, n_steps=400),
        ),
        "full": IsingConfig(),
    },
    run=run_ising,
    figure=draw_rmse,
    check=check_rmse,
    resumes=True,
)
