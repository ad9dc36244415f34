"""Images of overlapping shapes, the data of binary blind deconvolution."""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, Range, check_type, checked
from ebmtut.message_passing import binary_convolution
from ebmtut.random import bernoulli

__all__ = ["SHAPES", "ShapeImages", "shape_images", "shapes"]

#: The four features, five rows of five pixels each.
SHAPES: dict[str, str] = {
    "square": "##### #...# #...# #...# #####",
    "cross": "..#.. ..#.. ##### ..#.. ..#..",
    "letter A": "..#.. .#.#. .#.#. #...# #####",
    "diamond": "..#.. .#.#. #...# .#.#. ..#..",
}


@dataclass(frozen=True)
class ShapeImages:
    """Images and what they were made of.

    Attributes
    ----------
    images
        X, bits; ``height = width = grid + 4``.
    locations
        S, bits.
    features
        W, bits.
    """

    images: Float[Tensor, "n_images height width"]
    locations: Float[Tensor, "n_images 4 rows columns"]
    features: Float[Tensor, "4 5 5"]


def shapes(dtype: torch.dtype = torch.float32) -> Float[Tensor, "4 5 5"]:
    """Draw the four shapes as bits."""
    rows = [
        [[pixel == "#" for pixel in row] for row in text.split()]
        for text in SHAPES.values()
    ]
    return torch.tensor(rows, dtype=dtype, device="cpu")


@checked
def shape_images(
    n_images: Count,
    *,
    generator: torch.Generator,
    grid: Count = 10,
    density: Annotated[float, Range(0, 1, include_low=False)] = 0.01,
    dtype: torch.dtype = torch.float32,
) -> ShapeImages:
    """Scatter the shapes over images, three or more on each.

    Every shape is at every place of a grid with probability ``density``; images with
    fewer than three are resampled. Source: Section 5.6 of Lazaro-Gredilla, Dedieu and
    George (2021), and its code.

    Parameters
    ----------
    grid
        Places a side; an image has grid + 4 pixels a side.
    """
    check_type("generator", generator, torch.Generator)
    features = shapes(dtype).to(generator.device)
    kept: list[Tensor] = []
    while sum(map(len, kept)) < n_images:
        distribution = torch.full(
            (n_images, len(features), grid, grid), density, dtype=dtype, device="cpu"
        )
        drawn = bernoulli(distribution.to(generator.device), generator=generator)
        kept.append(drawn[drawn.sum(dim=(1, 2, 3)) > 2])
    locations = torch.cat(kept)[:n_images]
    return ShapeImages(binary_convolution(locations, features), locations, features)
