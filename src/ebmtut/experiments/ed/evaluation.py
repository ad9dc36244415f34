"""How a learned density is evaluated.

Source: Schröder, Ou, Li and Duncan (2023), Appendix E.2; but samples are independent,
and the NLL is compared with the exact entropy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut import metrics
from ebmtut.data import (
    DensityData,
    density_extent,
    density_log_prob,
    density_scale,
    sample_density,
)
from ebmtut.plotting import grid_points
from ebmtut.random import bernoulli, make_generator
from ebmtut.states import gray_encode


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
    gap = _gap(energy, data, grid.log_partition, generator)
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
def evaluate_independent_bits(
    density: str, n_data: int = 2000, n_repeats: int = 5
) -> dict[str, float]:
    """Evaluate independent bits with the data's means: the untrained baseline."""
    data = DensityData(density)
    generator = make_generator(0)
    means = data.sample_bits(100_000, generator=generator).double().mean(0)
    logits = torch.logit(means.clamp(1e-3, 1 - 1e-3)).float()
    log_partition = float(torch.nn.functional.softplus(logits).sum())

    def energy(x: Tensor) -> Tensor:
        return log_partition - x @ logits

    x = data.sample_bits(n_data, generator=generator)
    exact = metrics.Estimate(0.0, 0.0)
    likelihood = metrics.nll(energy, x, exact)
    gap = _gap(energy, data, exact, generator)
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


def _gap(
    energy: Callable[[Tensor], Tensor],
    data: DensityData,
    log_partition: metrics.Estimate,
    generator: torch.Generator,
    n: int = 20_000,
) -> metrics.Estimate:
    """Return the KL divergence from the data to the model."""
    points = sample_density(data.name, n, generator=generator)
    bits = gray_encode(points, data.scale).float()
    log_p = density_log_prob(data.name, points) - 2 * np.log(data.scale)
    difference = log_p + energy(bits).double()
    return metrics.Estimate(
        float(difference.mean()) + log_partition.value,
        float((difference.var() / n + log_partition.stderr**2).sqrt()),
    )
