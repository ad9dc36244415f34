"""A fully observed model of a digit's contours: what rows pmp/zeros-... share."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from ebmtut import metrics
from ebmtut.checks import Count, OneOf, Positive, Range, checked
from ebmtut.data import contours, digits_at_hand
from ebmtut.data.contours import SOURCES
from ebmtut.experiments.jobs import Outcome, timed_loop
from ebmtut.experiments.pmp import chains
from ebmtut.experiments.pmp.shared import baseline
from ebmtut.losses import persistent_match_moments
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.training import CpuClock


@checked
@dataclass(frozen=True)
class ZerosConfig:
    """Which pictures, how they are learned, and how the samples are evaluated."""

    methods: tuple[Annotated[str, OneOf(chains.METHODS)], ...] = chains.SAMPLERS
    digit: Annotated[int, Range(0, 9)] = 0
    source: Annotated[str, OneOf(SOURCES)] = "auto"
    shrink: Count = 1
    n_steps: Count = 1000
    learning_rate: Positive = 1e-3
    n_chains: Count = 100
    n_chains_of: Mapping[Annotated[str, OneOf(chains.METHODS)], Count] = field(
        default_factory=dict
    )
    in_double: tuple[Annotated[str, OneOf(chains.METHODS)], ...] = ()
    n_sweeps: Count = 50
    sweeps: tuple[Count, ...] = (20, 25, 30, 40, 50, 60, 80, 100)
    n_judged: Annotated[int, Range(low=2)] = 500
    n_seeds: Count = 1


def zeros_data(config: ZerosConfig, seed: int) -> tuple[Tensor, str]:
    """Return all contours of the digit, (n, n_sites) bits, and their source."""
    data = digits_at_hand(config.source, generator=make_generator(seed))
    of_digit = data.images[data.labels == config.digit]
    return contours(of_digit.float(), shrink=config.shrink).flatten(1), data.source


class Work(NamedTuple):
    """What sampling computes: updates of sites, energy differences, messages."""

    updates: float
    evaluations: float
    messages: float


def work(
    method: str, n_samples: int, n_sweeps: float, n_sites: int, *, n_pairs: float
) -> Work:
    """Count what sweeps over samples of a model with ``n_pairs`` pairs compute."""
    kind, updates = chains.METHODS[method].kind, float(n_samples * n_sweeps * n_sites)
    if kind == "LP":
        return Work(0.0, 0.0, 0.0)
    if kind == "PMP":  # two messages per pair
        return Work(updates, 0.0, float(n_samples * n_sweeps * 2 * n_pairs))
    # A move of GWG evaluates all sites.
    return Work(updates, updates * n_sites if kind == "GWG" else updates, 0.0)


def zeros_job(
    method: str,
    config: ZerosConfig,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
) -> Outcome:
    """Learn with one method, sample with it, and compare with the data."""
    x = zeros_data(config, seed)[0].to(device)
    if method in config.in_double:
        x = x.double()
    generator = make_generator(seed, device)
    n_chains = config.n_chains_of.get(method, config.n_chains)
    clock = CpuClock()
    which: dict[str, Any] = {"method": method, "seed": seed}
    how: dict[str, Any] = {"n_sweeps": config.n_sweeps, "generator": generator}
    model, _ = persistent_match_moments(
        x,
        partial(chains.sweep_samples, method=method, **how),
        chains.start_samples(method, n_chains, x.shape[1], generator=generator),
        n_steps=config.n_steps,
        learning_rate=config.learning_rate,
        label=f"{method} zeros",
        on_step=clock.tick,
        loop=timed_loop(checkpoint, config, clock, generator=generator, **which),
    )
    n = x.shape[1]
    done = work(
        method, n_chains * config.n_steps, config.n_sweeps, n, n_pairs=n * (n - 1) / 2
    )
    scalars = {"seconds": float(clock.seconds), "n_chains": n_chains, **done._asdict()}
    start = time.process_time()
    samples = chains.draw(
        method, model, config.n_judged, config.sweeps, generator=generator
    )
    scalars["sampling_seconds"] = time.process_time() - start
    for k, drawn in samples.items():
        scalars[f"log_mmd2@{k}"] = chains.log_mmd2(drawn, x)
    # Pictures are sampled as the model was learned.
    shown = config.n_sweeps if config.n_sweeps in samples else min(samples)
    gibbs = chains.draw("Gibbs", model, config.n_judged, (shown,), generator=generator)
    of_gibbs = chains.log_mmd2(gibbs[shown], x)
    scalars["log_mmd2 of Gibbs on these weights"] = of_gibbs
    own = samples[shown]
    scalars["pairs"] = metrics.covariance_error(own, metrics.pair_covariances(x))
    scalars["means"] = metrics.rmse(own.mean(0), x.mean(0))
    pictures = own[:20].to(torch.uint8).cpu().numpy()
    return Outcome(scalars, {"samples": pictures})


def zeros_references(config: ZerosConfig, seed: int) -> Outcome:
    """Score independent pixels and a perfect sampler, and show some data."""
    x, source = zeros_data(config, seed)
    generator, n = make_generator(seed), config.n_judged
    order = torch.randperm(len(x), generator=generator)
    null = (torch.rand(n, x.shape[1], generator=generator) < x.mean(0)).to(x)
    scores = {
        "null": chains.log_mmd2(null, x),
        "data": math.log(metrics.mmd_of_fresh_sample(x, n, "average_hamming")),
        "null pairs": metrics.covariance_error(null, metrics.pair_covariances(x)),
        "data pairs": metrics.covariance_error_of_fresh_sample(x, n),
    }
    shown = {"data": x[order[:20]], "independent pixels": null[:20]}
    arrays = {name: bits.to(torch.uint8).numpy() for name, bits in shown.items()}
    return Outcome({"source": source, "n_data": len(x), **scores}, arrays)


QUICK = ZerosConfig(
    source="drawn",
    shrink=2,
    n_steps=100,
    learning_rate=7e-3,
    n_chains=50,
    n_chains_of={"GWG": 5, "GWG-reset": 5},
    in_double=("GWG", "GWG-reset"),
    n_sweeps=25,
    sweeps=(10, 25, 50),
    n_judged=200,
)
# Gibbs-with-gradients evaluates all 900 sites before each move.
FULL = ZerosConfig(n_chains_of={"GWG": 20, "GWG-reset": 20})


def scores(result: Result, method: str) -> dict[int, list[float]]:
    """Log MMD^2 of a method by number of sweeps, one per seed."""
    row = result.scalars["table"][method]
    return {k: row[f"log_mmd2@{k}"] for k in result.config["sweeps"]}


def independent_pixels(result: Result) -> Result:
    """Return the scores of independent pixels for every method: nothing learned."""
    null, pairs = result.scalars["null"], result.scalars.get("null pairs")
    return baseline(
        result,
        lambda name: null if "log_mmd2" in name else pairs if name == "pairs" else None,
    )
