"""Samples of contours of zeros by four samplers, with the sweeps of their learning.

Models of 16 x 16 pixels are learned as in `pmp/zeros-samples` at full scale, with 50
sweeps per step, and sampled with 50 sweeps. The stored run of that experiment shows
larger pictures, which are sampled with half the sweeps of the learning.
Run: python studies/pmp/zeros_pictures.py   (two minutes, one core)
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
METHODS = ("PMP", "PMP symmetric", "Gibbs", "Gibbs-reset")
CONFIG = replace(
    FULL, methods=METHODS, shrink=2, sweeps=(FULL.n_sweeps,), n_chains_of={}
)


def main() -> None:
    """Learn with each sampler, draw its samples, and store all of them at the end."""
    torch.set_num_threads(1)
    started = time.time()
    ends = zeros_references(CONFIG, 0)
    arrays, table = dict(ends.arrays), {}
    for method in METHODS:
        found = zeros_job(method, replace(CONFIG, methods=()), 0)
        table[method] = {name: [value] for name, value in found.scalars.items()}
        arrays[f"samples/{method}"] = found.arrays["samples"]
        print(method, found.scalars, flush=True)
    made = collect_provenance(seed=0, started=started)
    scalars = {"table": table, **ends.scalars}
    result = Result(ID, "full", asdict(CONFIG), scalars, arrays, made)
    print(save_result(result, FOLDER))


if __name__ == "__main__":
    main()
