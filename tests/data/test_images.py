"""Binary forms of images, contours, and the digits that need no file."""

import math

import torch

from ebmtut.data import binarize, contours, glyph_digits
from ebmtut.data.images import _font
from ebmtut.random import make_generator


def test_static_binarisation_is_a_threshold() -> None:
    images = torch.tensor([[[0.0, 0.5], [0.500001, 1.0]]])
    assert binarize(images).tolist() == [[0.0, 0.0, 1.0, 1.0]]


def test_dynamic_binarisation_has_the_pixels_as_means() -> None:
    images = torch.tensor([[[0.0, 0.3], [0.9, 1.0]]]).expand(40_000, 2, 2)
    means = binarize(images, generator=make_generator(0)).mean(dim=0)
    for mean, p in zip(means.tolist(), [0.0, 0.3, 0.9, 1.0], strict=True):
        assert abs(mean - p) <= 5 * math.sqrt(p * (1 - p) / 40_000)


def test_glyphs_can_be_told_apart() -> None:
    """The nearest class mean finds the class of fresh digits (chance: 0.1)."""
    train = glyph_digits(2000, generator=make_generator(0), side=14)
    test = glyph_digits(500, generator=make_generator(1), side=14)
    assert train.images.shape == (2000, 14, 14)
    assert float(train.images.min()) >= 0.0
    assert float(train.images.max()) <= 1.0
    means = torch.stack([train.images[train.labels == k].mean(0) for k in range(10)])
    distance = torch.cdist(test.images.flatten(1), means.flatten(1))
    right = float((distance.argmin(dim=1) == test.labels).float().mean())
    assert right > 0.6
    assert _font().shape == (10, 7, 7)


def test_the_contour_of_a_pixel_is_its_four_neighbours():
    image = torch.zeros(1, 3, 3)
    image[0, 1, 1] = 0.6
    want = [
        [0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 1, 0, 1, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    assert contours(image)[0].int().tolist() == want


def test_a_pixel_at_the_edge_has_its_contour_outside():
    image = torch.zeros(1, 2, 2)
    image[0, 0, 0] = 1
    want = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert contours(image)[0].int().tolist() == want


def test_half_a_pixel_is_no_ink_and_shrinking_takes_the_brightest():
    assert not contours(torch.full((1, 4, 4), 0.5)).any()
    image = torch.zeros(1, 4, 4)
    image[0, 3, 0] = 1
    shrunk = torch.zeros(1, 2, 2)
    shrunk[0, 1, 0] = 1
    assert torch.equal(contours(image, shrink=2), contours(shrunk))
