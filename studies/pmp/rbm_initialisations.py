"""RBMs of drawn digits, learned and sampled by PMP from both initialisations.

14 x 14 pixels, 64 hidden units, 150 updates, 3 or 25 sweeps in learning and sampling,
three seeds. Run: python studies/pmp/rbm_initialisations.py   (a minute, one core)
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from ebmtut.experiments import get_experiment
from ebmtut.experiments.experiment import stream
from ebmtut.experiments.pmp.rbm_digits import (
    distances,
    distances_of_data,
    rbm_data,
    reference,
)
from ebmtut.losses import draw_rbm, learn_rbm
from ebmtut.random import make_generator
from ebmtut.results import Result, collect_provenance, save_result

ID = "pmp/rbm-initialisations"
FOLDER = Path(__file__).resolve().parents[1]
SEEDS, SWEEPS = (0, 1, 2), (3, 25)
INITS = {"zero": "N = 0", "symmetric": "N = W/2"}


def main() -> None:
    """Learn, sample and score; the same seeds for both initialisations."""
    torch.set_num_threads(1)
    started = time.time()
    config = get_experiment("pmp/rbm").config("quick")
    table: dict[str, dict[str, list[float]]] = {}

    def keep(name: str, found: dict[str, float]) -> None:
        for metric, value in found.items():
            table.setdefault(name, {}).setdefault(metric, []).append(value)

    for seed in SEEDS:
        x, _ = rbm_data(config, seed)
        data, n = reference(x), config.n_judged
        for k in SWEEPS:
            for init, label in INITS.items():
                generator = stream("training of the RBM", seed)
                learned = learn_rbm(
                    x,
                    "PMP",
                    n_hidden=config.n_hidden,
                    n_steps=config.n_steps,
                    n_sweeps=k,
                    batch_size=config.batch_size,
                    n_chains=config.n_chains,
                    learning_rate=config.learning_rate,
                    init=init,
                    generator=generator,
                ).model
                drawn = draw_rbm(
                    "PMP", learned, n, (k,), init=init, generator=generator
                )[k]
                found = distances(drawn[:, : x.shape[1]], data)
                keep(f"{label}, {k} sweeps", found)
        uniform = torch.rand(n, x.shape[1], generator=make_generator(seed))
        keep("independent pixels", distances((uniform < x.mean(0)).to(x), data))
        keep("held-out data (expected)", distances_of_data(x, n))
        print(seed, flush=True)
    made = collect_provenance(seed=SEEDS[0], started=started)
    settings = {"seeds": SEEDS, "sweeps": SWEEPS}
    print(save_result(Result(ID, "full", settings, {"table": table}, {}, made), FOLDER))


if __name__ == "__main__":
    main()
