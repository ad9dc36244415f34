"""What the image experiments share: the sets, the metrics and the training."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from ebmtut import data as loaders
from ebmtut import energies, losses, metrics, samplers
from ebmtut._digests import json_digest
from ebmtut.checks import (
    Count,
    DivergenceError,
    Natural,
    NonNegative,
    OneOf,
    Positive,
    check_choice,
    checked,
)
from ebmtut.data.images import small_digits
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.identity import code_digest
from ebmtut.experiments.jobs import Outcome
from ebmtut.noise import NoiseLevels, ddpm_noise, geometric_noise, linear_noise
from ebmtut.plotting import image_grid, panel_size
from ebmtut.random import make_generator, normal
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint
from ebmtut.tensor_checks import check_within
from ebmtut.training import CpuClock, Loss, TrainConfig, train


class ImageSet(NamedTuple):
    """Images in [-1, 1], divided once and for all; ``source`` says what they are."""

    images: Tensor
    labels: Tensor
    held_out: Tensor
    held_out_labels: Tensor
    source: str


def _divided(data: loaders.ImageData, held_out: loaders.ImageData) -> ImageSet:
    parts = ((2 * part.images - 1, part.labels) for part in (data, held_out))
    return ImageSet(*next(parts), *next(parts), data.source)


def _shuffled(data: loaders.ImageData, n_held_out: int, shrink: int = 1) -> ImageSet:
    """Average blocks of pixels, and hold images out, always the same ones."""
    images = nn.functional.avg_pool2d(data.images[:, None], shrink)[:, 0]
    order = torch.randperm(len(images), generator=make_generator(0))
    parts = (order[n_held_out:], order[:n_held_out])
    return _divided(
        *(data._replace(images=images[k], labels=data.labels[k]) for k in parts)
    )


def _mnist() -> loaders.ImageData:
    # The 10,000 test images suffice here, and are what a machine without a
    # network may have.
    return loaders.load_digits("test", generator=make_generator(0))


#: The sets that are divided here.
DATA: Mapping[str, Callable[[], ImageSet]] = {
    "digits 8x8": lambda: _shuffled(small_digits(), 500),
    "MNIST 14x14": lambda: _shuffled(_mnist(), 2000, shrink=2),
    "MNIST 28x28": lambda: _shuffled(_mnist(), 2000),
    "faces 32x32": lambda: _shuffled(
        loaders.load_faces(generator=make_generator(0)), 80, shrink=2
    ),
}


def _lsun(category: str, side: int) -> ImageSet:
    held_out = loaders.load_lsun(category, "validation", side=side)
    n = _N_BEDROOMS if category == "bedroom" else None
    return _divided(loaders.load_lsun(category, side=side, n=n), held_out)


_PARTS = ("train", "test")
#: As many bedrooms as there are churches, of three million: what fits into memory.
_N_BEDROOMS = 126_227
#: Photographs, which their authors have divided, with the network of each. The book
#: ships none of them.
PHOTOGRAPHS: Mapping[str, tuple[str, Callable[[], ImageSet]]] = {
    "CIFAR-10": ("cifar10", lambda: _divided(*map(loaders.load_cifar10, _PARTS))),
    "CelebA 64x64": ("celeba64", lambda: _divided(*map(loaders.load_celeba, _PARTS))),
    "LSUN churches 64x64": ("lsun_church64", lambda: _lsun("church_outdoor", 64)),
    "LSUN churches 128x128": ("lsun_church128", lambda: _lsun("church_outdoor", 128)),
    "LSUN bedrooms 64x64": ("lsun_bedroom64", lambda: _lsun("bedroom", 64)),
    "LSUN bedrooms 128x128": ("lsun_bedroom128", lambda: _lsun("bedroom", 128)),
}
#: Sets with ten classes of about the same size.
TEN_CLASSES = ("digits 8x8", "MNIST 14x14", "MNIST 28x28", "CIFAR-10")
#: How many images teach a classifier which way up they are, where they have no classes.
_TURNED = 10_000


@cache
def image_set(name: str) -> ImageSet:
    """Load a set and divide it, always in the same way."""
    check_choice("data", name, (*DATA, *PHOTOGRAPHS))
    return DATA[name]() if name in DATA else PHOTOGRAPHS[name][1]()


#: Options of `train_image_classifier` where its defaults classify fewer than 98
#: percent: the larger sets need more steps, and images that are moved.
_CLASSIFIER_OPTIONS: Mapping[str, dict[str, int]] = {
    "MNIST 14x14": {"n_steps": 3000, "largest_shift": 1},
    "MNIST 28x28": {"n_steps": 1000, "largest_shift": 1},
}


def classifier_of(name: str) -> metrics.ImageClassifier:
    """Train the classifier of a set, with the same seed in all experiments."""
    data = image_set(name)
    images, labels = data.images, data.labels
    if name in PHOTOGRAPHS and int(labels.max()) == 0:
        images = torch.cat([images[:_TURNED].rot90(k, (2, 3)) for k in range(4)])
        labels = torch.arange(4).repeat_interleave(len(images) // 4)
    return metrics.train_image_classifier(
        images, labels, generator=make_generator(0), **_CLASSIFIER_OPTIONS.get(name, {})
    )


#: Of samples with classes: a metric, its words, its bound, and whether this is a sanity
#: check, since samples of a Gaussian fit are of all classes, too.
CLASS_BOUNDS: tuple[tuple[str, str, Any, float, bool], ...] = (
    ("confidence", "confidence of the classifier", "at least", 0.9, False),
    ("rarest class", "fraction of the rarest class", "at least", 0.04, True),
    ("commonest class", "fraction of the most common class", "at most", 0.2, True),
)

#: What `baseline_images` makes.
BASELINES = ("held-out data", "Gaussian fit", "independent pixels")


def baseline_images(
    data: ImageSet, n: int, *, generator: torch.Generator
) -> dict[str, Tensor]:
    """Images that no model has learned: held-out data and two fits by moments."""
    flat = data.images.flatten(1)
    mixed = torch.randn(n, len(flat), generator=generator) @ (flat - flat.mean(0))
    gaussian = flat.mean(0) + mixed / math.sqrt(len(flat) - 1)
    rows = torch.randint(len(flat), (n, flat.shape[1]), generator=generator)
    shape = (n, *data.images.shape[1:])
    fits = gaussian.clamp(-1, 1).reshape(shape), flat.gather(0, rows).reshape(shape)
    return dict(zip(BASELINES, (data.held_out[:n], *fits), strict=True))


class Baselines(NamedTuple):
    """What no model has learned, evaluated, and the accuracy of the classifier."""

    images: dict[str, Tensor]
    rows: dict[str, dict[str, float]]
    accuracy: float

    def distances(self) -> dict[str, Any]:
        """Distances of held-out images and of a Gaussian fit."""
        return {kind: self.rows[kind]["distance"] for kind in BASELINES[:2]}


def evaluated_baselines(
    name: str, n: int, seed: int, *others: tuple[str, Tensor]
) -> Baselines:
    """Evaluate the baselines of a set, and other images of it."""
    data, classifier = image_set(name), classifier_of(name)
    made = baseline_images(data, n, generator=make_generator(seed)) | dict(others)
    rows = {kind: measure(images, name, classifier) for kind, images in made.items()}
    found = classifier.probabilities(data.held_out).argmax(1) == data.held_out_labels
    return Baselines(made, rows, float(found.double().mean()))


def measure(
    images: Tensor, name: str, classifier: metrics.ImageClassifier | None = None
) -> dict[str, float]:
    """Evaluate images of a set by its classifier, which None trains."""
    data, classifier = image_set(name), classifier or classifier_of(name)
    if not bool(torch.isfinite(images).all()):
        return {"distance": math.nan}
    features, reference = classifier.features(images), classifier.features(data.images)
    probabilities = classifier.probabilities(images)
    counts = probabilities.argmax(1).bincount(minlength=probabilities.shape[1])
    fractions = counts / len(images)
    held_out = metrics.nearest_neighbors(data.held_out, data.images).distance.median()
    nearest = metrics.nearest_neighbors(images, data.images).distance.median()
    inside = metrics.precision_recall(reference, features)
    return {
        "distance": metrics.frechet_distance(reference, features),
        "class score": metrics.class_score(probabilities),
        "confidence": float(probabilities.amax(1).mean()),
        "rarest class": float(fractions.min()),
        "commonest class": float(fractions.max()),
        "precision": inside.precision,
        "recall": inside.recall,
        "nearest": float(nearest / held_out),
    }


def as_pictures(images: Tensor) -> np.ndarray:
    """Pixels from 0 to 1, for figures."""
    return ((images + 1) / 2).clamp(0, 1).numpy()


def image_rows(
    rows: Mapping[str, np.ndarray], n: int = 10, cmap: str = "gray_r"
) -> Figure:
    """Draw rows of images, the name of each above it."""
    size = panel_size(len(rows), 1, aspect=1 / n)
    figure, axes = plt.subplots(len(rows), 1, figsize=size, squeeze=False)
    for ax, (name, images) in zip(axes[:, 0], rows.items(), strict=True):
        image_grid(ax, images[:n], n, vmin=0, vmax=1, cmap=cmap)
        ax.set_title(name, loc="left", fontsize=12)
    return figure


@checked
@dataclass(frozen=True)
class ImageRecipe:
    """How an energy of images is learned."""

    data: Annotated[str, OneOf(DATA)] = "digits 8x8"
    objective: Annotated[str, OneOf(("recovery", "score"))] = "recovery"
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

    @property
    def noise(self) -> NoiseLevels:
        """The forward chain."""
        if self.n_levels == 1:
            ratio = self.first_ratio
            return NoiseLevels((1.0,), ratio / math.hypot(1, ratio))
        return geometric_noise(self.n_levels, self.first_ratio, self.last_ratio)

    @property
    def chain(self) -> samplers.ConditionalChain:
        """How the conditional distributions are sampled, in training and after it."""
        noises = self.noise.noises[: self.n_levels]
        return samplers.ConditionalChain(
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

    def energy(self, shape: tuple[int, ...], seed: int) -> nn.Module:
        """Make the network, with weights from a seed."""
        return energies.PerceptronEnergy(
            shape,
            self.noise.noises[: self.n_levels],
            self.hidden,
            self.n_layers,
            self.head,
            scale=self.energy_scale,
            spectral_norm=self.spectral_norm,
            generator=make_generator(seed),
        )

    def augmented(self, x: Tensor, *, generator: torch.Generator) -> Tensor:
        """Return a batch of data as the training sees it."""
        return x

    def recovery(self, n_pixels: int) -> losses.RecoveryLikelihood:
        """Return the loss of recovery likelihood."""
        return losses.RecoveryLikelihood(
            self.noise,
            self.chain,
            regulariser=self.regulariser,
            trusted_gap=self.trust * math.sqrt(n_pixels) or None,
            patient=self.patient,
            # Energy differences are of order one over the variance of the noise.
            weighted=tuple(s**2 for s in self.noise.noises[: self.n_levels]),
            data_range=(-1.0, 1.0),
        )


#: The short training of which the ablation and the long runs change one thing.
QUICK = ImageRecipe(n_steps=1500)
#: What a page trains live: four times the short training. Averaged noise takes the bias
#: of the chains away. Chosen on seeds 10 and 11.
LIVE = ImageRecipe(n_steps=6000, learning_rate=3e-3, averaged=True)
#: What the full experiments learn: ten times as long, at a quarter of the rate.
FULL = ImageRecipe(n_steps=15_000, learning_rate=1e-3)
#: Larger images, which `drl/samples` learns at full scale. Without averaged noise their
#: samples are noisier than the data, and the energies grow steep until the chains
#: overshoot. Their mean is longer, so that the highest level needs more noise than for
#: 8 x 8 pixels; a level's noise is less than twice that of the one below. Score
#: matching has the number of steps that takes the same time.
_TWENTY = ImageRecipe(averaged=True, n_levels=8, last_ratio=20.0, learning_rate=6e-4)
_MNIST14 = replace(_TWENTY, data="MNIST 14x14", hidden=384, n_steps=36_000)
_FORTY = replace(_TWENTY, n_levels=10, last_ratio=40.0)
LARGER = (
    _MNIST14,
    replace(_MNIST14, objective="score", n_steps=108_000),
    replace(_FORTY, data="MNIST 28x28", hidden=512, n_steps=40_000, learning_rate=3e-4),
    replace(_FORTY, data="faces 32x32", hidden=256, n_steps=3000, batch_size=64),
)


#: Squared step size of the paper's code, in units of the noise.
_B = math.sqrt(2e-4)


@checked
@dataclass(frozen=True)
class PaperRecipe(ImageRecipe):
    """`ImageRecipe` with the paper's network, noise, chains and training.

    The paper prints T and K, Adam's rate of 0.0001, and the network (Tables 5 and 6).
    Its code (March 2021) adds Adam's beta1; the noise of six levels, cut from denoising
    diffusion's, with noise on the data; b and c_t; energies in units of the squared
    step; rows weighted by the noise; a million steps after a warm-up of 1000; flips.
    Its last level has no quadratic term, as here with a last sigma of 1.
    """

    data: Annotated[str, OneOf(PHOTOGRAPHS)] = "CIFAR-10"
    n_chain_steps: Natural = 30
    n_steps: Count = 1_000_000
    batch_size: Count = 256
    learning_rate: Positive = 1e-4
    n_warmup: int = 1000

    @property
    def noise(self) -> NoiseLevels:
        """The code's levels; a thousand are those of denoising diffusion."""
        six = ddpm_noise(6)
        if self.n_levels == 1:
            return NoiseLevels((1.0,), six.data_sigma)
        if self.n_levels >= 100:
            return linear_noise(self.n_levels, data_sigma=six.data_sigma)
        return ddpm_noise(self.n_levels)

    @property
    def chain(self) -> samplers.ConditionalChain:
        """Langevin dynamics without a test, from the noisy state."""
        sizes = samplers.paper_step_sizes(self.noise, _B)
        return samplers.ConditionalChain(
            self.n_chain_steps, sizes, adjusted=False, start="noisy"
        )

    @property
    def optimizer(self) -> TrainConfig:
        """Adam at a constant rate, in bfloat16 where that is fast."""
        beta1 = energies.PAPER_NETWORKS[PHOTOGRAPHS[self.data][0]].beta1
        usual = super().optimizer
        return replace(usual, decay="constant", precision="auto", beta1=beta1)

    @property
    def scales(self) -> tuple[float, ...]:
        """What the network is divided by: c_t^2 b^2 sigma^2, the step in y squared."""
        sizes = samplers.paper_step_sizes(self.noise, _B)
        shrunk = (a or 1.0 for a in self.noise.shrinkages)
        return tuple((s * a) ** 2 for s, a in zip(sizes, shrunk, strict=True))

    def energy(self, shape: tuple[int, ...], seed: int) -> nn.Module:
        """Make the Wide-ResNet, with weights from a seed."""
        known = energies.PAPER_NETWORKS[PHOTOGRAPHS[self.data][0]]
        config = replace(known, channels=self.hidden, n_levels=self.n_levels)
        generator = make_generator(seed)
        return energies.WideResNetEnergy(config, self.scales, generator=generator)

    def augmented(self, x: Tensor, *, generator: torch.Generator) -> Tensor:
        """Mirror each image of a batch, left and right, with probability one half."""
        coin = torch.rand(len(x), generator=generator, device=generator.device) < 0.5
        return torch.where(coin[:, None, None, None], x.flip(3), x)

    def recovery(self, n_pixels: int) -> losses.RecoveryLikelihood:
        """Return the loss of recovery likelihood."""
        # The code's loss has the network's own values, before they are divided. The
        # energies are larger by orders of magnitude: no bound on their difference.
        sigmas = self.noise.sigmas
        pairs = zip(self.scales, sigmas, strict=True)
        weights = tuple(scale * sigmas[0] / sigma for scale, sigma in pairs)
        of: Any = {"largest_gap": None, "data_range": (-1.0, 1.0)}
        return losses.RecoveryLikelihood(self.noise, self.chain, weighted=weights, **of)


#: T6, K = 30. Adam's beta1 is 0.5 for CelebA and for 128 x 128 pixels, of which the
#: churches take 25 GB of memory.
CIFAR10 = PaperRecipe()
CELEBA = PaperRecipe("CelebA 64x64", batch_size=128)
CHURCHES = PaperRecipe("LSUN churches 64x64", batch_size=128)
CHURCHES_128 = PaperRecipe("LSUN churches 128x128", batch_size=64)
BEDROOMS = PaperRecipe("LSUN bedrooms 64x64", batch_size=128)
BEDROOMS_128 = PaperRecipe("LSUN bedrooms 128x128", batch_size=64)
OTHERS = (CELEBA, CHURCHES, BEDROOMS, CHURCHES_128, BEDROOMS_128)
#: T1k, of which no code is published: noise, scale and weights of T6's form are our
#: choices, and so are its number of steps and the noise on the data.
T1K = PaperRecipe(n_levels=1000, n_chain_steps=0)


class TrainedImages(NamedTuple):
    """An energy with averaged weights, and the cost and end of its training."""

    energy: nn.Module
    cost: dict[str, float]
    message: str


def trained_once(
    recipe: ImageRecipe, seed: int, checkpoint: Path | None = None, device: str = "cpu"
) -> TrainedImages:
    """Learn an energy; runs with checkpoints find a training of the same recipe."""
    if checkpoint is None:
        return train_images(recipe, seed, device=device)
    code = code_digest(train_images, recipe)
    source = image_set(recipe.data).source  # of the set, or of what stands in for it
    made = {"recipe": asdict(recipe), "seed": seed, "code": code, "source": source}
    if device != "cpu":  # which has other random numbers
        made["device"] = device
    name = json_digest(made)[:16]
    path = checkpoint.parents[2] / "trained" / f"{name}.safetensors"
    if path.is_file():
        weights, told = load_checkpoint(path)
        shape = tuple(image_set(recipe.data).images.shape[1:])
        energy = recipe.energy(shape, seed).requires_grad_(False)
        energy.load_state_dict(weights)
        return TrainedImages(energy, told["cost"], told["message"])
    trained = train_images(recipe, seed, checkpoint, device=device)
    facts = {"cost": trained.cost, "message": trained.message}
    save_checkpoint(path, trained.energy.state_dict(), made | facts)
    return trained


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
        rows = torch.randint(len(images), (n,), generator=generator, device=device)
        return recipe.augmented(images[rows], generator=generator)

    clock = CpuClock()
    buffers = {"seconds": clock.seconds, **(found or {})}
    objective: Loss
    if recipe.objective == "score":
        objective = losses.DenoisingScoreMatching(recipe.noise)
    else:
        objective = recipe.recovery(images[0].numel())
        buffers["usual_gap"] = objective.usual_gap

    def after(step: int, averaged: nn.Module) -> None:
        clock.tick(step, averaged)
        if on_step is not None:
            on_step(step, averaged)

    stopped_at, message, averaged = recipe.n_steps, "", energy
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
    cost = {"seconds": float(clock.seconds), "steps": stopped_at}
    return TrainedImages(averaged.cpu(), cost, message)


#: How many values are sampled in one batch: 20,000 images of 8 x 8 pixels.
_AT_ONCE = 20_000 * 64


def draw_images(
    energy: nn.Module, recipe: ImageRecipe, n: int, *, generator: torch.Generator
) -> Tensor:
    """Sample images of all levels, clean ones first: (T + 2, n, side, side)."""
    shape, device = image_set(recipe.data).images.shape[1:], generator.device
    if next(energy.parameters()).device.type != device.type:
        energy = copy.deepcopy(energy).to(device)
    start = normal(torch.empty(n, *shape, device=device), generator=generator)
    of: dict[str, Any] = {"generator": generator}
    parts = [
        samplers.progressive_samples(energy, recipe.noise, part, recipe.chain, **of)
        for part in start.split(max(1, _AT_ONCE // start[0].numel()))
    ]
    levels = torch.cat(parts, 1)
    clean = samplers.denoised(energy, recipe.noise, levels[0]).clamp(-1, 1)
    return torch.cat([clean[None], levels]).cpu()


def distances_of(row: Mapping[str, Any], metric: str = "distance") -> list[float]:
    """Return a distance of every run, NaN where a divergence check stopped it."""
    found = row.get(metric, [None] * len(row["steps"]))
    return [math.nan if value is None else float(value) for value in found]


def image_job(
    recipe: ImageRecipe,
    n_samples: int,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
    n_draws: int = 1,
) -> Outcome:
    """Learn, sample and evaluate; of several sets, return means and the spread."""
    trained = trained_once(recipe, seed, checkpoint, device)
    if trained.message:
        return Outcome(trained.cost)
    of: Any = (trained.energy, recipe, n_samples)
    generator = make_generator(seed + 2, device)
    try:
        sets = [draw_images(*of, generator=generator) for _ in range(n_draws)]
    except DivergenceError:  # nothing to evaluate: as if the check had stopped it
        return Outcome(trained.cost)
    classifier = classifier_of(recipe.data)
    rows = [measure(levels[0], recipe.data, classifier) for levels in sets]
    # Of images that are not finite nothing but that is known.
    names = [name for name in rows[0] if all(name in row for row in rows)]
    means = {name: fmean(row[name] for row in rows) for name in names}
    if n_draws > 1:
        means["spread"] = stdev(row["distance"] for row in rows)
    data = image_set(recipe.data).images
    nearest = metrics.nearest_neighbors(sets[0][0, :16], data).place
    arrays = {
        "images": as_pictures(sets[0][0, :64]),
        "levels": np.stack([as_pictures(level[:16]) for level in sets[0]]),
        "nearest": as_pictures(data[nearest]),
    }
    return Outcome(means | trained.cost, arrays)


#: An experiment with images: their seconds of the CPU are compared, one job at a time.
image_row = partial(Experiment, devices=("cpu", "cuda"), parallel=False)
