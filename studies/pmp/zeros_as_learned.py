"""Contours of zeros, sampled with as many sweeps as in learning, by two metrics.

The experiments of the paper (`pmp/zeros-mmd`, `pmp/zeros-samples`) keep pictures after
25 sweeps of models that were learned with 50, and one metric. Here smaller pictures are
learned in the same way (300 steps of Adam, 50 samples per step), with 25 sweeps in
learning and in sampling. Run: python studies/pmp/zeros_as_learned.py   (minutes)
"""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path

import torch

from ebmtut.experiments.pmp.chains import draw, start_samples, sweep_samples
from ebmtut.experiments.pmp.zeros import ZerosConfig, zeros_data
from ebmtut.losses import persistent_match_moments
from ebmtut.metrics import (
    covariance_error,
    covariance_error_of_fresh_sample,
    mmd,
    mmd_of_fresh_sample,
    pair_covariances,
)
from ebmtut.random import make_generator
from ebmtut.results import Result, collect_provenance, save_result

ID = "pmp/zeros-as-learned"
FOLDER = Path(__file__).resolve().parents[1]
METHODS = {"PMP": "PMP symmetric", "Gibbs-reset": "Gibbs-reset", "Gibbs": "Gibbs"}
# 16 x 16 pixels
CONFIG = ZerosConfig(
    shrink=2, n_sweeps=25, n_steps=300, n_chains=50, learning_rate=3e-3
)
N_SHOWN, SEEDS = 12, (0,)


def scores(samples: torch.Tensor, x: torch.Tensor) -> dict[str, float]:
    """Both metrics of samples, held against all data."""
    squared = mmd(samples, x, kernel="average_hamming", statistic="v")
    pairs = covariance_error(samples, pair_covariances(x))
    return {"log_mmd2": math.log(squared), "pairs": pairs}


def learn_and_sample(method: str, x: torch.Tensor, seed: int) -> torch.Tensor:
    """Learn with one sampler; draw new samples with the same number of sweeps."""
    generator = make_generator(seed)
    k = CONFIG.n_sweeps
    advance = partial(sweep_samples, method=method, n_sweeps=k, generator=generator)
    model, _ = persistent_match_moments(
        x,
        advance,
        start_samples(method, CONFIG.n_chains, x.shape[1], generator=generator),
        n_steps=CONFIG.n_steps,
        learning_rate=CONFIG.learning_rate,
    )
    return draw(method, model, CONFIG.n_judged, (k,), generator=generator)[k]


def main() -> None:
    """Learn with every method and store scores and pictures."""
    started = time.time()
    x, source = zeros_data(CONFIG, 0)
    n = CONFIG.n_judged
    table = {
        "held-out data (expected)": {
            "log_mmd2": [math.log(mmd_of_fresh_sample(x, n, "average_hamming"))],
            "pairs": [covariance_error_of_fresh_sample(x, n)],
        }
    }
    arrays = {"data": x[:N_SHOWN]}
    for seed in SEEDS:
        for name in ("independent pixels", *METHODS):
            if name in METHODS:
                drawn = learn_and_sample(METHODS[name], x, seed)
            else:
                uniform = torch.rand(n, x.shape[1], generator=make_generator(seed))
                drawn = (uniform < x.mean(0)).to(x)
            for metric, value in scores(drawn, x).items():
                table.setdefault(name, {}).setdefault(metric, []).append(value)
            arrays.setdefault(name, drawn[:N_SHOWN])
            print(seed, name, table[name], flush=True)
        store(table, arrays, {"source": source, "n_data": len(x)}, seed, started)


def store(table, arrays, scalars, seed, started) -> None:
    """Store what the seeds up to this one gave."""
    config = {
        "n_steps": CONFIG.n_steps,
        "n_sweeps": CONFIG.n_sweeps,
        "n_chains": CONFIG.n_chains,
        "n_samples": CONFIG.n_judged,
        "seeds": SEEDS[: SEEDS.index(seed) + 1],
    }
    pictures = {name: kept.to(torch.uint8).numpy() for name, kept in arrays.items()}
    made = collect_provenance(seed=SEEDS[0], started=started)
    result = Result(ID, "full", config, scalars | {"table": table}, pictures, made)
    print(save_result(result, FOLDER), flush=True)


if __name__ == "__main__":
    main()
