"""Perturb-and-MAP by linear programs: what becomes of bits that are one half.

Most values of the relaxation are one half, and a sample needs bits. The package sets
such a bit to what is better for it, given the relaxed values of the others. Two other
rules learn the zeros here, too: all halves become 0, or fair coins.
Run: python studies/pmp/lp_rounding.py [--quick]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import joblib
import torch
from torch import Tensor

from ebmtut.experiments.jobs import one_thread
from ebmtut.experiments.pmp import chains, zeros
from ebmtut.experiments.pmp.zeros_samples import EXPERIMENT
from ebmtut.losses import persistent_match_moments
from ebmtut.message_passing import Relaxation, perturb_and_map_lp
from ebmtut.metrics import covariance_error, pair_covariances
from ebmtut.random import make_generator
from ebmtut.results import Result, collect_provenance, save_result

ID = "pmp/lp-rounding"
FOLDER = Path(__file__).resolve().parents[1]
RULES = ("better value", "zero", "fair coin")


def rounded(found: Relaxation, rule: str, generator: torch.Generator) -> Tensor:
    """Make bits of the relaxed values."""
    if rule == "better value":
        return found.x
    half = found.relaxed == 0.5
    coins = torch.rand(half.shape, generator=generator) < 0.5
    return torch.where(half, (coins & (rule == "fair coin")).to(found.x), found.x)


@one_thread()
def learn(rule: str, preset: str, seed: int) -> dict[str, float]:
    """Learn the zeros with one rule, sample with it, and compare with the data."""
    config = EXPERIMENT.presets[preset].reduced
    generator = make_generator(seed)
    x, _ = zeros.zeros_data(config, seed)
    halves = []

    def draw(model, n):
        found = perturb_and_map_lp(model, n, generator=generator)
        halves.append(float(found.fractional.mean()))
        return rounded(found, rule, generator).float()

    model, _ = persistent_match_moments(
        x,
        lambda state, model: chains.Chains(draw(model, len(state.x))),
        chains.Chains(torch.zeros(config.n_chains, x.shape[1])),
        n_steps=config.n_steps,
        learning_rate=config.learning_rate,
        label=f"{rule}, {x.shape[1]} bits",
    )
    samples = draw(model, config.n_judged)
    return {
        "log_mmd2": chains.log_mmd2(samples, x),
        "pairs": float(covariance_error(samples, pair_covariances(x))),
        "halves": halves[-1],
    }


def main() -> None:
    """Learn with each rule on reduced pictures with --quick, else on all pixels.

    All pixels have the first rule in experiment pmp/zeros-samples.
    """
    started = time.time()
    quick = "--quick" in sys.argv[1:]
    preset, rules, n_seeds = ("full", RULES, 3) if quick else ("paper", RULES[1:], 2)
    runs = [(rule, preset, seed) for rule in rules for seed in range(n_seeds)]
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(learn)(*run) for run in runs)
    table: dict[str, dict[str, list[float]]] = {}
    for (rule, *_), scores in zip(runs, found, strict=True):
        for name, score in scores.items():
            table.setdefault(rule, {}).setdefault(name, []).append(score)
    print(table)
    made = collect_provenance(seed=0, started=started)
    print(save_result(Result(ID, preset, {}, {"table": table}, {}, made), FOLDER))


if __name__ == "__main__":
    main()
