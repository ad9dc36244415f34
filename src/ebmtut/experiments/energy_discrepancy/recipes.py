"""How a density of the chapter is learned and judged.

Source: Schröder, Ou, Li and Duncan (2023), Appendix E.2; the settings that
its text leaves out are those of its public notebook. What we changed is
named in the chapter's errata.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut.checks import InputError, check_choice
from ebmtut.data import (
    DensityData,
    density_extent,
    density_log_prob,
    density_scale,
    sample_density,
)
from ebmtut.energies import MLPEnergy
from ebmtut.losses import (
    Bernoulli,
    Grid,
    PersistentChains,
    Perturbation,
    Pool,
    contrastive_divergence_loss,
    energy_discrepancy_loss,
)
from ebmtut.metrics import (
    Estimate,
    grid_log_partition,
    log_partition_uniform,
    mmd,
    nll,
    sample_by_proposal,
)
from ebmtut.random import make_generator
from ebmtut.samplers import gwg
from ebmtut.states import gray_encode
from ebmtut.training import Loss, TrainConfig, TrainResult, train

__all__ = [
    "METHODS",
    "Evaluation",
    "Recipe",
    "coverage",
    "evaluate_density",
    "fit_density",
    "landscape",
    "perturbation_of",
]

METHODS = ("ED-Bern", "ED-Grid", "ED-Pool", "PCD")


@dataclass(frozen=True)
class Recipe:
    """How to learn one energy.

    Parameters
    ----------
    method
        One of `METHODS`.
    n_steps, batch_size, learning_rate, decay, ema_decay, precision
        As for `TrainConfig`.
    n_negatives, stabilizer, n_backward
        As for `energy_discrepancy_loss`: M, w, and how many negatives the
        gradient goes through.
    eps, window
        Of ED-Bern and of ED-Pool.
    n_chain_steps
        Gibbs-with-gradients steps an update of PCD.
    """

    method: str = "ED-Bern"
    n_steps: int = 20_000
    batch_size: int = 128
    learning_rate: float = 5e-3
    decay: str = "cosine"
    ema_decay: float = 0.998
    precision: str = "auto"
    n_negatives: int = 32
    stabilizer: float = 1.0
    n_backward: int | None = 4
    eps: float = 0.1
    window: int = 32
    n_chain_steps: int = 5

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        if self.method != "PCD":
            perturbation_of(self)
        self.train_config()

    def train_config(self) -> TrainConfig:
        """Return the part that the training loop needs."""
        return TrainConfig(
            n_steps=self.n_steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            decay=self.decay,
            ema_decay=self.ema_decay,
            precision=self.precision,
        )


def perturbation_of(recipe: Recipe) -> Perturbation:
    """Return the perturbation that the recipe's method stands for."""
    if recipe.method == "ED-Bern":
        return Bernoulli(recipe.eps)
    if recipe.method == "ED-Grid":
        return Grid()
    if recipe.method == "ED-Pool":
        return Pool(recipe.window)
    raise InputError(f"method={recipe.method!r} has no perturbation")


def fit_density(
    density: str,
    recipe: Recipe,
    *,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
    on_step: Callable[[int, nn.Module], None] | None = None,
    progress: bool = False,
) -> TrainResult:
    """Learn the energy of one of the seven densities.

    Parameters
    ----------
    density
        One of `ebmtut.data.DENSITIES`.
    recipe
        Method and settings.
    seed
        Seed of the data, the initial weights and the noise.
    device
        "cpu" or "cuda".
    checkpoint, on_step, progress
        As for `ebmtut.training.train`.

    Returns
    -------
    TrainResult
        The averaged energy and the losses.
    """
    data = DensityData(density)
    generator = make_generator(seed, device)
    start = data.sample_bits(10_000, generator=generator)
    base = start.mean(0).clamp(1e-3, 1 - 1e-3)
    weights = make_generator(seed)
    energy = MLPEnergy(data.n_sites, base_probs=base.cpu(), generator=weights)
    energy.to(device)
    buffers: dict[str, Tensor] = {}
    loss: Loss
    if recipe.method == "PCD":
        chains = PersistentChains(
            start[: recipe.batch_size], n_steps=recipe.n_chain_steps
        )
        buffers["chains"] = chains.x
        loss = _persistent_loss(chains)
    else:
        loss = _discrepancy_loss(recipe)
    return train(
        energy,
        loss,
        data.sample_bits,
        recipe.train_config(),
        generator=generator,
        buffers=buffers,
        checkpoint=checkpoint,
        on_step=on_step,
        progress=progress,
        label=f"{recipe.method} {density}",
    )


def _discrepancy_loss(recipe: Recipe) -> Loss:
    perturbation = perturbation_of(recipe)

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        return energy_discrepancy_loss(
            energy,
            x,
            perturbation,
            n_negatives=recipe.n_negatives,
            stabilizer=recipe.stabilizer,
            n_backward=recipe.n_backward,
            generator=generator,
        )

    return loss


def _persistent_loss(chains: PersistentChains) -> Loss:
    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            x_model = chains.advance(gwg(energy), x, generator=generator)
        return contrastive_divergence_loss(energy, x, x_model)

    return loss


@torch.no_grad()
def landscape(
    energy: Callable[[Tensor], Tensor] | None,
    density: str,
    *,
    n_pixels: int = 128,
    device: str = "cpu",
) -> np.ndarray:
    """Log density over the pictured square, up to a constant.

    Parameters
    ----------
    energy
        Maps bits (n, 32) to energies (n,); None for the true log density.
    density
        One of `ebmtut.data.DENSITIES`; it fixes the square and the code.
    n_pixels
        Pixels a side.

    Returns
    -------
    ndarray
        float32 (n_pixels, n_pixels); rows run from the bottom up.
    """
    extent = density_extent(density)
    # Pixel centres; an even number keeps them off the axes, where the sign
    # bit makes two codes of one point.
    centers = (torch.arange(n_pixels, dtype=torch.float64) + 0.5) / n_pixels
    line = (2 * centers - 1) * extent
    points = torch.cartesian_prod(line, line).flip(1)  # (x, y), y slowest
    if energy is None:
        log_density = density_log_prob(density, points)
    else:
        bits = gray_encode(points, density_scale(density)).float().to(device)
        log_density = -energy(bits).cpu()
    return log_density.view(n_pixels, n_pixels).float().numpy()


def coverage(
    log_density: np.ndarray, points: np.ndarray, extent: float, mass: float = 0.95
) -> tuple[float, float]:
    """Judge a landscape by its highest-density region.

    Parameters
    ----------
    log_density
        From `landscape`.
    points
        Held-out data, (n, 2).
    extent
        Half the side of the pictured square.
    mass
        Part of the model's mass that the region holds.

    Returns
    -------
    inside, area
        Fraction of the points inside the region, and the region's part of
        the square.
    """
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
    """How much effort goes into judging one energy.

    Parameters
    ----------
    n_data
        Held-out points for the NLL, and samples a side for the MMD.
    n_uniform
        Uniform draws for log Z, as in the paper (which takes 1e6); 0 for none.
    n_proposal
        Draws for log Z from the fitted proposal.
    n_repeats
        Repeats of the MMD.
    """

    n_data: int = 4000
    n_uniform: int = 250_000
    n_proposal: int = 200_000
    n_repeats: int = 10


@torch.no_grad()
def evaluate_density(
    energy: Callable[[Tensor], Tensor],
    density: str,
    evaluation: Evaluation,
    *,
    seed: int,
    device: str = "cpu",
) -> dict[str, float]:
    """Judge an energy: NLL, gap to the entropy, MMD, coverage.

    Returns
    -------
    dict
        Numbers and their standard errors (``*_se``). ``gap`` is the NLL
        minus the entropy of the data's law, that is the Kullback-Leibler
        divergence from data to model; it is computed by
        E[log p(x) + U(x)] + log Z, whose variance over the data is far
        smaller than that of the NLL. ``mmd`` is in the literature's units
        of 1e-4; ``mmd_null`` compares data with data.
    """
    data = DensityData(density)
    generator = make_generator(seed, device)
    x = data.sample_bits(evaluation.n_data, generator=generator)
    grid = grid_log_partition(
        energy, generator=generator, n_samples=evaluation.n_proposal
    )
    likelihood = nll(energy, x, grid.log_partition)
    gap = _gap(energy, data, grid.log_partition, generator)
    numbers = {
        "nll": likelihood.value,
        "nll_se": likelihood.stderr,
        "gap": gap.value,
        "gap_se": gap.stderr,
        "log_z": grid.log_partition.value,
        "log_z_se": grid.log_partition.stderr,
        "log_z_ess": grid.ess,
    }
    if evaluation.n_uniform:
        uniform = log_partition_uniform(
            energy, data.n_sites, evaluation.n_uniform, generator=generator
        )
        numbers |= {
            "log_z_uniform": uniform.value,
            "log_z_uniform_se": uniform.stderr,
            "nll_uniform": nll(energy, x, uniform).value,
        }
    if evaluation.n_repeats:
        n_samples = evaluation.n_data * evaluation.n_repeats
        samples = sample_by_proposal(
            energy, grid.proposal, n_samples, generator=generator
        )
        model, null = [], []
        for y in samples.split(evaluation.n_data):
            x, x2 = (data.sample_bits(len(y), generator=generator) for _ in range(2))
            model.append(1e4 * mmd(x, y))
            null.append(1e4 * mmd(x, x2))
        for name, values in (("mmd", model), ("mmd_null", null)):
            spread = np.std(values, ddof=min(1, len(values) - 1))
            numbers[name] = float(np.mean(values))
            numbers[f"{name}_se"] = float(spread) / len(values) ** 0.5
    return numbers


def _gap(
    energy: Callable[[Tensor], Tensor],
    data: DensityData,
    log_partition: Estimate,
    generator: torch.Generator,
    n: int = 20_000,
) -> Estimate:
    """KL divergence from the data's law to the model."""
    points = sample_density(data.name, n, generator=generator)
    bits = gray_encode(points, data.scale).float()
    log_p = density_log_prob(data.name, points) - 2 * np.log(data.scale)
    difference = log_p + energy(bits).double()
    return Estimate(
        float(difference.mean()) + log_partition.value,
        float((difference.var() / n + log_partition.stderr**2).sqrt()),
    )
