"""Contours of handwritten digits, as binary states.

Source: Lázaro-Gredilla et al. (2021), Section 5.3; what its text leaves out is as in
the authors' public code.
"""

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import max_pool2d, pad

from ebmtut.checks import Count, OneOf, check_range, check_type, checked
from ebmtut.data.datasets import DataUnavailable
from ebmtut.data.images import ImageData, glyph_digits
from ebmtut.data.mnist import load_mnist
from ebmtut.tensor_checks import check_shape

__all__ = ["SOURCES", "contours", "digits_at_hand"]


#: Which digits may be asked for.
SOURCES = ("auto", "drawn")


@checked
def digits_at_hand(
    source: Annotated[str, OneOf(SOURCES)] = "auto",
    *,
    generator: torch.Generator,
    n_glyphs: int = 4000,
) -> ImageData:
    """Load MNIST's training images, else its test images, else drawn digits.

    Parameters
    ----------
    source
        "drawn" skips MNIST: the same digits on every machine.

    Returns
    -------
    digits
        Images of 28x28; its ``source`` says which they are.
    """
    check_type("generator", generator, torch.Generator)
    for split in ("train", "test") if source == "auto" else ():
        try:
            return load_mnist(split)
        except DataUnavailable:
            continue
    return glyph_digits(n_glyphs, generator=generator)


@checked
def contours(
    images: Float[Tensor, "n_images height width"], *, shrink: Count = 1
) -> Float[Tensor, "n_images rows columns"]:
    """Return the pixels around each digit: those that one dilation adds.

    Parameters
    ----------
    images, shrink
        In [0, 1], ink above 1/2; side of the blocks whose brightest pixel is taken
        first.

    Returns
    -------
    around
        Bits, with ``rows = height // shrink + 2``.
    """
    check_shape("images", images, (None, None, None))
    check_range("shrink", shrink, high=min(images.shape[1:]))
    small = max_pool2d(images[:, None], shrink)[:, 0]
    ink = pad((small > 0.5).to(images.dtype), (1, 1, 1, 1))
    around = ink.clone()
    around[:, 1:] = around[:, 1:].maximum(ink[:, :-1])
    around[:, :-1] = around[:, :-1].maximum(ink[:, 1:])
    around[:, :, 1:] = around[:, :, 1:].maximum(ink[:, :, :-1])
    around[:, :, :-1] = around[:, :, :-1].maximum(ink[:, :, 1:])
    return around - ink
