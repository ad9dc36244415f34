"""A fully observed model of a digit's contours: what rows pmp/zeros-... share."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from ebmtut import metrics
from ebmtut.checks import Count, OneOf, Positive, Range, checked
from ebmtut.data import contours, digits_at_hand
from ebmtut.data.contours import SOURCES
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.pmp import chains
from ebmtut.experiments.pmp.shared import baseline, log_mmd2, timed_loop
from ebmtut.losses import persistent_match_moments
from ebmtut.random import make_generator
from ebmtut.results import Result, Table
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
    advance = partial(
        chains.sweep_samples, n_sweeps=config.n_sweeps, generator=generator
    )
    model, _ = persistent_match_moments(
        x,
        partial(advance, method=method),
        chains.start_samples(method, n_chains, x.shape[1], generator=generator),
        n_steps=config.n_steps,
        learning_rate=config.learning_rate,
        label=f"{method} zeros",
        on_step=clock.tick,
        loop=timed_loop(checkpoint, config, clock, generator=generator, **which),
    )
    n = x.shape[1]
    done = chains.work(
        method, n_chains * config.n_steps, config.n_sweeps, n, n_pairs=n * (n - 1) / 2
    )
    scalars = {"seconds": float(clock.seconds), "n_chains": n_chains, **done._asdict()}
    start = time.process_time()
    samples = chains.draw(
        method, model, config.n_judged, config.sweeps, generator=generator
    )
    scalars["sampling_seconds"] = time.process_time() - start
    for k, drawn in samples.items():
        scalars[f"log_mmd2@{k}"] = log_mmd2(drawn, x)
    # Pictures are sampled as the model was learned.
    shown = config.n_sweeps if config.n_sweeps in samples else min(samples)
    k = config.n_sweeps
    gibbs = chains.draw("Gibbs", model, config.n_judged, (k,), generator=generator)[k]
    scalars["log_mmd2 of Gibbs on these weights"] = log_mmd2(gibbs, x)
    scalars["pairs"] = metrics.covariance_error(
        samples[shown], metrics.pair_covariances(x)
    )
    pictures = samples[shown][:20].to(torch.uint8).cpu().numpy()
    return Outcome(scalars, {"samples": pictures})


def zeros_references(config: ZerosConfig, seed: int) -> Outcome:
    """Score independent pixels and a perfect sampler, and show some data."""
    x, source = zeros_data(config, seed)
    generator, n = make_generator(seed), config.n_judged
    order = torch.randperm(len(x), generator=generator)
    null = (torch.rand(n, x.shape[1], generator=generator) < x.mean(0)).to(x)
    scores = {
        "null": log_mmd2(null, x),
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
    """Return the score of independent pixels for every method: nothing learned."""
    null = result.scalars["null"]
    return baseline(result, lambda name: null if "log_mmd2" in name else None)


def zeros_table(result: Result) -> Table:
    """Tabulate scores at the sweeps of learning, and covariances where measured."""
    k, table = result.config["n_sweeps"], result.scalars["table"]
    measures = {
        "error of covariances": ("pairs", "null pairs", "data pairs"),
        "log MMD²": (f"log_mmd2@{k}", "null", "data"),
        "log MMD², Gibbs": ("log_mmd2 of Gibbs on these weights", "", ""),
    }
    columns: dict[str, list[Any]] = {
        "learned with": [*table, "independent pixels", "perfect sampler (expected)"]
    }
    for head, (own, *ends) in measures.items():
        if all(own in row for row in table.values()):
            columns[head] = [float(np.mean(row[own])) for row in table.values()]
            columns[head] += [result.scalars.get(end) for end in ends]
    return Table(
        columns,
        caption=f"Samples after {k} sweeps by the sampler used in learning; last "
        "column: by Gibbs sampling with the same weights. Lower is better. One seed.",
        kinds=[""] * len(table) + ["null", "exact"],
        even=True,
    )


#: What learning computed.
zeros_work_table = Pivot(
    head="learned with",
    rows={"{method}": "table/{method}"},
    columns={
        "samples a step": "n_chains",
        "site sums": "evaluations",
        "messages": "messages",
        "CPU time [s]": "seconds",
    },
    factors={"site sums": 1e-9, "messages": 1e-9},
    caption="What learning computed: energy differences of one site, and messages, in "
    "thousands of millions.",
)


def sweep_cost_table(cost: Result) -> Table:
    """Tabulate the stored study of what a sweep costs."""
    rows = cost.scalars["rows"]
    flips = [round(100 * row["bits that flip"]) for row in rows]
    return Table(
        {
            "bits that flip in a Gibbs sweep [%]": flips,
            "time of PMP / time of Gibbs": [r["PMP"] / r["Gibbs"] for r in rows],
        },
        caption="Ratio of CPU times per sweep, 900 bits, all coupled; one core. A line "
        "is a model; stronger biases make fewer bits flip.",
        digits=2,
    )


def kernels_table(seed: int) -> Table:
    """Tabulate what two kernels of the MMD see of half the synthetic zeros."""
    x, _ = zeros_data(ZerosConfig(source="drawn", shrink=2), seed)
    uniform = torch.rand(x.shape, generator=make_generator(seed))
    independent, half = (uniform < x.mean(0)).float(), x[1::2]
    kernels = ("average_hamming", "exponential_hamming")
    return Table(
        {
            "kernel": ("exp(−d/D)", "exp(−d/10)"),
            "data": [metrics.mmd(x[::2], half, k) for k in kernels],
            "independent pixels": [metrics.mmd(independent, half, k) for k in kernels],
        },
        caption="Squared MMD to one half of the synthetic zeros.",
        digits=2,
    )


def reduced_table(result: Result) -> Table:
    """Tabulate scores of the reduced problem, which linear programs can learn."""
    config, rows = result.config["reduced"], result.scalars["reduced"]["table"]
    score = f"log_mmd2@{config['n_sweeps']}"
    found = {name: float(np.mean(row[score])) for name, row in rows.items()}
    if references := result.scalars.get("references of reduced"):
        found["independent pixels"] = references["null"]
    return Table(
        {"learned with": list(found), "log MMD²": list(found.values())},
        caption=f"The reduced problem, {config['n_steps']} updates, after "
        f"{config['n_sweeps']} sweeps. One seed.",
        kinds=["null" if name == "independent pixels" else "" for name in found],
    )
