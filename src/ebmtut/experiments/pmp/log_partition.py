"""Row pmp/log-partition (Figure 1, left and centre)."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebmtut.checks import check_choice, check_range
from ebmtut.energies import BoltzmannMachine
from ebmtut.experiments.jobs import (
    Outcome,
    commits_of,
    run_jobs,
    runs_of,
    seeded_jobs,
)
from ebmtut.experiments.pmp.log_partition_models import (
    ENSEMBLES,
    Ensemble,
    dense_model,
    lattice_model,
)
from ebmtut.experiments.pmp.log_partition_reports import (
    check_log_partition,
    draw_log_partition,
)
from ebmtut.experiments.registry import Experiment
from ebmtut.message_passing.linear_programs import relax
from ebmtut.message_passing.log_partition import (
    exact_perturb_and_map,
    log_partition_bound,
)
from ebmtut.message_passing.max_product import max_product
from ebmtut.message_passing.mplp import mplp
from ebmtut.random import logistic, make_generator
from ebmtut.results import Result

__all__ = [
    "LOG_PARTITION",
    "LogPartitionConfig",
    "log_partition_job",
    "run_log_partition",
]


@dataclass(frozen=True)
class LogPartitionConfig:
    """Which models, and how hard every method tries.

    Parameters
    ----------
    ensembles
        Some of `ENSEMBLES`.
    sizes
        Sides of the lattices, numbers of sites of the dense models.
    n_models
        Dense models of each size.
    n_perturbations, n_on_lattice
        Perturbations of every dense model and of a lattice, the same for all
        methods. A lattice's scores spread by more than its error.
    n_sweeps, damping
        Of max-product.
    tolerance, max_sweeps
        Of MPLP.
    """

    ensembles: tuple[str, ...] = tuple(ENSEMBLES)
    sizes: tuple[int, ...] = (5, 10, 15)
    n_models: int = 100
    n_perturbations: int = 100
    n_on_lattice: int = 1000
    n_sweeps: int = 200
    damping: float = 0.5
    tolerance: float = 1e-6
    max_sweeps: int = 50_000

    def __post_init__(self) -> None:
        for name in self.ensembles:
            check_choice("ensembles", name, ENSEMBLES)
        for size in self.sizes:
            check_range("sizes", size, low=3, high=15, integer=True)
        for name in (
            "n_models",
            "n_perturbations",
            "n_on_lattice",
            "n_sweeps",
            "max_sweeps",
        ):
            check_range(name, getattr(self, name), low=1, integer=True)
        check_range("damping", self.damping, low=0, high=1, include_high=False)
        check_range("tolerance", self.tolerance, low=0, include_low=False)


def log_partition_job(
    ensemble: Ensemble, size: int, config: LogPartitionConfig, seed: int
) -> Outcome:
    """Compare all methods on the models of one ensemble and size.

    Returns
    -------
    Outcome
        Arrays of errors by method: of a lattice one a perturbation, of dense
        models the mean over perturbations, one a model. Scalars
        ``seconds/method`` of CPU and ``sweeps/MPLP``, the mean number.
    """
    generator = make_generator(seed)
    errors: dict[str, list[Tensor]] = {}
    seconds: dict[str, float] = {}
    n_sweeps = []
    is_lattice = ensemble.kind == "lattice"
    _warm_up(ensemble, config)
    for _ in range(1 if is_lattice else config.n_models):
        if is_lattice:
            model, log_z = lattice_model(size, ensemble.coupling)
        else:
            model, log_z = dense_model(size, ensemble.n_uniform, generator=generator)
        n = config.n_on_lattice if is_lattice else config.n_perturbations
        noise = logistic(
            (n, model.n_sites),
            generator=generator,
            dtype=torch.float64,
        )
        found, bound, sweeps = _maximise(model, noise, ensemble, config, seconds)
        n_sweeps.append(sweeps)
        with torch.no_grad():
            scores = {
                name: log_partition_bound(model, x, noise).scores
                for name, x in found.items()
            }
        scores["MPLP bound"] = bound - noise.sum(dim=1) / 2
        for name, score in scores.items():
            error = score - log_z
            errors.setdefault(name, []).append(
                error if is_lattice else error.mean()[None]
            )
    scalars = {f"seconds/{name}": value for name, value in seconds.items()}
    scalars["sweeps/MPLP"] = float(np.mean(n_sweeps))
    arrays = {name: torch.cat(parts).numpy() for name, parts in errors.items()}
    return Outcome(scalars, arrays)


def _warm_up(ensemble: Ensemble, config: LogPartitionConfig) -> None:
    """Load what is compiled on its first call, which is no part of a method's time."""
    generator = make_generator(0)
    model, _ = dense_model(3, 1, generator=generator)
    noise = logistic((1, 3), generator=generator, dtype=torch.float64)
    _maximise(model, noise, ensemble, config, {})


def _maximise(
    model: BoltzmannMachine,
    noise: Tensor,
    ensemble: Ensemble,
    config: LogPartitionConfig,
    seconds: dict[str, float],
) -> tuple[dict[str, Tensor], Tensor, float]:
    """States that each method takes for the best, MPLP's bound, its sweeps."""
    unaries = model.bias.detach() + noise
    found: dict[str, Tensor] = {}

    def clock(name: str, since: float) -> float:
        now = time.process_time()
        seconds[name] = seconds.get(name, 0.0) + now - since
        return now

    since = time.process_time()
    for name, init in (("PMP", "zero"), ("PMP symmetric", "symmetric")):
        found[name] = max_product(
            model, unaries, config.n_sweeps, damping=config.damping, init=init
        ).x
        since = clock(name, since)
    dual = mplp(
        model, unaries, tolerance=config.tolerance, max_sweeps=config.max_sweeps
    )
    found["MPLP"] = dual.x
    since = clock("MPLP", since)
    if ensemble.kind == "dense":
        found["exact"] = exact_perturb_and_map(model, model.n_sites, noise)
        clock("exact", since)
    elif ensemble.coupling > 0:
        # The relaxation of an attractive model is integral, hence exact.
        found["exact"] = relax(model, unaries).x
        clock("exact", since)
    return found, dual.bound, float(dual.n_sweeps.double().mean())


def run_log_partition(
    config: LogPartitionConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
    checkpoints: Path | None = None,
) -> Result:
    """Compare the methods' estimates of log Z with exact ones.

    Returns
    -------
    Result
        ``scalars["table"][ensemble][method][size]`` has ``mean``, ``abs``
        (mean absolute error), ``sd`` and ``stderr`` of the errors, all of which
        lie in the arrays ``ensemble/method``, (n_sizes, n_errors). Computed on
        the CPU, whatever the device.
    """
    alone = replace(config, ensembles=(), sizes=())
    cells = {
        f"{name}-{size}": {"ensemble": ENSEMBLES[name], "size": size, "config": alone}
        for name in config.ensembles
        for size in config.sizes
    }
    outcomes = run_jobs(
        log_partition_job,
        seeded_jobs(cells, [seed]),
        folder=checkpoints,
        progress=progress,
        label="pmp/log-partition",
    )
    arrays: dict[str, np.ndarray] = {}
    table: dict[str, Any] = {}
    costs: dict[str, Any] = {}
    for name in config.ensembles:
        runs = {
            size: runs_of(outcomes, f"{name}-{size}", [seed])[0]
            for size in config.sizes
        }
        costs[name] = {str(size): run.scalars for size, run in runs.items()}
        table[name] = {}
        for method in next(iter(runs.values())).arrays:
            errors = np.stack([run.arrays[method] for run in runs.values()])
            arrays[f"{name}/{method}"] = errors.astype(np.float32)
            table[name][method] = {
                str(size): _summary(row) for size, row in zip(runs, errors, strict=True)
            }
    scalars = {"table": table, "costs": costs, "commits": commits_of(outcomes)}
    return Result("pmp/log-partition", "quick", asdict(config), scalars, arrays)


def _summary(errors: np.ndarray) -> dict[str, float]:
    sd = float(errors.std(ddof=1)) if len(errors) > 1 else float("nan")
    return {
        "mean": float(errors.mean()),
        "abs": float(np.abs(errors).mean()),
        "sd": sd,
        "stderr": sd / len(errors) ** 0.5,
    }


LOG_PARTITION = Experiment(
    id="pmp/log-partition",
    title="Error of log-partition functions",
    presets={
        "quick": LogPartitionConfig(
            ensembles=("lattice", "dense"),
            n_models=30,
            n_perturbations=20,
            n_on_lattice=50,
        ),
        "full": LogPartitionConfig(),
    },
    run=run_log_partition,
    figure=draw_log_partition,
    check=check_log_partition,
    resumes=True,
)
