"""Images as measures, and the transport problems between them and their models."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from ebmtut.checks import Count, InputError, Natural, OneOf, Range, check_range, checked
from ebmtut.data import ImageData, drawn_faces, load_mnist, load_olivetti
from ebmtut.random import make_generator
from ebmtut.transport import GridCost, WNMFConfig, as_measures, grid_gibbs_pass

SOURCES = ("small digits", "MNIST", "drawn faces", "ORL")


@checked
@dataclass(frozen=True)
class ImagesConfig:
    """Which images, and how they are factorised and evaluated."""

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


# What the paper prints of its learning: 40 components, gamma = 2.0 for components
# and memberships alike, accelerated steps of the memberships, T that falls by its
# factor after every epoch, iterations of the oracle until its criterion holds. With
# ten of them at most, as at the other scales, the learning diverges. The unit of cost,
# the first temperature, the number of epochs, in which T falls a thousandfold, the
# limit of 1000 and the criterion's V, the mean over all images, are our choice.
PAPER = ImagesConfig(
    wnmf=WNMFConfig(
        n_components=40,
        n_epochs=210,
        step_size=2.0,
        accelerate=True,
        n_hold=0,
        slowness=1.0,
        shrink_steps=False,
        max_passes=1000,
    )
)


def load_measures(config: ImagesConfig) -> Tensor:
    """Load the images, each divided by its mass, (n, side, side) in float32."""
    images, source = _load(config.source), config.source
    n, side = images.shape[:2]
    if n < config.n_images:
        message = f"n_images must be at most {n} for {source}, got {config.n_images}"
        raise InputError(message)
    images = images[: config.n_images]
    factor, rest = divmod(side, config.side)
    if rest:
        raise InputError(f"side must divide {side} for {source}, got {config.side}")
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
) -> list[tuple[np.ndarray, ...]]:
    """Masses and costs of some of the pairs for an exact solver, float64.

    Pixels with less than 1e-9 of the mass are left out, the rest normalised.
    """
    matrix = cost.dense().double().cpu().numpy()
    problems: list[tuple[np.ndarray, ...]] = []
    for i in which:
        a, b = (x[i].flatten().double().cpu().numpy() for x in (p, q))
        keep_a, keep_b = a > 1e-9, b > 1e-9
        a, b = a[keep_a] / a[keep_a].sum(), b[keep_b] / b[keep_b].sum()
        problems.append((a, b, np.ascontiguousarray(matrix[np.ix_(keep_a, keep_b)])))
    return problems


def exact_costs(p: Tensor, q: Tensor, cost: GridCost, which: range) -> np.ndarray:
    """Transport costs of some of the pairs by the network simplex."""
    return solved(exact_problems(p, q, cost, which))


def solved(problems: Sequence[tuple[np.ndarray, ...]]) -> np.ndarray:
    """Transport costs by POT's network simplex, ``ot.emd2``; what is timed."""
    import ot

    return np.array([ot.emd2(*problem, numItermax=10_000_000) for problem in problems])


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


def timed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[float, Any]:
    """CPU seconds, and what the function returns."""
    before = time.process_time()
    value = function(*args, **kwargs)
    return time.process_time() - before, value
