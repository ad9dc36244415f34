import math

import pytest
import torch

from ebmtut.random import make_generator
from ebmtut.transport import cost_matrix

EXPECTED = {
    "squared_euclidean": lambda d: d**2,
    "euclidean": lambda d: d,
    "coulomb": lambda d: 1 / d if d else math.inf,
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_costs_of_pairs(kind):
    generator = make_generator(0)
    x = torch.rand(4, 3, dtype=torch.float64, generator=generator)
    y = torch.cat([torch.rand(2, 3, dtype=torch.float64, generator=generator), x[1:2]])
    cost = cost_matrix(x, y, kind)
    assert cost.shape == (4, 3) and cost.dtype == torch.float64
    for i in range(4):
        for j in range(3):
            expected = EXPECTED[kind](math.dist(x[i].tolist(), y[j].tolist()))
            assert float(cost[i, j]) == pytest.approx(expected, rel=1e-14)


def test_points_on_a_line():
    x = torch.tensor([0.0, 1.0, 3.0])
    assert cost_matrix(x, x[:2], "euclidean").tolist() == [[0, 1], [1, 0], [3, 2]]


def test_near_points_keep_their_digits():
    x = torch.tensor([1000.0, 1000.125])
    assert cost_matrix(x, x)[0, 1] == 0.125**2
