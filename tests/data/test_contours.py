import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.data import contours, digits_at_hand
from ebmtut.random import make_generator


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


def test_drawn_digits_are_the_same_everywhere():
    one, same = (
        digits_at_hand("drawn", generator=make_generator(0), n_glyphs=20)
        for _ in range(2)
    )
    assert torch.equal(one.images, same.images) and one.source == "glyphs"


def test_bad_input():
    with pytest.raises(InputError, match="shrink"):
        contours(torch.zeros(1, 4, 4), shrink=0)
    with pytest.raises(InputError, match="shrink must be a number <= 3, got 4"):
        contours(torch.zeros(1, 3, 9), shrink=4)
    with pytest.raises(InputError, match="images"):
        contours(torch.zeros(4, 4))
    with pytest.raises(InputError, match="source"):
        digits_at_hand("web", generator=make_generator(0))
