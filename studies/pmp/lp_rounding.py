"""Perturb-and-MAP by linear programs: what becomes of bits that are one half.

Most values of the relaxation are one half, and a sample needs bits. The package sets
such a bit to what is better for it, given the relaxed values of the others. Other rules
learn the zeros here, too: all halves become 0, or random bits, or are rounded as ECOS
returns them, the interior-point solver of the paper's program: 0.5 and a tiny rest.
Run: python studies/pmp/lp_rounding.py [--quick]; --quick needs `pip install ecos`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import joblib
import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from ebmtut.energies import BoltzmannMachine
from ebmtut.experiments.pmp import chains, zeros
from ebmtut.experiments.pmp.zeros_samples import EXPERIMENT
from ebmtut.losses import persistent_match_moments
from ebmtut.message_passing import Relaxation, perturb_and_map_lp
from ebmtut.metrics import covariance_error, pair_covariances
from ebmtut.random import logistic, make_generator
from ebmtut.results import Result, collect_provenance, save_result

ID = "pmp/lp-rounding"
FOLDER = Path(__file__).resolve().parents[1]
RULES = ("better value", "zero", "random bit", "as ECOS returns it")


def rounded(found: Relaxation, rule: str, generator: torch.Generator) -> Tensor:
    """Make bits of the relaxed values."""
    if rule in ("better value", "as ECOS returns it"):
        return found.x
    half = found.relaxed == 0.5
    random = torch.rand(half.shape, generator=generator) < 0.5
    return torch.where(half, (random & (rule == "random bit")).to(found.x), found.x)


def by_interior_point(
    model: BoltzmannMachine, n_samples: int, generator: torch.Generator
) -> Relaxation:
    """Solve perturbed programs as in Appendix D of the paper, and round the solutions.

    The paper's program has a variable for (i, j) and one for (j, i), here they are one.
    """
    import ecos

    n = model.n_sites
    i, j = np.triu_indices(n, 1)
    w = model.symmetric_weight.detach().double().numpy()[i, j]
    p = sparse.identity(n, format="csr")
    q, none = sparse.identity(len(i)), sparse.csr_matrix((len(i), n))
    blocks = [[-p[i], q], [-p[j], q], [p[i] + p[j], -q], [none, -q], [p, None]]
    limits = np.concatenate([0 * w, 0 * w, 1 + 0 * w, 0 * w, np.ones(n)])
    constraints = sparse.csc_matrix(sparse.bmat(blocks))
    noise = logistic((n_samples, n), generator=generator, dtype=torch.float64)
    found = []
    for b in (model.bias + noise).detach().numpy():
        score = np.concatenate([b, w])
        cone = {"l": len(limits)}
        solution = ecos.solve(-score, constraints, limits, cone, verbose=False)
        found.append(solution["x"][:n])
    relaxed = torch.from_numpy(np.array(found))
    return Relaxation(relaxed.round(), relaxed, torch.zeros(n_samples))


def learn(rule: str, preset: str, seed: int) -> dict[str, float]:
    """Learn the zeros with one rule, sample with it, and compare with the data."""
    torch.set_num_threads(1)
    config = EXPERIMENT.presets[preset].reduced
    generator = make_generator(seed)
    x, _ = zeros.zeros_data(config, seed)
    halves, ones = [], []

    def draw(model, n):
        if rule == "as ECOS returns it":
            found = by_interior_point(model, n, generator)
        else:
            found = perturb_and_map_lp(model, n, generator=generator)
        bits = rounded(found, rule, generator)
        half = (found.relaxed - 0.5).abs() < 1e-3
        halves.append(float(half.float().mean()))
        ones.append(float(bits[half].mean()))
        return bits.float()

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
        "halves set to 1": ones[-1],
    }


def main() -> None:
    """Learn with each rule on reduced pictures with --quick, else on all pixels.

    All pixels have the first rule in experiment pmp/zeros-samples.
    """
    started = time.time()
    quick = "--quick" in sys.argv[1:]
    preset, rules, n_seeds = ("full", RULES, 3) if quick else ("paper", RULES[1:3], 2)
    runs = [(rule, preset, seed) for rule in rules for seed in range(n_seeds)]
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(learn)(*run) for run in runs)
    table: dict[str, dict[str, list[float]]] = {}
    for (rule, *_), scores in zip(runs, found, strict=True):
        for name, score in scores.items():
            table.setdefault(rule, {}).setdefault(name, []).append(score)
    if quick:
        config = EXPERIMENT.presets[preset].reduced
        ends = zeros.zeros_references(config, 0).scalars
        table["independent pixels"] = {
            "log_mmd2": [ends["null"]],
            "pairs": [ends["null pairs"]],
        }
        pmp = [zeros.zeros_job("PMP", config, seed).scalars for seed in range(n_seeds)]
        table["PMP"] = {
            "log_mmd2": [scalars[f"log_mmd2@{config.n_sweeps}"] for scalars in pmp],
            "pairs": [scalars["pairs"] for scalars in pmp],
        }
    print(table)
    made = collect_provenance(seed=0, started=started)
    print(save_result(Result(ID, preset, {}, {"table": table}, {}, made), FOLDER))


if __name__ == "__main__":
    main()
