"""Contours of zeros, sampled with as many sweeps as their models were learned with.

Everything is as in `pmp/zeros-mmd` at full scale, 1000 steps with 50 sweeps per step,
except that the pictures are reduced to 16 x 16 pixels, so that all of it takes minutes.
The stored result is of the 980 zeros among MNIST's test images; without a data folder
(EBMTUT_DATA) the data are drawn zeros.
Pictures and scores, the errors of pair covariances and of pixel means among them, are
of one run; those called "of Gibbs" are of Gibbs sampling with the same weights.
Run: python studies/pmp/zeros_pictures.py   (seven minutes, one core)
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path

import torch

from ebmtut.experiments.pmp.zeros import FULL, zeros_job, zeros_references
from ebmtut.results import Result, collect_provenance, save_result

ID = "pmp/zeros-pictures"
FOLDER = Path(__file__).resolve().parents[1]
METHODS = ("PMP", "PMP symmetric", "Gibbs-reset", "Gibbs")


def main() -> None:
    """Learn with each sampler, draw its samples, and store all of them."""
    torch.set_num_threads(1)
    started = time.time()
    config = replace(
        FULL, methods=(), shrink=2, sweeps=(FULL.n_sweeps,), n_chains_of={}
    )
    ends = zeros_references(config, 0)
    arrays, table = dict(ends.arrays), {}
    for method in METHODS:
        found = zeros_job(method, config, 0)
        table[method] = {name: [value] for name, value in found.scalars.items()}
        arrays[f"samples/{method}"] = found.arrays["samples"]
        if method == "PMP":
            arrays["Gibbs/PMP"] = found.arrays["Gibbs"]
        print(method, found.scalars, flush=True)
    made = collect_provenance(seed=0, started=started)
    settings = asdict(config) | {"methods": METHODS}
    scalars = {"table": table, **ends.scalars}
    print(save_result(Result(ID, "full", settings, scalars, arrays, made), FOLDER))


if __name__ == "__main__":
    main()
