"""The three factorisations of one set of images, and what measures them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebmtut.checks import InputError, check_choice, check_range
from ebmtut.data import ImageData, drawn_faces, load_mnist, load_olivetti
from ebmtut.experiments.jobs import Outcome
from ebmtut.random import make_generator
from ebmtut.results import load_checkpoint, save_checkpoint
from ebmtut.transport import (
    GridCost,
    WNMFConfig,
    WNMFState,
    as_measures,
    grid_cost,
    grid_dual_value,
    grid_gibbs_pass,
    instances_innermost,
    smoothed_wnmf,
    wnmf_epoch,
    wnmf_start,
    wnmf_temperature,
)

__all__ = [
    "METHODS",
    "SOURCES",
    "ImagesConfig",
    "dual_bounds",
    "exact_costs",
    "load_measures",
    "sharpness",
    "wnmf_job",
]

_KEPT = 25  # epochs between two checkpoints
METHODS = ("NMF", "smoothed W-NMF", "Gibbs-OT")
SOURCES = ("small digits", "MNIST", "drawn faces", "ORL")


@dataclass(frozen=True)
class ImagesConfig:
    """Which images, and how they are factorised and judged.

    Parameters
    ----------
    source
        "small digits" (scikit-learn's 8x8 digits, enlarged), "MNIST",
        "drawn faces" or "ORL". Of the digits, the fives are taken.
    n_images, side
        How many, and their size; larger ones are averaged down to it.
    wnmf
        The learning with Gibbs-OT; its K is every method's.
    smoothing, entropy, n_rounds, n_steps
        Smoothed W-NMF: eps, rho_1 = rho_2, alternations, L-BFGS steps.
    n_iterations
        Of plain NMF.
    n_exact
        Images, evenly chosen, whose transport cost is computed exactly.
    n_bound_passes
        Iterations of a Gibbs-OT run from a cold start that bounds the cost of
        all images from below; 0 for none.
    n_looks
        How often the learning is stopped for a look.
    """

    source: str = "MNIST"
    n_images: int = 200
    side: int = 28
    wnmf: WNMFConfig = field(default_factory=WNMFConfig)
    smoothing: float = 1 / 100
    entropy: float = 1 / 200
    n_rounds: int = 10
    n_steps: int = 20
    n_iterations: int = 1000
    n_exact: int = 200
    n_bound_passes: int = 0
    n_looks: int = 15

    def __post_init__(self) -> None:
        check_choice("source", self.source, SOURCES)
        check_range("n_images", self.n_images, low=self.wnmf.n_components, integer=True)
        check_range("side", self.side, low=4, integer=True)
        check_range("n_exact", self.n_exact, low=1, high=self.n_images, integer=True)
        check_range("n_looks", self.n_looks, low=1, integer=True)
        for name in ("n_rounds", "n_steps", "n_iterations"):
            check_range(name, getattr(self, name), low=1, integer=True)
        check_range("n_bound_passes", self.n_bound_passes, low=0, integer=True)


def load_measures(config: ImagesConfig) -> Tensor:
    """Load the images, each divided by its mass, (n, side, side) in float32.

    Raises
    ------
    DataUnavailable
        If the set is not at hand and cannot be downloaded.
    InputError
        If it holds too few images, or its side is no multiple of `side`.
    """
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


def exact_costs(p: Tensor, q: Tensor, cost: GridCost, which: range) -> np.ndarray:
    """Transport costs of some of the pairs by the network simplex, float64.

    Pixels with less than 1e-9 of the mass are left out, the rest normalised.
    """
    import ot

    matrix = cost.dense().double().numpy()
    costs = []
    for i in which:
        a, b = (x[i].flatten().double().numpy() for x in (p, q))
        keep_a, keep_b = a > 1e-9, b > 1e-9
        a, b = a[keep_a] / a[keep_a].sum(), b[keep_b] / b[keep_b].sum()
        part = np.ascontiguousarray(matrix[np.ix_(keep_a, keep_b)])
        costs.append(ot.emd2(a, b, part, numItermax=10_000_000))
    return np.array(costs)


def dual_bounds(
    p: Tensor, q: Tensor, cost: GridCost, n_passes: int, *, generator: torch.Generator
) -> Tensor:
    """Lower bounds of the transport costs by Gibbs-OT from a cold start, (n,).

    The temperature falls from 0.01 / m to a thousandth of that.
    """
    start = 0.01 / p[0].numel()
    U = torch.zeros_like(q)
    for k in range(n_passes):
        temperature = start * 1e-3 ** (k / n_passes)
        U = grid_gibbs_pass(U, p, q, cost, temperature, generator=generator).U
    return grid_dual_value(U, p, q, cost)


def sharpness(dictionary: Tensor) -> dict[str, float]:
    """How concentrated and how rough components are, on average.

    Returns
    -------
    dict
        ``support``: exp of the entropy, in pixels; ``variation``: sum of the
        absolute differences of neighbours, of a component of mass 1.
    """
    flat = dictionary.double().flatten(1)
    flat = flat / flat.sum(1, keepdim=True)
    images = flat.view(dictionary.shape)
    variation = images.diff(dim=1).abs().sum() + images.diff(dim=2).abs().sum()
    entropy = -torch.special.xlogy(flat, flat).sum(1)
    return {
        "support": float(entropy.exp().mean()),
        "variation": float(variation) / len(flat),
    }


def wnmf_job(
    method: str, config: ImagesConfig, seed: int, checkpoint: str | None = None
) -> Outcome:
    """Factorise the images by one method and judge the result.

    Returns
    -------
    Outcome
        Scalars: the mean exact transport cost of the chosen images and its
        standard error, the lower bound over all images, sharpness, and CPU
        seconds, which other work on the machine does not change much.
        Arrays: components as bytes, each scaled to its own largest value;
        for Gibbs-OT the looks at the learning, see `learn_by_gibbs_ot`.
    """
    data = load_measures(config)
    cost = grid_cost(config.side)
    start = time.process_time()
    extra = Outcome()
    if method == "NMF":
        dictionary, mixtures = _learn_by_nmf(data, config, seed)
    elif method == "smoothed W-NMF":
        dictionary, mixtures = _learn_smoothed(data, config, seed)
    else:
        path = Path(checkpoint) if checkpoint else None
        dictionary, mixtures, extra = learn_by_gibbs_ot(data, cost, config, seed, path)
    seconds = time.process_time() - start
    which = looked_at(config, config.n_exact)
    costs = exact_costs(mixtures, data, cost, which)
    scalars: dict[str, Any] = {
        "cost": float(costs.mean()),
        "stderr": float(costs.std(ddof=1)) / len(costs) ** 0.5,
        "seconds": seconds,
        **sharpness(dictionary),
    }
    if config.n_bound_passes:
        bounds = dual_bounds(
            instances_innermost(mixtures),
            data,
            cost,
            config.n_bound_passes,
            generator=make_generator(seed),
        )
        scalars["bound"] = float(bounds.mean())
        part = bounds[which.start :: which.step][: len(which)]
        scalars["bound_error"] = 1 - float(part.mean()) / scalars["cost"]
    scaled = dictionary / dictionary.amax((1, 2), keepdim=True)
    arrays = {"components": (255 * scaled).round().byte().numpy()}
    return Outcome(scalars | extra.scalars, arrays | extra.arrays)


def looked_at(config: ImagesConfig, n: int) -> range:
    """Choose n images evenly."""
    step = config.n_images // n
    return range(0, n * step, step)


def _learn_by_nmf(
    data: Tensor, config: ImagesConfig, seed: int
) -> tuple[Tensor, Tensor]:
    from sklearn.decomposition import NMF

    model = NMF(
        config.wnmf.n_components,
        init="nndsvda",
        random_state=seed,
        max_iter=config.n_iterations,
        tol=1e-5,
    )
    weights = model.fit_transform(data.flatten(1).numpy() * data[0].numel())
    mixtures = torch.from_numpy(weights @ model.components_).view(data.shape)
    dictionary = torch.from_numpy(model.components_).view(-1, *data.shape[1:])
    return (
        dictionary / dictionary.sum((1, 2), keepdim=True),
        mixtures / mixtures.sum((1, 2), keepdim=True),
    )


def _learn_smoothed(
    data: Tensor, config: ImagesConfig, seed: int
) -> tuple[Tensor, Tensor]:
    data = data.double().contiguous()
    start = wnmf_start(data, config.wnmf, generator=make_generator(seed))
    learned = smoothed_wnmf(
        data,
        start.dictionary,
        smoothing=config.smoothing,
        entropy_memberships=config.entropy,
        entropy_dictionary=config.entropy,
        n_rounds=config.n_rounds,
        n_steps=config.n_steps,
    )
    mixtures = torch.einsum("nk,khw->nhw", learned.memberships, learned.dictionary)
    return learned.dictionary, mixtures


def learn_by_gibbs_ot(
    data: Tensor, cost: GridCost, config: ImagesConfig, seed: int, path: Path | None
) -> tuple[Tensor, Tensor, Outcome]:
    """Learn with Gibbs-OT, stopping for looks and checkpoints.

    Returns
    -------
    dictionary, mixtures, outcome
        Scalars of the outcome: median CPU seconds of an epoch and of the exact
        solution of all its problems, and the duals' error in the last look.
        ``looks`` has a row for each look: epoch, temperature, V, mean exact
        cost of up to 20 images, the error of their feasible duals, iterations
        of the epoch, seconds of exact solutions a problem.
    """
    generator = make_generator(seed)
    state = wnmf_start(data, config.wnmf, generator=generator)
    seconds: list[float] = []
    looks: list[list[float]] = []
    if path is not None and path.is_file():
        tensors, meta = load_checkpoint(path)
        if meta["config"] == repr((config, seed)):
            generator.set_state(tensors["generator"])
            state = WNMFState.from_tensors(tensors)
            seconds, looks = meta["seconds"], meta["looks"]
    every = max(1, config.wnmf.n_epochs // config.n_looks)
    n_looked = min(20, config.n_exact)
    for epoch in range(state.epoch, config.wnmf.n_epochs):
        before = time.process_time()
        wnmf_epoch(state, data, cost, config.wnmf, generator=generator)
        seconds.append(time.process_time() - before)
        last = state.epoch == config.wnmf.n_epochs
        if state.epoch % every == 0 or last:
            temperature = wnmf_temperature(data, config.wnmf, epoch)
            measured = _look(state, data, cost, looked_at(config, n_looked))
            looks.append(
                [state.epoch, temperature, state.value, *measured, state.n_passes]
            )
        if path is not None and state.epoch % _KEPT == 0 and not last:
            tensors = state.tensors() | {"generator": generator.get_state()}
            meta = {"config": repr((config, seed)), "seconds": seconds, "looks": looks}
            save_checkpoint(path, tensors, meta)
    if path is not None:
        path.unlink(missing_ok=True)
    scalars = {
        "epoch_seconds": float(np.median(seconds)),
        "exact_seconds": float(np.median([look[5] for look in looks])) * len(data),
        "dual_error": looks[-1][4],
        "n_passes": float(np.mean([look[6] for look in looks])),
    }
    outcome = Outcome(scalars, {"looks": np.array(looks)})
    return state.dictionary, state.reconstruction, outcome


def _look(
    state: WNMFState, data: Tensor, cost: GridCost, which: range
) -> tuple[float, float, float]:
    """Exact cost, error of the feasible duals, seconds a problem."""
    p = state.reconstruction
    before = time.process_time()
    exact = exact_costs(p, data, cost, which).mean()
    seconds = (time.process_time() - before) / len(which)
    duals = grid_dual_value(state.U, p, data, cost)[list(which)]
    return float(exact), 1 - float(duals.mean()) / float(exact), seconds
