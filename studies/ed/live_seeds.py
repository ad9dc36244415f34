"""The live run of the page on densities, once for each of nine seeds.

ED-Bern on the two spirals, 1,200 steps, on one processor core: the KL divergence from
the data to the model, beside that of independent bits. Five minutes of an idle core.
Run it from the root of the repository: ``python studies/ed/live_seeds.py``.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import torch

from ebmtut.experiments.ed import evaluation
from ebmtut.experiments.ed.recipes import Recipe, fit_density
from ebmtut.results.atomic import replace_file
from ebmtut.results.provenance import collect_provenance

DENSITY = "2spirals"
RECIPE = Recipe(n_steps=1200, batch_size=64, n_negatives=8, ema_decay=0.99)


def main() -> None:
    """Train with every seed and store what was found beside this file."""
    torch.set_num_threads(1)
    started = time.time()
    gaps = []
    for seed in range(9):
        fit = fit_density(DENSITY, RECIPE, seed=seed)
        found = evaluation.evaluate_density(
            fit.energy, DENSITY, evaluation.QUICK_EVALUATION, seed=seed + 10**6
        )
        gaps.append(found["gap"])
        print(seed, f"{gaps[-1]:.3f}", flush=True)
    result = {
        "density": DENSITY,
        "recipe": asdict(RECIPE),
        "gaps": gaps,
        "baseline": evaluation.evaluate_independent_bits(DENSITY)["gap"],
        "provenance": asdict(collect_provenance(seed=0, started=started)),
    }
    content = json.dumps(result, indent=1) + "\n"
    replace_file(Path(__file__).with_suffix(".json"), content.encode())


if __name__ == "__main__":
    main()
