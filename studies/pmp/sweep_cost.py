"""What a sweep costs: Gibbs sampling pays for bits that flip, PMP for every message.

CPU seconds of one sweep of one sample, on a dense model of 900 bits, for couplings and
biases with which more or fewer bits flip. Run: python studies/pmp/sweep_cost.py
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from ebmtut.energies import BoltzmannMachine
from ebmtut.message_passing import perturb_and_max_product
from ebmtut.random import make_generator
from ebmtut.results import Result, collect_provenance, save_result
from ebmtut.samplers import boltzmann_gibbs

ID = "pmp/sweep-cost"
FOLDER = Path(__file__).resolve().parents[1]
N_SITES, N_SAMPLES, N_SWEEPS, SEED = 900, 20, 20, 0
BIASES = (0.0, -2.0, -4.0)  # the stronger, the fewer bits flip


def seconds_per_sweep(run) -> float:
    """CPU seconds of one sweep of one sample: the best of three calls."""
    times = []
    for _ in range(3):
        since = time.process_time()
        run()
        times.append(time.process_time() - since)
    return min(times) / (N_SAMPLES * N_SWEEPS)


def main() -> None:
    """Time both samplers and count the bits that a Gibbs sweep flips."""
    torch.set_num_threads(1)
    started = time.time()
    generator = make_generator(SEED)
    rows = []
    for bias in BIASES:
        weight = torch.randn(N_SITES, N_SITES, generator=generator).triu(1)
        weight = 0.3 * (weight + weight.T) / N_SITES**0.5
        model = BoltzmannMachine(weight, torch.full((N_SITES,), bias))
        x = torch.zeros(N_SAMPLES, N_SITES)

        def gibbs(model=model, x=x):
            return boltzmann_gibbs(model, x, N_SWEEPS, generator=generator)

        def pmp(model=model):
            return perturb_and_max_product(
                model, N_SAMPLES, N_SWEEPS, generator=generator
            )

        before = gibbs()
        after = boltzmann_gibbs(model, before, 1, generator=generator)
        row = {
            "bias": bias,
            "bits that flip": float((before != after).float().mean()),
            "Gibbs": seconds_per_sweep(gibbs),
            "PMP": seconds_per_sweep(pmp),
        }
        rows.append(row)
        print(row, flush=True)
    config = {"n_sites": N_SITES, "n_samples": N_SAMPLES, "n_sweeps": N_SWEEPS}
    made = collect_provenance(seed=SEED, started=started)
    print(save_result(Result(ID, "full", config, {"rows": rows}, {}, made), FOLDER))


if __name__ == "__main__":
    main()
