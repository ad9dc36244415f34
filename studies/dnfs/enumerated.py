"""Flows of 4 x 4 and 5 x 5 lattices beside the sums over all of their states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmtut.energies import LatticeIsing
from ebmtut.exact import exact_log_partition, exact_mean
from ebmtut.experiments.dnfs.lattices import (
    column_name,
    pair_products,
    rate_bound,
    train_lattice_flow,
)
from ebmtut.experiments.dnfs.recipes import CRITICAL, LatticeConfig
from ebmtut.experiments.experiment import Names, stream
from ebmtut.experiments.jobs import Outcome
from ebmtut.flows import log_partition, simulate, simulate_exact, weighted_mean
from ebmtut.paths import AnnealingPath
from studies.dnfs.figures import study

STEPPED, EXACTLY = "in steps", "exactly"


def enumeration_job(
    method: str,
    side: int,
    sigma: float,
    n_steps: int,
    config: LatticeConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Train our recipe, or leave it untrained, and estimate what a sum would give."""
    path = AnnealingPath(LatticeIsing(side, sigma))
    flow, scalars, _ = train_lattice_flow(
        "ours", path, n_steps, config, seed=seed, checkpoint=checkpoint
    )
    generator = stream("evaluation", seed)
    n, n_times = config.n_samples, config.n_time_steps
    stepped = simulate(flow, n, n_times, generator=generator)
    bound = rate_bound(flow, n_times, generator=generator)
    thinned = simulate_exact(
        flow, n, bound=bound, path_weights=True, generator=generator
    )
    assert thinned.path_log_weights is not None
    found = {
        STEPPED: _estimates(path, stepped.x, stepped.log_weights),
        EXACTLY: _estimates(path, thinned.x, thinned.path_log_weights),
    }
    return Outcome({**scalars, "exceeded": thinned.n_exceeded, **found})


def _estimates(path: AnnealingPath, x: Tensor, log_weights: Tensor) -> dict[str, Any]:
    assert isinstance(path.target, LatticeIsing)
    z = log_partition(log_weights, path.log_partition_start)
    means = weighted_mean(log_weights, _observables(path.target, x))
    noise = {"log Z stderr": z.standard_error}
    return {"log Z": z.estimate, **noise, **_named(path.target, means)}


def _observables(energy: LatticeIsing, x: Tensor) -> Tensor:
    """Energy, bits, and products of two spins by distance: a column each."""
    return torch.cat([energy(x)[:, None], x, pair_products(x, energy.side)], 1)


def _named(energy: LatticeIsing, means: Tensor) -> dict[str, Any]:
    mean, *others = means.tolist()
    marginals, products = others[: energy.n_sites], others[energy.n_sites :]
    return {"energy": mean, "marginals": marginals, "products": products}


def enumerated(config: LatticeConfig, seed: int) -> Outcome:
    """Sum over all states of each lattice, of which there are 33.5 million on 5 x 5."""
    table = {}
    for side, sigma, _ in config.problems:
        energy = LatticeIsing(side, sigma)
        log_z = float(exact_log_partition(energy, energy.n_sites))
        means = exact_mean(energy, partial(_observables, energy))
        table[column_name(side, sigma)] = {"log Z": log_z, **_named(energy, means)}
    return Outcome({"exact": table})


def cells(config: LatticeConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name an entry for every lattice, trained and not."""
    alone = replace(config, problems=(), methods=(), n_seeds=1)
    return {
        (method, column_name(side, sigma)): {
            "method": method,
            "side": side,
            "sigma": sigma,
            "n_steps": n_steps if method == "ours" else 0,
            "config": alone,
        }
        for side, sigma, n_steps in config.problems
        for method in config.methods
    }


ENUMERATED = study(
    "dnfs/ising-enumerated",
    "Small lattices beside the sums over all states",
    LatticeConfig(
        problems=((3, 0.1, 60), (4, CRITICAL, 30)),
        methods=("ours", "untrained"),
        n_seeds=1,
        n_samples=300,
        n_time_steps=16,
        n_warmup=20,
    ),
    LatticeConfig(
        problems=((4, CRITICAL, 1000), (5, CRITICAL, 1000)),
        methods=("ours", "untrained"),
        n_seeds=2,
        n_samples=4000,
    ),
    cells=cells,
    job=enumeration_job,
    extras=enumerated,
    score="exceeded",
)
