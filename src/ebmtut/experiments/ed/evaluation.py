"""How a learned density is evaluated, and the jobs that learn and evaluate one.

Source: Schröder, Ou, Li and Duncan (2023), Appendix E.2; but samples are independent,
and the NLL is compared with the exact entropy.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut import metrics
from ebmtut.checks import DivergenceError
from ebmtut.data import (
    DensityData,
    density_extent,
    density_log_prob,
    density_scale,
    sample_density,
)
from ebmtut.experiments.ed.recipes import Recipe, fit_densities, fit_density
from ebmtut.experiments.experiment import stream, stream_seed
from ebmtut.experiments.jobs import Outcome
from ebmtut.plotting import grid_points
from ebmtut.random import bernoulli, make_generator
from ebmtut.states import gray_encode
from ebmtut.training import TrainResult


@torch.no_grad()
def landscape(
    energy: Callable[[Tensor], Tensor] | None, density: str, *, n_pixels: int = 128
) -> np.ndarray:
    """Log density over the pictured square, up to a constant."""
    points = grid_points(density_extent(density), n_pixels)
    if energy is None:
        log_density = density_log_prob(density, points)
    else:
        bits = gray_encode(points, density_scale(density)).float()
        log_density = -energy(bits.to(_device_of(energy))).cpu()
    return log_density.view(n_pixels, n_pixels).float().numpy()


def _device_of(energy: Callable[[Tensor], Tensor]) -> torch.device:
    """Where an energy's parameters lie; the CPU for one that has none."""
    parameters = energy.parameters() if isinstance(energy, nn.Module) else iter(())
    first = next(parameters, None)
    return torch.device("cpu") if first is None else first.device


def coverage(
    log_density: np.ndarray, points: np.ndarray, extent: float, mass: float = 0.95
) -> tuple[float, float]:
    """Evaluate a landscape by its highest-density region."""
    flat = np.sort(log_density.ravel().astype(np.float64))[::-1]
    cumulative = np.cumsum(np.exp(flat - flat[0]))
    n_inside = int(np.searchsorted(cumulative, mass * cumulative[-1])) + 1
    region = log_density >= flat[n_inside - 1]
    n_pixels = len(log_density)
    pixel = np.floor((points / extent + 1) / 2 * n_pixels).astype(int)
    on_picture = ((pixel >= 0) & (pixel < n_pixels)).all(1)
    column, row = np.clip(pixel, 0, n_pixels - 1).T
    return float((region[row, column] & on_picture).mean()), float(region.mean())


@dataclass(frozen=True)
class Evaluation:
    """How much effort goes into the evaluation of one energy."""

    n_data: int = 4000
    n_uniform: int = 250_000
    n_proposal: int = 200_000
    n_repeats: int = 10
    coarse_bits: int = 8


# Of the gap alone, in a second, with an error of a hundredth of a nat.
QUICK_EVALUATION = Evaluation(
    n_uniform=0, n_proposal=20_000, n_repeats=0, coarse_bits=7
)


@torch.no_grad()
def evaluate_density(
    energy: Callable[[Tensor], Tensor],
    density: str,
    evaluation: Evaluation,
    *,
    seed: int,
    device: str = "cpu",
) -> dict[str, float]:
    """Evaluate an energy: NLL, KL to the data (``gap``), MMD, and their errors."""
    data = DensityData(density)
    generator = make_generator(seed, device)
    x = data.sample_bits(evaluation.n_data, generator=generator)
    grid = metrics.grid_log_partition(
        energy,
        generator=generator,
        coarse_bits=evaluation.coarse_bits,
        n_samples=evaluation.n_proposal,
    )
    likelihood = metrics.nll(energy, x, grid.log_partition)
    gap = data.kl(energy, grid.log_partition, generator=generator)
    numbers = _numbers(nll=likelihood, gap=gap, log_z=grid.log_partition)
    numbers["log_z_ess"] = grid.ess
    if evaluation.n_uniform:
        uniform = metrics.log_partition_uniform(
            energy, data.n_sites, evaluation.n_uniform, generator=generator
        )
        numbers |= _numbers(log_z_uniform=uniform)
        numbers["nll_uniform"] = metrics.nll(energy, x, uniform).value
    if evaluation.n_repeats:
        n_samples = evaluation.n_data * evaluation.n_repeats
        samples = metrics.sample_by_proposal(
            energy, grid.proposal, n_samples, generator=generator
        )
        model, null = [], []
        for y in samples.split(evaluation.n_data):
            x, x2 = (data.sample_bits(len(y), generator=generator) for _ in range(2))
            model.append(1e4 * metrics.mmd(x, y))
            null.append(1e4 * metrics.mmd(x, x2))
        numbers |= _numbers(mmd=_mean(model), mmd_null=_mean(null))
    return numbers


def _numbers(**estimates: metrics.Estimate) -> dict[str, float]:
    """Return values by name, and errors by name and ``_se``."""
    numbers: dict[str, float] = {}
    for name, found in estimates.items():
        numbers |= {name: found.value, f"{name}_se": found.stderr}
    return numbers


def _mean(values: list[float]) -> metrics.Estimate:
    spread = np.std(values, ddof=min(1, len(values) - 1))
    return metrics.Estimate(float(np.mean(values)), float(spread) / len(values) ** 0.5)


@cache
def evaluate_independent_bits(density: str, n_repeats: int = 5) -> dict[str, float]:
    """Evaluate independent bits with the data's means: the untrained baseline."""
    data = DensityData(density)
    generator = make_generator(0)
    means = data.sample_bits(100_000, generator=generator).double().mean(0)
    logits = torch.logit(means.clamp(1e-3, 1 - 1e-3)).float()
    log_partition = float(torch.nn.functional.softplus(logits).sum())

    def energy(x: Tensor) -> Tensor:
        return log_partition - x @ logits

    n_data = 2000
    x = data.sample_bits(n_data, generator=generator)
    exact = metrics.Estimate(0.0, 0.0)
    likelihood = metrics.nll(energy, x, exact)
    gap = data.kl(energy, exact, generator=generator)
    chance = means.float().expand(n_data, -1)
    discrepancies = []
    for _ in range(n_repeats):
        x = data.sample_bits(n_data, generator=generator)
        drawn = bernoulli(chance, generator=generator)
        discrepancies.append(1e4 * metrics.mmd(x, drawn))
    picture = landscape(energy, density)
    points = sample_density(density, 10_000, generator=generator).numpy()
    inside, area = coverage(picture, points, density_extent(density))
    numbers = _numbers(nll=likelihood, gap=gap, mmd=_mean(discrepancies))
    return numbers | {"inside": inside, "area": area}


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
    """Learn and evaluate one energy."""
    start = time.perf_counter()
    try:
        how: Any = {"seed": seed, "device": device, "checkpoint": checkpoint}
        result = fit_density(density, recipe, on_step=on_step, **how)
    except DivergenceError as error:
        return Outcome({"diverged_at": error.step})
    seconds = time.perf_counter() - start
    return _evaluated(result, seconds, density, evaluation, seed, n_pixels, device)


def density_jobs(
    jobs: Mapping[str, Mapping[str, Any]],
    *,
    without: Collection[str] = (),
    checkpoint: Path | None = None,
    cuda_graph: bool = False,
    progress: bool = False,
) -> Iterator[tuple[str, Outcome]]:
    """Make the jobs of `density_job`: those that train alike in one batch, but PCD."""
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
                keys = ("density", "evaluation", "seed", "n_pixels", "device")
                outcome = _evaluated(result, seconds, *(job[key] for key in keys))
            outcome.seconds = seconds + time.perf_counter() - start
            yield name, outcome


def _evaluated(
    result: TrainResult,
    seconds: float,
    density: str,
    evaluation: Evaluation | None,
    seed: int,
    n_pixels: int,
    device: str,
) -> Outcome:
    """Evaluate one energy for `density_job`."""
    picture = landscape(result.energy, density, n_pixels=n_pixels)
    held_out = sample_density(density, 10_000, generator=stream("evaluation", seed))
    extent = density_extent(density)
    inside, area = coverage(picture, held_out.numpy(), extent)
    scalars = {"seconds": seconds, "inside": inside, "area": area}
    if evaluation is not None:
        scalars |= evaluate_density(
            result.energy,
            density,
            evaluation,
            seed=stream_seed("evaluation", seed),
            device=device,
        )
    parts = np.array_split(result.losses, 50)
    means = np.array([part.mean() for part in parts if len(part)], dtype=np.float32)
    # Half precision is fine near zero, where the mass is, and ends at 65504.
    picture = (picture - picture.max()).clip(-6e4).astype(np.float16)
    return Outcome(scalars, {"landscape": picture, "losses": means})
