import torch

from ebmtut.data import contours


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
