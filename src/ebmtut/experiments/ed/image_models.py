"""An energy of binary images: how it is learned, drawn from and judged.

Source: Schröder, Ou, Li and Duncan (2023), Section 5 and Appendix E.3.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut.checks import (
    Count,
    DivergenceError,
    NonNegative,
    OneOf,
    Positive,
    Range,
    checked,
)
from ebmtut.energies import MLPEnergy, ResNetEnergy
from ebmtut.experiments.ed.binary_images import IMAGE_SETS, BinaryImages, binary_images
from ebmtut.experiments.ed.objectives import discrepancy, flips, persistent
from ebmtut.experiments.jobs import Outcome
from ebmtut.losses import (
    Grid,
    PersistentChains,
    Perturbation,
    Pool,
)
from ebmtut.metrics.nll import effective_sample_size, estimate_log_mean_exp
from ebmtut.paths import BasePath
from ebmtut.random import bernoulli, make_generator
from ebmtut.samplers import (
    Sampler,
    annealed_importance_sampling,
    dmala,
    dula,
    gibbs,
    gwg,
    run_chain,
)
from ebmtut.training import TrainConfig, TrainResult, train

DISCREPANCIES = ("ED-Bern", "ED-Grid", "ED-Pool")
#: Persistent chains of the likelihood, and the steps of an update that cost about as
#: much as the 32 negatives of a discrepancy.
CHAINS = {"PCD, Gibbs": 30, "PCD, GWG": 10, "PCD, DULA": 10}
METHODS = (*DISCREPANCIES, *CHAINS)


@checked
@dataclass(frozen=True)
class ImageModel:
    """How an energy of images is learned.

    The network is a perceptron with ``hidden`` units in two hidden layers, or the
    paper's residual one with ``hidden`` channels in eight blocks. ED-Bern flips
    ``n_flips`` pixels per image on average; ``window`` is the side of ED-Pool's blocks.
    """

    data: Annotated[str, OneOf(IMAGE_SETS)] = "digits 8x8"
    method: Annotated[str, OneOf(METHODS)] = "ED-Bern"
    network: Annotated[str, OneOf(("perceptron", "residual"))] = "perceptron"
    hidden: Count = 256
    n_steps: Count = 5000
    batch_size: Count = 100
    learning_rate: Positive = 2e-3
    decay: str = "cosine"
    n_negatives: Count = 32
    stabilizer: NonNegative = 1.0
    n_backward: Count | None = 4
    n_flips: Positive = 1.0
    window: Count = 2
    langevin_step: Positive = 0.1

    def train_config(self) -> TrainConfig:
        """Return the part that the training loop needs."""
        return TrainConfig(
            n_steps=self.n_steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            decay=self.decay,
            ema_decay=0.999,
            precision="float32",
        )

    def energy(self, data: BinaryImages, seed: int) -> MLPEnergy | ResNetEnergy:
        """Make the network over a base with the data's means."""
        how: dict[str, Any] = {
            "base_probs": data.means,
            "generator": make_generator(seed),
        }
        if self.network == "residual":
            return ResNetEnergy(data.side, self.hidden, **how)
        return MLPEnergy(data.side**2, self.hidden, 3, **how)

    def perturbation(self, side: int) -> Perturbation:
        """Return what a method of energy discrepancy does to an image."""
        if self.method == "ED-Bern":
            return flips(self.n_flips / side**2)
        if self.method == "ED-Grid":
            return Grid()
        return Pool((self.window, self.window), (side, side))

    def sampler(self, energy: nn.Module) -> Sampler:
        """Return how the persistent chains of the likelihood move."""
        if self.method == "PCD, DULA":
            return dula(energy, self.langevin_step)
        return gibbs(energy) if self.method == "PCD, Gibbs" else gwg(energy)


@checked
@dataclass(frozen=True)
class Annealing:
    """Annealed importance sampling by DMALA, once more with a quarter of the steps."""

    n_chains: Annotated[int, Range(low=2)] = 100
    n_steps: Annotated[int, Range(low=4)] = 1000
    step_size: Positive = 0.3


def fit_images(
    model: ImageModel,
    *,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
) -> TrainResult:
    """Learn an energy of one of the sets, as `ebmtut.training.train` does."""
    data = binary_images(model.data)
    pixels = data.pixels.to(device)
    generator = make_generator(seed, device)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        rows = torch.randint(len(pixels), (n,), generator=generator, device=device)
        # Bits stay as they are; probabilities become bits, new ones every time.
        return bernoulli(pixels[rows], generator=generator)

    buffers: dict[str, Tensor] = {}
    if model.method in CHAINS:
        start = sample(model.batch_size, generator=generator)
        chains = PersistentChains(start, n_steps=CHAINS[model.method])
        buffers["chains"] = chains.x
        loss = persistent(chains, model.sampler)
    else:
        loss = discrepancy(model.perturbation(data.side), model)
    return train(
        model.energy(data, seed).to(device),
        loss,
        sample,
        model.train_config(),
        generator=generator,
        buffers=buffers,
        checkpoint=checkpoint,
        identity={"model": asdict(model), "seed": seed, "source": data.source},
        label=f"{model.method} {model.data}",
    )


def anneal(
    energy: MLPEnergy | ResNetEnergy,
    how: Annealing,
    n_steps: int,
    *,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Return last states and log-weights, whose mean weight is Z, from the base."""
    assert energy.base_logits is not None
    path = BasePath(energy, energy.base_logits)

    def move(x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        chain = dmala(path.at(t), how.step_size)
        return run_chain(chain, x, 1, generator=generator).x_final

    x, log_weights, _ = annealed_importance_sampling(
        path, move, how.n_chains, n_steps, generator=generator
    )
    return x, log_weights + path.log_partition_start


def variety(x: Tensor) -> float:
    """Return the mean fraction of pixels in which two different images differ."""
    means = x.double().mean(0)
    n = len(x)
    return float((2 * means * (1 - means)).mean()) * n / (n - 1)


def evaluate_images(
    found: TrainResult, data: BinaryImages, annealing: Annealing, seed: int
) -> dict[str, Any]:
    """Estimate the NLL of held-out images by annealing to a learned energy.

    ``settled`` is the change of log Z from a quarter of the steps, ``ess`` the
    effective fraction of the chains, ``variety`` that of their last states over the
    data's, ``samples`` these states.
    """
    energy = found.energy.requires_grad_(False)
    assert isinstance(energy, (MLPEnergy, ResNetEnergy))
    at = next(energy.parameters()).device
    generator = make_generator(seed + 1_000_000, str(at))
    _, few = anneal(energy, annealing, annealing.n_steps // 4, generator=generator)
    x, weights = anneal(energy, annealing, annealing.n_steps, generator=generator)
    log_z, quick = estimate_log_mean_exp(weights), estimate_log_mean_exp(few)
    with torch.no_grad():
        mean_energy = float(energy(data.held_out.to(at)).double().mean())
    return {
        "nll": mean_energy + log_z.value,
        "nll_se": log_z.stderr,
        "settled": log_z.value - quick.value,
        "ess": effective_sample_size(weights),
        "variety": variety(x) / variety(data.held_out),
        "loss": float(np.mean(found.losses[-100:])),
        "samples": x,
    }


def image_job(
    model: ImageModel,
    annealing: Annealing,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy and evaluate it; keep 36 samples. Only a step if it diverged."""
    data = binary_images(model.data)
    began = time.process_time()
    try:
        found = fit_images(model, seed=seed, device=device, checkpoint=checkpoint)
    except DivergenceError as error:
        return Outcome({"diverged_at": error.step})
    seconds = time.process_time() - began
    scalars = evaluate_images(found, data, annealing, seed)
    samples = scalars.pop("samples").reshape(-1, data.side, data.side)
    arrays = {"samples": samples[:36].bool().cpu().numpy()}
    return Outcome(scalars | {"seconds": seconds}, arrays)
