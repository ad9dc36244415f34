"""The recipe of the image experiments: how an energy is learned, and drawn from."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor, nn

from ebmtut.checks import (
    Count,
    DivergenceError,
    InputError,
    Natural,
    NonNegative,
    OneOf,
    Positive,
    checked,
)
from ebmtut.energies import ConvEnergy, PerceptronEnergy
from ebmtut.experiments.drl.image_sets import DATA, image_set
from ebmtut.experiments.identity import code_digest
from ebmtut.losses import DenoisingScoreMatching, RecoveryLikelihood
from ebmtut.noise import NoiseLevels, geometric_noise
from ebmtut.random import make_generator, normal
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint
from ebmtut.samplers import ConditionalChain, denoised, progressive_samples
from ebmtut.tensor_checks import check_within
from ebmtut.training import Loss, TrainConfig, train


@checked
@dataclass(frozen=True)
class ImageRecipe:
    r"""How an energy of images is learned."""

    data: Annotated[str, OneOf(DATA)] = "digits 8x8"
    objective: Annotated[str, OneOf(("recovery", "score"))] = "recovery"
    network: Annotated[str, OneOf(("perceptron", "convolution"))] = "perceptron"
    head: str = "denoiser"
    hidden: Count = 128
    n_layers: Count = 3
    n_levels: Count = 6
    first_ratio: float = 0.2
    last_ratio: float = 10.0
    n_chain_steps: Natural = 6
    step_size: Positive = 0.7
    adjusted: bool = False
    averaged: bool = False
    trust: NonNegative = 10.0
    patient: bool = False
    regulariser: float = 0.0
    clip_norm: Positive = 1e9
    n_steps: Count = 2000
    batch_size: Count = 128
    learning_rate: Positive = 4e-3
    n_warmup: int = 200
    energy_scale: Positive = 1.0
    spectral_norm: bool = False

    def __post_init__(self) -> None:
        if self.spectral_norm and self.network != "perceptron":
            raise InputError(
                f"network must be perceptron with spectral_norm, got {self.network!r}"
            )

    @property
    def noise(self) -> NoiseLevels:
        """The forward chain."""
        if self.n_levels == 1:
            ratio = self.first_ratio
            return NoiseLevels((1.0,), ratio / math.hypot(1, ratio))
        return geometric_noise(self.n_levels, self.first_ratio, self.last_ratio)

    @property
    def chain(self) -> ConditionalChain:
        """How the conditional distributions are sampled, in training and after it."""
        noises = self.noise.noises[: self.n_levels]
        return ConditionalChain(
            self.n_chain_steps,
            tuple(self.step_size * noise for noise in noises),
            adjusted=self.adjusted,
            start="noisy",
            averaged=self.averaged,
        )

    @property
    def optimizer(self) -> TrainConfig:
        """How the training loop is called."""
        return TrainConfig(
            self.n_steps,
            self.batch_size,
            self.learning_rate,
            n_warmup=self.n_warmup,
            ema_decay=0.999,
            clip_norm=self.clip_norm,
            precision="float32",
        )

    @property
    def n_at_once(self) -> int:
        """Images that are drawn in one batch."""
        return 20_000

    def energy(self, shape: tuple[int, ...], seed: int) -> nn.Module:
        """Make the network, its weights drawn from a seed."""
        noises = self.noise.noises[: self.n_levels]
        sizes: tuple[Any, ...] = (noises, self.hidden, self.n_layers, self.head)
        generator = make_generator(seed)
        of: dict[str, Any] = {"scale": self.energy_scale, "generator": generator}
        if self.network == "perceptron":
            return PerceptronEnergy(
                shape, *sizes, spectral_norm=self.spectral_norm, **of
            )
        return ConvEnergy(shape[0], *sizes, **of)

    def loss(self, n_pixels: int) -> DenoisingScoreMatching | RecoveryLikelihood:
        """Return what is minimised."""
        if self.objective == "score":
            return DenoisingScoreMatching(self.noise)
        return RecoveryLikelihood(
            self.noise,
            self.chain,
            regulariser=self.regulariser,
            trusted_gap=self.trust * math.sqrt(n_pixels) or None,
            patient=self.patient,
            # The energies' gaps are of order one over the noise's variance.
            weighted=tuple(s**2 for s in self.noise.noises[: self.n_levels]),
            data_range=(-1.0, 1.0),
        )


#: The short training of which the ablation and the long runs change one thing.
QUICK = ImageRecipe(n_steps=1500)
#: What a page trains live, once for all of its experiments: four times the short
#: training, and
#: averaged noise takes the bias of the chains away. Chosen on seeds 10 and 11.
LIVE = ImageRecipe(n_steps=6000, learning_rate=3e-3, averaged=True)
#: What the full experiments learn: ten times as long, at a quarter of the rate.
FULL = ImageRecipe(n_steps=15_000, learning_rate=1e-3)
#: What larger images share: averaged noise, without which the samples are noisier than
#: the data, and the energies grow steep until the chains overshoot.
_LARGE = ImageRecipe(averaged=True)
_MNIST14 = replace(
    _LARGE,
    data="MNIST 14x14",
    hidden=384,
    n_levels=8,
    last_ratio=20.0,
    n_steps=36_000,
    learning_rate=6e-4,
)
_FORTY = replace(_LARGE, n_levels=10, last_ratio=40.0)
#: Larger images, which `ebmtut.experiments.drl.samples` learns at full scale. Their
#: mean is longer, and only more noise than in 8 x 8 pixels leaves nothing of it; a
#: level's noise is less than twice that of the one below. Score matching has as many
#: steps as take the same seconds.
LARGER = (
    _MNIST14,
    replace(_MNIST14, objective="score", n_steps=108_000),
    replace(_FORTY, data="MNIST 28x28", hidden=512, n_steps=40_000, learning_rate=3e-4),
    replace(
        _FORTY,
        data="faces 32x32",
        hidden=256,
        n_steps=3000,
        batch_size=64,
        learning_rate=6e-4,
    ),
)


class TrainedImages(NamedTuple):
    """An energy with averaged weights, and what its training cost and told."""

    energy: nn.Module
    seconds: float
    stopped_at: int
    message: str

    @property
    def cost(self) -> dict[str, float]:
        """What a table says of the training."""
        return {"seconds": self.seconds, "steps": self.stopped_at}


def trained_once(
    recipe: ImageRecipe,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> TrainedImages:
    """Learn an energy, or remember it: experiments of one recipe share its training."""
    if checkpoint is None:
        return _remembered(recipe, seed, device)
    code = code_digest(train_images, recipe)
    source = image_set(recipe.data).source  # of the set, or of what stands in for it
    made = {"recipe": asdict(recipe), "seed": seed, "code": code, "source": source}
    if device != "cpu":  # which draws other numbers
        made["device"] = device
    name = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]
    path = checkpoint.parents[2] / "trained" / f"{name}.safetensors"
    if path.is_file():
        weights, told = load_checkpoint(path)
        shape = tuple(image_set(recipe.data).images.shape[1:])
        energy = recipe.energy(shape, seed).requires_grad_(False)
        energy.load_state_dict(weights)
        return TrainedImages(
            energy, told["seconds"], told["stopped_at"], told["message"]
        )
    trained = train_images(recipe, seed, checkpoint, device=device)
    facts = {k: v for k, v in trained._asdict().items() if k != "energy"}
    save_checkpoint(path, trained.energy.state_dict(), made | facts)
    return trained


@cache
def _remembered(recipe: ImageRecipe, seed: int, device: str) -> TrainedImages:
    return train_images(recipe, seed, device=device)


def train_images(
    recipe: ImageRecipe,
    seed: int,
    checkpoint: Path | None = None,
    on_step: Callable[[int, nn.Module], None] | None = None,
    loss: Loss | None = None,
    device: str = "cpu",
    found: Mapping[str, Tensor] | None = None,
) -> TrainedImages:
    """Learn an energy; a run that a divergence check stops is a result, too."""
    data = image_set(recipe.data)
    check_within("images", data.images, -1, 1)
    images = data.images.to(device)
    energy = recipe.energy(tuple(images.shape[1:]), seed).to(device)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        return images[
            torch.randint(len(images), (n,), generator=generator, device=device)
        ]

    # In a buffer, which a checkpoint holds: a run that goes on counts on.
    seconds = torch.zeros((), dtype=torch.float64)
    buffers = {"seconds": seconds, **(found or {})}
    objective = recipe.loss(images[0].numel())
    if isinstance(objective, RecoveryLikelihood):
        buffers["usual_gap"] = objective.usual_gap
    clock = time.process_time()

    def after(step: int, averaged: nn.Module) -> None:
        nonlocal clock
        seconds.add_(time.process_time() - clock)
        if on_step is not None:
            on_step(step, averaged)
        clock = time.process_time()

    stopped_at, message = recipe.n_steps, ""
    averaged = energy
    try:
        averaged = train(
            energy,
            loss or objective,
            sample,
            recipe.optimizer,
            generator=make_generator(seed + 1, device),
            buffers=buffers,
            checkpoint=checkpoint,
            identity={"recipe": str(recipe), "seed": seed},
            on_step=after,
        ).energy
    except DivergenceError as error:
        stopped_at, message = error.step, str(error)
    return TrainedImages(averaged.cpu(), float(seconds), stopped_at, message)


def draw_images(
    energy: nn.Module, recipe: ImageRecipe, n: int, *, generator: torch.Generator
) -> Tensor:
    """Draw images of all levels, clean ones first: (T + 2, n, side, side)."""
    shape, device = image_set(recipe.data).images.shape[1:], generator.device
    if next(energy.parameters()).device.type != device.type:
        energy = copy.deepcopy(energy).to(device)
    start = normal(torch.empty(n, *shape, device=device), generator=generator)
    parts = [
        progressive_samples(
            energy, recipe.noise, part, recipe.chain, generator=generator
        )
        for part in start.split(recipe.n_at_once)
    ]
    levels = torch.cat(parts, 1)
    clean = denoised(energy, recipe.noise, levels[0]).clamp(-1, 1)
    return torch.cat([clean[None], levels]).cpu()
