"""Rows ed/ising-heatmaps (Figure 2) and ed/ising-rmse (Table 3)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ebmtut.data import ising_samples
from ebmtut.energies import lattice_adjacency
from ebmtut.experiments.ed.couplings import (
    IsingConfig,
    edge_precision,
    fit_coupling,
    held_out_loss,
)
from ebmtut.experiments.ed.ising_reports import (
    check_heatmaps,
    check_rmse,
    draw_heatmaps,
    draw_rmse,
)
from ebmtut.experiments.jobs import Outcome, commits_of, run_jobs, scalars_of
from ebmtut.experiments.registry import Experiment
from ebmtut.metrics import negative_log_rmse
from ebmtut.random import make_generator
from ebmtut.results import Result

__all__ = ["HEATMAPS", "RMSE", "ising_job", "run_ising"]


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
