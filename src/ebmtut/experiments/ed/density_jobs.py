"""How an energy of a density is learned and judged: alone, or many as one batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ebmtut.checks import DivergenceError
from ebmtut.data import density_extent, sample_density
from ebmtut.experiments.ed.judging import (
    Evaluation,
    coverage,
    evaluate_density,
    landscape,
)
from ebmtut.experiments.ed.recipes import Recipe, fit_densities, fit_density
from ebmtut.experiments.jobs import Outcome
from ebmtut.random import make_generator
from ebmtut.training import TrainResult


def density_job(
    density: str,
    recipe: Recipe,
    evaluation: Evaluation | None,
    seed: int,
    n_pixels: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
    on_step: Callable[[int, nn.Module], None] | None = None,
) -> Outcome:
    """Learn and judge one energy."""
    start = time.perf_counter()
    try:
        result = fit_density(
            density,
            recipe,
            seed=seed,
            device=device,
            checkpoint=checkpoint,
            on_step=on_step,
        )
    except DivergenceError as error:
        return Outcome({"diverged_at": error.step})
    seconds = time.perf_counter() - start
    return _judged(result, seconds, density, evaluation, seed, n_pixels, device)


def density_jobs(
    jobs: Mapping[str, Mapping[str, Any]],
    *,
    without: Collection[str] = (),
    checkpoint: Path | None = None,
    cuda_graph: bool = False,
    progress: bool = False,
) -> Iterator[tuple[str, Outcome]]:
    """Make the jobs of `density_job` in one process, those that train alike as one.

    PCD, whose chains ask the energies for slopes, is no part of a batch: its jobs are
    made one after the other.
    """
    alike: dict[Any, list[str]] = {}
    for name, job in jobs.items():
        recipe = job["recipe"]
        # Batches of the same length, too: the shorter ones would be padded.
        key = (job["device"], recipe.train_config(), recipe.n_negatives)
        alone = name if recipe.method == "PCD" else ""
        alike.setdefault((*key, alone), []).append(name)
    for k, ((device, *_, alone), names) in enumerate(alike.items()):
        wanted = [name for name in names if name not in without]
        file = checkpoint and checkpoint.with_stem(f"{checkpoint.stem}-{k}")
        start = time.perf_counter()
        if not wanted:
            continue
        if alone:
            outcome = density_job(**jobs[alone], checkpoint=file)
            outcome.seconds = time.perf_counter() - start
            yield alone, outcome
            continue
        results = fit_densities(
            [jobs[name]["density"] for name in names],
            [jobs[name]["recipe"] for name in names],
            seeds=[jobs[name]["seed"] for name in names],
            device=device,
            checkpoint=file,
            cuda_graph=cuda_graph,
            progress=progress,
        )
        seconds = (time.perf_counter() - start) / len(names)
        for name in wanted:
            result, job = results[names.index(name)], jobs[name]
            start = time.perf_counter()
            if isinstance(result, DivergenceError):
                outcome = Outcome({"diverged_at": result.step})
            else:
                outcome = _judged(
                    result,
                    seconds,
                    job["density"],
                    job["evaluation"],
                    job["seed"],
                    job["n_pixels"],
                    device,
                )
            outcome.seconds = seconds + time.perf_counter() - start
            yield name, outcome


def _judged(
    result: TrainResult,
    seconds: float,
    density: str,
    evaluation: Evaluation | None,
    seed: int,
    n_pixels: int,
    device: str,
) -> Outcome:
    """Judge one energy, as `density_job` tells it."""
    picture = landscape(result.energy, density, n_pixels=n_pixels)
    held_out = sample_density(density, 10_000, generator=make_generator(seed + 10**6))
    inside, area = coverage(picture, held_out.numpy(), density_extent(density))
    scalars = {"seconds": seconds, "inside": inside, "area": area}
    if evaluation is not None:
        scalars |= evaluate_density(
            result.energy, density, evaluation, seed=seed + 10**6, device=device
        )
    parts = np.array_split(result.losses, 50)
    losses = np.array([part.mean() for part in parts if len(part)], dtype=np.float32)
    # Half precision is fine near zero, where the mass is, and ends at 65504.
    picture = (picture - picture.max()).clip(-6e4).astype(np.float16)
    return Outcome(scalars, {"landscape": picture, "losses": losses})
