"""The image sets, how they are divided, and how images are evaluated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from ebmtut.checks import check_choice
from ebmtut.data import (
    DataUnavailable,
    ImageData,
    load_celeba,
    load_cifar10,
    load_digits,
    load_faces,
    load_lsun,
)
from ebmtut.metrics import (
    ImageJudge,
    class_score,
    frechet_distance,
    nearest_neighbors,
    precision_recall,
    train_image_judge,
)
from ebmtut.plotting import image_grid, panel_size
from ebmtut.random import make_generator


class ImageSet(NamedTuple):
    """Images in [-1, 1], divided once and for all; ``source`` says what they are."""

    images: Tensor
    labels: Tensor
    held_out: Tensor
    held_out_labels: Tensor
    source: str


def _digits8() -> tuple[Tensor, Tensor, int, str]:
    try:
        from sklearn.datasets import load_digits as load_small_digits
    except ImportError as error:
        raise DataUnavailable(
            "digits 8x8 need scikit-learn, got none: pip install 'ebmtut[transport]'"
        ) from error
    data = load_small_digits()
    images = torch.from_numpy(data.images).float() / 16.0
    return images, torch.from_numpy(data.target).long(), 500, "scikit-learn's digits"


def _mnist(side: int) -> tuple[Tensor, Tensor, int, str]:
    # The 10,000 test images suffice here, and are what a machine without a
    # network may have; they are divided into 8,000 and 2,000.
    data = load_digits("test", generator=make_generator(0))
    images = data.images
    if side == 14:
        images = nn.functional.avg_pool2d(images[:, None], 2)[:, 0]
    return images, data.labels, 2000, data.source


def _faces(side: int) -> tuple[Tensor, Tensor, int, str]:
    data = load_faces(generator=make_generator(0))
    images = nn.functional.avg_pool2d(data.images[:, None], 64 // side)[:, 0]
    return images, data.labels, 80, data.source


#: The sets that the experiments know, by name.
DATA: Mapping[str, Callable[[], tuple[Tensor, Tensor, int, str]]] = {
    "digits 8x8": _digits8,
    "MNIST 14x14": lambda: _mnist(14),
    "MNIST 28x28": lambda: _mnist(28),
    "faces 32x32": lambda: _faces(32),
}


def _cifar10() -> ImageSet:
    return _divided(load_cifar10("train"), load_cifar10("test"))


def _celeba() -> ImageSet:
    return _divided(load_celeba("train"), load_celeba("test"))


#: As many bedrooms as there are churches, of three million: what fits into memory.
_N_BEDROOMS = 126_227


def _lsun(category: str, side: int, n: int | None = None) -> ImageSet:
    held_out = load_lsun(category, "validation", side=side)
    return _divided(load_lsun(category, side=side, n=n), held_out)


def _divided(data: ImageData, held_out: ImageData) -> ImageSet:
    return ImageSet(
        2 * data.images - 1,
        data.labels,
        2 * held_out.images - 1,
        held_out.labels,
        data.source,
    )


#: Photographs, which their authors have divided; none of them travels with the book.
PHOTOGRAPHS: Mapping[str, Callable[[], ImageSet]] = {
    "CIFAR-10": _cifar10,
    "CelebA 64x64": _celeba,
    "LSUN churches 64x64": lambda: _lsun("church_outdoor", 64),
    "LSUN churches 128x128": lambda: _lsun("church_outdoor", 128),
    "LSUN bedrooms 64x64": lambda: _lsun("bedroom", 64, _N_BEDROOMS),
    "LSUN bedrooms 128x128": lambda: _lsun("bedroom", 128, _N_BEDROOMS),
}
#: How many images teach a classifier which way up they are, where they have no classes.
_TURNED = 10_000


@cache
def image_set(name: str) -> ImageSet:
    """Load a set and divide it, always in the same way."""
    check_choice("data", name, (*DATA, *PHOTOGRAPHS))
    if name in PHOTOGRAPHS:
        return PHOTOGRAPHS[name]()
    images, labels, n_held_out, source = DATA[name]()
    order = torch.randperm(len(images), generator=make_generator(0))
    images, labels = 2 * images[order] - 1, labels[order]
    return ImageSet(
        images[n_held_out:],
        labels[n_held_out:],
        images[:n_held_out],
        labels[:n_held_out],
        source,
    )


#: How a classifier is trained where it is not as `train_image_judge` would: the larger
#: sets want more steps, and images that are moved, to be told at 98 percent.
_JUDGES: Mapping[str, dict[str, int]] = {
    "MNIST 14x14": {"n_steps": 3000, "largest_shift": 1},
    "MNIST 28x28": {"n_steps": 1000, "largest_shift": 1},
}


@cache
def judge_of(name: str) -> ImageJudge:
    """Train the classifier of a set: the same one for all experiments, seed 0."""
    data = image_set(name)
    images, labels = data.images, data.labels
    if name in PHOTOGRAPHS and int(labels.max()) == 0:
        turns = [images[:_TURNED].rot90(k, (2, 3)) for k in range(4)]
        images = torch.cat(turns)
        labels = torch.arange(4).repeat_interleave(len(images) // 4)
    return train_image_judge(
        images, labels, generator=make_generator(0), **_JUDGES.get(name, {})
    )


def null_images(
    data: ImageSet, n: int, *, generator: torch.Generator
) -> dict[str, Tensor]:
    """Images that no model has learned: held-out data and two fits by moments."""
    flat = data.images.flatten(1)
    centered = flat - flat.mean(0)
    mixed = torch.randn(n, len(flat), generator=generator) @ centered
    gaussian = flat.mean(0) + mixed / math.sqrt(len(flat) - 1)
    rows = torch.randint(len(flat), (n, flat.shape[1]), generator=generator)
    shape = (n, *data.images.shape[1:])
    return {
        "held-out data": data.held_out[:n],
        "Gaussian fit": gaussian.clamp(-1, 1).reshape(shape),
        "independent pixels": flat.gather(0, rows).reshape(shape),
    }


def measure(images: Tensor, name: str) -> dict[str, float]:
    """Evaluate images of a set: all numbers of the tables."""
    data, judge = image_set(name), judge_of(name)
    if not bool(torch.isfinite(images).all()):
        return {"distance": math.nan}
    features, reference = judge.features(images), judge.features(data.images)
    probabilities = judge.probabilities(images)
    shares = torch.bincount(
        probabilities.argmax(1), minlength=probabilities.shape[1]
    ) / len(images)
    held_out = nearest_neighbors(data.held_out, data.images).distance.median()
    nearest = nearest_neighbors(images, data.images).distance.median()
    inside = precision_recall(reference, features)
    return {
        "distance": frechet_distance(reference, features),
        "class score": class_score(probabilities),
        "confidence": float(probabilities.amax(1).mean()),
        "rarest class": float(shares.min()),
        "commonest class": float(shares.max()),
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
    figure, axes = plt.subplots(
        len(rows), 1, figsize=panel_size(len(rows), 1, aspect=1 / n), squeeze=False
    )
    for ax, (name, images) in zip(axes[:, 0], rows.items(), strict=True):
        image_grid(ax, images[:n], n, vmin=0, vmax=1, cmap=cmap)
        ax.set_title(name, loc="left", fontsize=11)
    return figure
