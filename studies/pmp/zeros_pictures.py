"""Contours of zeros, sampled with as many sweeps as their models were learned with.

The models are those of `pmp/zeros-mmd` at full scale, learned anew with the same seed;
the scores after 50 sweeps are therefore the same as there. This study also stores
pictures after 50 sweeps, independent pixels and the error of the pair covariances.
Run: python studies/pmp/zeros_pictures.py   (twenty minutes, one core)
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
METHODS = ("PMP", "Gibbs", "Gibbs-reset", "PMP symmetric")
# The samples after 50 sweeps are the same only if those before are drawn, too.
SWEEPS = tuple(k for k in FULL.sweeps if k <= FULL.n_sweeps)


def main() -> None:
    """Learn with each sampler, and store what is done after each of them."""
    torch.set_num_threads(1)
    started = time.time()
    config = replace(FULL, methods=(), sweeps=SWEEPS, n_chains_of={})
    ends = zeros_references(config, 0)
    arrays, table = dict(ends.arrays), {}
    for method in METHODS:
        found = zeros_job(method, config, 0)
        table[method] = {name: [value] for name, value in found.scalars.items()}
        arrays[f"samples/{method}"] = found.arrays["samples"]
        print(method, found.scalars, flush=True)
        made = collect_provenance(seed=0, started=started)
        settings = asdict(config) | {"methods": tuple(table)}
        scalars = {"table": dict(table), **ends.scalars}
        result = Result(ID, "full", settings, scalars, dict(arrays), made)
        print(save_result(result, FOLDER), flush=True)


if __name__ == "__main__":
    main()
