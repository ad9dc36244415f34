"""Blind deconvolution by Gibbs sampling with less evidence, from several starts.

Everything is as in `pmp/deconvolution` at full scale with the white border. But a wrong
pixel costs less than there: the evidence is a smaller constant, or it grows
geometrically over a run's 1000 sweeps. A sample is the best of four runs, as with PMP.
Of each kind the setting with the fewest wrong pixels on three other seeds is taken.
Run: python studies/pmp/annealed_gibbs.py   (seven minutes, one core)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch.nn.functional import pad

from ebmtut.experiments.pmp.deconvolution import (
    FEATURE_PRIOR,
    LOCATION_PRIOR,
    DeconvolutionConfig,
    feature_distances,
)
from ebmtut.message_passing import EVIDENCE, binary_convolution
from ebmtut.random import bernoulli, make_generator
from ebmtut.results import Result, collect_provenance, save_result
from ebmtut.samplers import deconvolution_gibbs

ID = "pmp/annealed-gibbs"
FOLDER = Path(__file__).resolve().parents[1]
#: Evidence of the first and of the last sweep.
KINDS = {
    "annealed Gibbs": ((1, 10), (1.2, 4), (2, 5), (2, 20), (3, 30)),
    "constant Gibbs": ((3, 3), (5, 5), (10, 10), (20, 20)),
}
N_STAGES, N_STARTS, TUNED_ON = 100, 4, (100, 101, 102)


def annealed(
    config: DeconvolutionConfig, ends: tuple[float, float], generator: torch.Generator
) -> tuple[float, float, float]:
    """Make one run; return its log-probability, wrong pixels and shapes found."""
    data, side = config.data(), config.feature_side
    images = pad(data.images, [1] * 4)
    n, n_features = images.shape[-1] - side + 1, config.n_features
    places = torch.full((len(images), n_features, n, n), LOCATION_PRIOR)
    s = bernoulli(places, generator=generator)
    pixels = torch.full((n_features, side, side), FEATURE_PRIOR)
    w = bernoulli(pixels, generator=generator)
    low, high = ends
    for k in range(N_STAGES):
        s, w = deconvolution_gibbs(
            images,
            s,
            w,
            config.n_sweeps // N_STAGES,
            evidence=low * (high / low) ** (k / (N_STAGES - 1)),
            location_prior=LOCATION_PRIOR,
            feature_prior=FEATURE_PRIOR,
            generator=generator,
        )
    wrong = pad(binary_convolution(s, w), [-1] * 4) != data.images
    odds = torch.logit(torch.tensor([LOCATION_PRIOR, FEATURE_PRIOR]))
    score = odds[0] * s.sum() + odds[1] * w.sum() - EVIDENCE * wrong.sum()
    found = (feature_distances(w, data.features) == 0).sum()
    return float(score), float(wrong.double().mean()), float(found)


def chosen(
    config: DeconvolutionConfig, ranges: Sequence[tuple[float, float]]
) -> tuple[tuple[float, float], dict[str, float]]:
    """Try ranges of the evidence; return the best, and the wrong pixels of each."""
    tried = {}
    for ends in ranges:
        runs = [annealed(config, ends, make_generator(seed)) for seed in TUNED_ON]
        tried[ends] = sum(wrong for _, wrong, _ in runs) / len(runs)
        print(ends, runs, flush=True)
    best = min(tried, key=lambda ends: tried[ends])
    return best, {f"{low} to {high}": tried[low, high] for low, high in tried}


def main() -> None:
    """Choose the evidence of each kind, draw five samples, and store their scores."""
    torch.set_num_threads(1)
    started, config = time.time(), DeconvolutionConfig()
    names = ("error", "found", "seconds")
    table: dict[str, dict[str, list[float]]] = {}
    evidence, tried = {}, {}
    for kind, ranges in KINDS.items():
        evidence[kind], tried[kind] = chosen(config, ranges)
        best: dict[str, list[float]] = {name: [] for name in names}
        first: dict[str, list[float]] = {name: [] for name in names}
        for seed in range(config.n_seeds):
            generator, runs, begun = make_generator(seed), [], time.process_time()
            for _ in range(N_STARTS):
                runs.append(annealed(config, evidence[kind], generator))
                spent = time.process_time() - begun
                if len(runs) in (1, N_STARTS):
                    kept = best if len(runs) == N_STARTS else first
                    for name, value in zip(names, (*max(runs)[1:], spent), strict=True):
                        kept[name].append(value)
            print(kind, seed, runs, flush=True)
        table |= {kind: best, f"{kind}, one start": first}
    made = collect_provenance(seed=0, started=started)
    settings = asdict(config) | {"ranges": KINDS, "n_starts": N_STARTS}
    scalars = {"table": table, "tried": tried, "evidence": evidence}
    print(save_result(Result(ID, "full", settings, scalars, {}, made), FOLDER))


if __name__ == "__main__":
    main()
