"""Binary images: the sets, and how an energy of them is learned and evaluated.

Source: Schröder, Ou, Li and Duncan (2023), Section 5 and Appendix E.3.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut.checks import (
    Count,
    DivergenceError,
    NonNegative,
    OneOf,
    Positive,
    Range,
    check_choice,
    checked,
)
from ebmtut.data import (
    DataUnavailable,
    ImageData,
    binarize,
    load_digits,
    load_omniglot,
)
from ebmtut.energies import MLPEnergy, ResNetEnergy
from ebmtut.experiments.ed.recipes import discrepancy, flips, persistent
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

# Of Omniglot's thin strokes an averaged pixel has less ink than of MNIST's.
_INK = 0.2


class BinaryImages(NamedTuple):
    """Binary images: training images (probabilities if dynamic) and held-out ones."""

    side: int
    pixels: Float[Tensor, "n_images n_sites"]
    held_out: Float[Tensor, "n_samples n_sites"]
    source: str

    @property
    def means(self) -> Float[Tensor, " n_sites"]:
        """Means of the pixels, as if one more image were half ink: never 0 or 1."""
        return (self.pixels.sum(0) + 0.5) / (len(self.pixels) + 1)

    def independent_nll(self) -> float:
        """NLL of held-out images under independent bits with those means, in nats."""
        return float(_bernoulli_log_prob(self.held_out, self.means[None]).mean().neg())


class _Raw(NamedTuple):
    data: ImageData
    n_held_out: int


def _digits8() -> _Raw:
    try:
        from sklearn.datasets import load_digits as load_small_digits
    except ImportError as error:
        raise DataUnavailable(
            "digits 8x8 need scikit-learn, got none: pip install 'ebmtut[transport]'"
        ) from error
    found = load_small_digits()
    images = torch.from_numpy(found.images).float() / 16
    labels = torch.from_numpy(found.target)
    return _Raw(ImageData(images, labels, "scikit-learn's digits"), 300)


def _mnist(side: int) -> _Raw:
    # At the paper's size its training images; else the test images, which are what a
    # machine without a network may have.
    data = load_digits("train" if side == 28 else "test", generator=make_generator(0))
    images = nn.functional.avg_pool2d(data.images[:, None], 28 // side)[:, 0]
    return _Raw(data._replace(images=images), 2000)


def _omniglot(side: int) -> _Raw:
    data = load_omniglot(side=side)
    return _Raw(data._replace(images=(data.images > _INK).float()), 1000)


_SETS: Mapping[str, Callable[[], _Raw]] = {
    "digits 8x8": _digits8,
    "MNIST 14x14": lambda: _mnist(14),
    "Omniglot 14x14": lambda: _omniglot(14),
    "MNIST 28x28": lambda: _mnist(28),
    "Omniglot 28x28": lambda: _omniglot(28),
}
_DYNAMIC = ", dynamic"
#: The sets that the rows know, by name.
IMAGE_SETS = (*_SETS, f"MNIST 14x14{_DYNAMIC}", f"MNIST 28x28{_DYNAMIC}")


@cache
def binary_images(name: str) -> BinaryImages:
    """Load a set, always divided in the same way.

    A pixel is a one where it has more than half the ink, in Omniglot more than a fifth;
    in a dynamic set with its ink as the probability.
    """
    check_choice("data", name, IMAGE_SETS)
    data, n_held_out = _SETS[name.removesuffix(_DYNAMIC)]()
    generator = make_generator(0)
    images = data.images[torch.randperm(len(data.images), generator=generator)]
    pixels = images.flatten(1) if name.endswith(_DYNAMIC) else binarize(images)
    held_out = binarize(pixels[:n_held_out, None], generator=generator)
    return BinaryImages(
        images.shape[1], pixels[n_held_out:].clone(), held_out, data.source
    )


@checked
def mixture_nll(
    data: BinaryImages,
    n_components: Count = 50,
    n_rounds: Count = 50,
    *,
    generator: torch.Generator,
) -> float:
    """Return the held-out NLL of a mixture of independent bits, fitted by EM, in nats.

    It needs no chain and no estimate of Z: an energy should beat it.
    """
    x = data.pixels
    start = torch.rand(len(x), n_components, generator=generator)
    shares = (20 * start).softmax(1)
    for _ in range(n_rounds):
        weight = shares.sum(0)
        # As `BinaryImages.means`, with the mean image in place of half ink.
        means = (shares.T @ x + data.means) / (weight[:, None] + 1)
        log_weight = (weight / weight.sum()).clamp_min(1e-30).log()
        shares = (_bernoulli_log_prob(x, means) + log_weight).softmax(1)
    log_prob = (_bernoulli_log_prob(data.held_out, means) + log_weight).logsumexp(1)
    nll = -float(log_prob.mean())
    return nll if math.isfinite(nll) else math.inf


def _bernoulli_log_prob(
    x: Float[Tensor, "n n_sites"], means: Float[Tensor, "n_components n_sites"]
) -> Float[Tensor, "n n_components"]:
    """Log-probability of each state under each distribution of independent bits."""
    return x @ torch.logit(means).T + torch.log1p(-means).sum(1)


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
