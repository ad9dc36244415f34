"""Contours of zeros, sampled with as many sweeps as their models were learned with.

Everything is as in `pmp/zeros-mmd` at full scale, 1000 steps with 50 sweeps per step,
except that the pictures are reduced to 16 x 16 pixels, so that all of it takes minutes.
The stored result is of the 980 zeros among MNIST's test images; without a data folder
(EBMTUT_DATA) the data are drawn zeros.
Scores are of five runs with different seeds, pictures of the first; those called "of
Gibbs" and "of long Gibbs" are of Gibbs sampling with the same weights, with 50 and
with 5,000 sweeps.
Run: python studies/pmp/zeros_pictures.py   (half an hour, one core)
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from ebmtut.experiments.pmp.zeros import FULL, zeros_job, zeros_references
from ebmtut.results import Result, collect_provenance, save_result

ID = "pmp/zeros-pictures"
FOLDER = Path(__file__).resolve().parents[1]
METHODS = ("PMP", "PMP symmetric", "Gibbs-reset", "Gibbs")
N_SEEDS, N_LONG = 5, 5000


def main() -> None:
    """Learn with each sampler, draw its samples, and store all of them."""
    torch.set_num_threads(1)
    started = time.time()
    config = replace(
        FULL,
        methods=(),
        shrink=2,
        sweeps=(FULL.n_sweeps,),
        n_chains_of={},
        n_long=N_LONG,
        n_seeds=N_SEEDS,
    )
    ends = zeros_references(config, 0)
    arrays: dict[str, Any] = dict(ends.arrays)
    table: dict[str, dict[str, list[float]]] = {}
    for method in METHODS:
        runs = [zeros_job(method, config, seed) for seed in range(N_SEEDS)]
        scores = [run.scalars for run in runs]
        table[method] = {name: [run[name] for run in scores] for name in scores[0]}
        arrays[f"samples/{method}"] = runs[0].arrays["samples"]
        if method == "PMP":
            arrays["Gibbs/PMP"] = runs[0].arrays["Gibbs"]
        print(method, table[method], flush=True)
    made = collect_provenance(seed=0, started=started)
    settings = asdict(config) | {"methods": METHODS}
    scalars = {"table": table, **ends.scalars}
    print(save_result(Result(ID, "full", settings, scalars, arrays, made), FOLDER))


if __name__ == "__main__":
    main()
