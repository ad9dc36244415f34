"""Contours of zeros: how each sampler learns, and who can use what it learned.

Everything is as in `pmp/zeros-mmd` at full scale, with 50 sweeps per step, except that
the pictures are reduced to 16 x 16 pixels and that learning goes on for 4,000 steps in
place of 1,000, with an evaluation after each doubling. Every method starts anew for an
evaluation and makes 50 sweeps. At the end every sampler is run with all weights.
The stored result is of the 980 zeros among MNIST's test images; without a data folder
(EBMTUT_DATA) the data are drawn zeros.
Run: python studies/pmp/zeros_pictures.py   (an hour of a core)
"""

from __future__ import annotations

import copy
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import torch
from torch import Tensor

from ebmtut import metrics
from ebmtut.energies import BoltzmannMachine
from ebmtut.experiments.jobs import Outcome, scalars_of
from ebmtut.experiments.pmp import chains
from ebmtut.experiments.pmp.zeros import (
    FULL,
    ZerosConfig,
    zeros_data,
    zeros_references,
)
from ebmtut.losses import persistent_match_moments
from ebmtut.random import make_generator
from ebmtut.results import Result, collect_provenance, save_result
from ebmtut.training import CpuClock

ID = "pmp/zeros-pictures"
FOLDER = Path(__file__).resolve().parents[1]
METHODS = ("PMP", "Gibbs-reset", "Gibbs")
#: Evaluated after each of these steps; the paper makes 1,000.
STEPS = (125, 250, 500, 1000, 2000, 4000)
N_SEEDS, N_JUDGED, N_SHOWN, N_LONG = 5, 2000, 20, 2500


def run(method: str, config: ZerosConfig, seed: int) -> Outcome:
    """Learn with one sampler, and evaluate what it has learned on the way."""
    torch.set_num_threads(1)
    x, n_sweeps = zeros_data(config, seed)[0], config.n_sweeps
    n_sites, generator = x.shape[1], make_generator(seed)
    # Compiles the sampler before the clock starts.
    blank = BoltzmannMachine(torch.zeros(n_sites, n_sites), torch.zeros(n_sites))
    chains.draw(method, blank, 2, (1,), generator=make_generator(0))
    clock = CpuClock()
    models: list[BoltzmannMachine] = []
    seconds: list[float] = []

    def keep(step: int, model: BoltzmannMachine) -> None:
        clock.tick(step, model)
        if step + 1 in STEPS:
            models.append(copy.deepcopy(model))
            seconds.append(float(clock.seconds))

    how: dict[str, Any] = {"n_sweeps": n_sweeps, "generator": generator}
    persistent_match_moments(
        x,
        partial(chains.sweep_samples, method=method, **how),
        chains.start_samples(method, config.n_chains, n_sites, generator=generator),
        n_steps=STEPS[-1],
        learning_rate=config.learning_rate,
        on_step=keep,
    )

    def draw(sampler: str, model: BoltzmannMachine, k: int = n_sweeps) -> Tensor:
        return chains.draw(sampler, model, N_JUDGED, (k,), generator=generator)[k]

    wanted = metrics.pair_covariances(x)
    samples = [draw(method, model) for model in models]
    last = models[-1]
    scalars = {
        "seconds": seconds,
        "pairs": [metrics.covariance_error(bits, wanted) for bits in samples],
        "means": [metrics.rmse(bits.mean(0), x.mean(0)) for bits in samples],
        "log_mmd2": [chains.log_mmd2(bits, x) for bits in samples],
        "largest weight": float(last.symmetric_weight.detach().abs().max()),
    }
    drawn = {
        "by PMP": draw("PMP", last),
        "by Gibbs": draw("Gibbs", last),
        "by long Gibbs": draw("Gibbs", last, N_LONG),
    }
    for name, bits in drawn.items():
        scalars[f"pairs {name}"] = metrics.covariance_error(bits, wanted)
        scalars[f"means {name}"] = metrics.rmse(bits.mean(0), x.mean(0))
    shown = {"samples": samples[-1], "Gibbs": drawn["by Gibbs"]}
    arrays = {k: v[:N_SHOWN].to(torch.uint8).numpy() for k, v in shown.items()}
    print(method, seed, scalars, flush=True)
    return Outcome(scalars, arrays)


def main() -> None:
    """Run each method with every seed, and store errors and pictures."""
    started = time.time()
    config = replace(
        FULL, methods=(), shrink=2, n_judged=N_JUDGED, n_chains_of={}, n_seeds=N_SEEDS
    )
    # The longest first.
    jobs = [(method, seed) for method in METHODS for seed in range(N_SEEDS)]
    made = joblib.Parallel(n_jobs=-1, batch_size=1)(
        joblib.delayed(run)(method, config, seed) for method, seed in jobs
    )
    outcomes = dict(zip(jobs, made, strict=True))
    ends = zeros_references(config, 0)
    arrays: dict[str, Any] = dict(ends.arrays)
    table = {}
    for method in METHODS:
        runs = [outcomes[method, seed] for seed in range(N_SEEDS)]
        table[method] = scalars_of(runs)
        arrays[f"samples/{method}"] = runs[0].arrays["samples"]
    arrays["Gibbs/PMP"] = outcomes["PMP", 0].arrays["Gibbs"]
    settings = asdict(config) | {"methods": METHODS, "steps": STEPS, "n_long": N_LONG}
    provenance = collect_provenance(seed=0, started=started)
    scalars = {"table": table, **ends.scalars}
    print(
        save_result(Result(ID, "full", settings, scalars, arrays, provenance), FOLDER)
    )


if __name__ == "__main__":
    main()
