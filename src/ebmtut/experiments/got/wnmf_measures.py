"""The images that are factorised, and what measures a factorisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import torch
from scipy.ndimage import median_filter
from torch import Tensor

from ebmtut.checks import Count, InputError, Natural, OneOf, Range, check_range, checked
from ebmtut.data import ImageData, drawn_faces, load_mnist, load_olivetti
from ebmtut.random import make_generator
from ebmtut.transport import (
    GridCost,
    WNMFConfig,
    as_measures,
    grid_dual_value,
    grid_gibbs_pass,
)

SOURCES = ("small digits", "MNIST", "drawn faces", "ORL")


@checked
@dataclass(frozen=True)
class ImagesConfig:
    """Which images, and how they are factorised and judged."""

    source: Annotated[str, OneOf(SOURCES)] = "MNIST"
    n_images: int = 200
    side: Annotated[int, Range(low=4)] = 28
    wnmf: WNMFConfig = field(default_factory=WNMFConfig)
    smoothing: float = 1 / 100
    entropy: float = 1 / 200
    n_rounds: Count = 10
    n_steps: Count = 20
    n_iterations: Count = 1000
    n_exact: int = 200
    n_bound_passes: Natural = 0
    n_looks: Count = 15

    def __post_init__(self) -> None:
        check_range("n_images", self.n_images, low=self.wnmf.n_components, integer=True)
        check_range("n_exact", self.n_exact, low=1, high=self.n_images, integer=True)


def load_measures(config: ImagesConfig) -> Tensor:
    """Load the images, each divided by its mass, (n, side, side) in float32."""
    images = _load(config.source)
    if len(images) < config.n_images:
        raise InputError(
            f"n_images must be at most {len(images)} for {config.source}, "
            f"got {config.n_images}"
        )
    images = images[: config.n_images]
    factor, rest = divmod(images.shape[1], config.side)
    if rest:
        raise InputError(
            f"side must divide {images.shape[1]} for {config.source}, got {config.side}"
        )
    return as_measures(torch.nn.functional.avg_pool2d(images[:, None], factor)[:, 0])


def _load(source: str) -> Tensor:
    if source == "ORL":
        return load_olivetti().images
    if source == "drawn faces":
        return drawn_faces(400, generator=make_generator(0)).images
    if source == "MNIST":
        return _fives(load_mnist("test"))
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.from_numpy(digits.images).float()[:, None]
    images = torch.nn.functional.interpolate(images, scale_factor=2, mode="bilinear")
    return _fives(ImageData(images[:, 0], torch.from_numpy(digits.target), source))


def _fives(data: ImageData) -> Tensor:
    return data.images[data.labels == 5]


def exact_problems(
    p: Tensor, q: Tensor, cost: GridCost, which: range
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Masses and costs of some of the pairs for an exact solver, float64.

    Pixels with less than 1e-9 of the mass are left out, the rest normalised.
    """
    matrix = cost.dense().double().cpu().numpy()
    problems = []
    for i in which:
        a, b = (x[i].flatten().double().cpu().numpy() for x in (p, q))
        keep_a, keep_b = a > 1e-9, b > 1e-9
        a, b = a[keep_a] / a[keep_a].sum(), b[keep_b] / b[keep_b].sum()
        problems.append((a, b, np.ascontiguousarray(matrix[np.ix_(keep_a, keep_b)])))
    return problems


def exact_costs(p: Tensor, q: Tensor, cost: GridCost, which: range) -> np.ndarray:
    """Transport costs of some of the pairs by the network simplex."""
    return solved(exact_problems(p, q, cost, which))


def solved(
    problems: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> np.ndarray:
    """Transport costs by POT's network simplex, ``ot.emd2``; what is timed."""
    import ot

    return np.array([ot.emd2(*problem, numItermax=10_000_000) for problem in problems])


def dual_bounds(
    p: Tensor, q: Tensor, cost: GridCost, n_passes: int, *, generator: torch.Generator
) -> Tensor:
    """Lower bounds of the transport costs by Gibbs-OT from a cold start, (n,).

    The temperature falls from 0.01 / m to a thousandth of that.
    """
    schedule = three_decades(0.01 / p[0].numel(), n_passes)
    U = run_passes(torch.zeros_like(q), p, q, cost, schedule, generator=generator)
    return grid_dual_value(U, p, q, cost)


def three_decades(temperature: float, n_passes: int) -> list[float]:
    """Cool geometrically to a thousandth, over as many iterations as there are."""
    return [temperature * 1e-3 ** (k / n_passes) for k in range(n_passes)]


def run_passes(
    U: Tensor,
    p: Tensor,
    q: Tensor,
    cost: GridCost,
    temperatures: Sequence[float],
    *,
    generator: torch.Generator,
) -> Tensor:
    """Run an iteration of Gibbs-OT at each temperature; return U."""
    for temperature in temperatures:
        U = grid_gibbs_pass(U, p, q, cost, temperature, generator=generator).U
    return U


def sharpness(dictionary: Tensor) -> dict[str, float]:
    """How concentrated and how rough components are, on average."""
    flat = dictionary.double().flatten(1)
    flat = flat / flat.sum(1, keepdim=True)
    images = flat.view(dictionary.shape)
    variation = images.diff(dim=1).abs().sum() + images.diff(dim=2).abs().sum()
    entropy = -torch.special.xlogy(flat, flat).sum(1)
    return {
        "support": float(entropy.exp().mean()),
        "variation": float(variation) / len(flat),
    }


def grain(images: np.ndarray) -> float:
    """Mean share of the images' mass that a median filter of 3x3 pixels moves."""
    smooth = median_filter(images.astype(float), size=(1, 3, 3), mode="nearest")
    moved = np.abs(images - smooth).sum((1, 2)) / images.sum((1, 2))
    return float(moved.mean())


def looked_at(config: ImagesConfig, n: int) -> range:
    """Choose n images evenly."""
    step = config.n_images // n
    return range(0, n * step, step)
