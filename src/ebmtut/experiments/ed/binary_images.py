"""The binary image sets of ed/images and ed/images-table, and what is easy to fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut.checks import Count, check_choice, checked
from ebmtut.data import (
    DataUnavailable,
    ImageData,
    binarize,
    load_digits,
    load_omniglot,
)
from ebmtut.random import make_generator

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
    """Log-probability of each state under each law of independent bits."""
    return x @ torch.logit(means).T + torch.log1p(-means).sum(1)
