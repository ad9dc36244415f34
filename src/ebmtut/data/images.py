"""Image data: what a set is, its binary forms, and digits that need no file."""

import io
from typing import Annotated, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.checks import Count, InputError, Range, check_type, checked
from ebmtut.data.datasets import DataUnavailable
from ebmtut.random import bernoulli

__all__ = ["ImageData", "binarize", "glyph_digits"]

# The ten digits, five pixels by seven, drawn for this package.
_GLYPHS = """
.###. ..#.. .###. ####. ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... .#... ....# #...# #...#
#...# ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#...# ..#.. ...#. .###. #..#. ....# ####. ..#.. .###. .####
#...# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... ....# ...#. #...# #...# .#... #...# ...#.
.###. .###. ##### ####. ...#. .###. .###. .#... .###. .##..
"""


class ImageData(NamedTuple):
    """Grey images with labels, and the name of where they come from."""

    images: Float[Tensor, "n_images height width"]
    labels: Int[Tensor, " n_images"]
    source: str


def small_digits() -> ImageData:
    """Load scikit-learn's digits of 8 x 8 pixels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataUnavailable(
            "digits 8x8 need scikit-learn, got none: pip install 'ebmtut[transport]'"
        ) from error
    found = load_digits()
    images = torch.from_numpy(found.images).float() / 16
    labels = torch.from_numpy(found.target)
    return ImageData(images, labels, "scikit-learn's digits")


def central_square(content: bytes, side: int, width: int | None = None) -> np.ndarray:
    """Decode a picture and make its central square smaller: all of it, or `width`."""
    from PIL import Image

    with Image.open(io.BytesIO(content)) as picture:
        shorter = min(picture.size)
        width = shorter if width is None else width
        if shorter < width:
            raise InputError(
                f"a face must be at least {width} pixels a side, got {picture.size}"
            )
        left, top = ((length - width) // 2 for length in picture.size)
        square = picture.convert("RGB").resize(
            (side, side),
            Image.Resampling.BOX,
            box=(left, top, left + width, top + width),
        )
    return np.asarray(square).transpose(2, 0, 1) / np.float32(255)


def binarize(
    images: Float[Tensor, "n_images height width"],
    *,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "n_images n_sites"]:
    """Turn grey images into flat binary states.

    Parameters
    ----------
    generator
        If given, a pixel is one with its value as the probability; else if above 1/2.
    """
    flat = images.flatten(1)
    if generator is None:
        return (flat > 0.5).to(images.dtype)
    return bernoulli(flat, generator=generator)


@checked
def glyph_digits(
    n: Count, *, generator: torch.Generator, side: Annotated[int, Range(low=8)] = 28
) -> ImageData:
    """Draw digits of a small bitmap font, turned, slanted, scaled and moved.

    A stand-in for MNIST where no image file is at hand.

    Parameters
    ----------
    side
        Pixels a side, at least 8.

    Returns
    -------
    digits
        Images of ``side`` by ``side`` pixels in [0, 1], float32, and labels.
    """
    check_type("generator", generator, torch.Generator)
    device = generator.device
    font = _font().to(device)
    labels = torch.randint(10, (n,), generator=generator, device=device)

    def spread(width: float) -> Tensor:
        return width * (
            2.0 * torch.rand(n, generator=generator, device=device, dtype=torch.float32)
            - 1.0
        )

    # Maps output coordinates to the font's; the glyph fills its own square.
    turn, slant, size = spread(0.2), spread(0.25), 1.5 + spread(0.2)
    cos, sin = size * turn.cos(), size * turn.sin()
    rows = [
        torch.stack([cos, slant - sin, spread(0.2)], dim=1),
        torch.stack([sin, cos, spread(0.2)], dim=1),
    ]
    grid = torch.nn.functional.affine_grid(
        torch.stack(rows, dim=1), [n, 1, side, side], align_corners=False
    )
    images = torch.nn.functional.grid_sample(
        font[labels][:, None], grid, align_corners=False
    )
    return ImageData(images[:, 0].clamp(0.0, 1.0), labels, "glyphs")


def _font() -> Tensor:
    """The glyphs as (10, 7, 9) images, square pixels in a nearly square frame."""
    rows = [line.split() for line in _GLYPHS.split("\n") if line]
    pixels = [[[float(c == "#") for c in row[k]] for row in rows] for k in range(10)]
    return torch.nn.functional.pad(
        torch.tensor(pixels, dtype=torch.float32, device="cpu"), (1, 1)
    )
