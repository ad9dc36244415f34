"""Exact transport against an LP, at every scale and shift; costs against formulas."""

import math
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.random import make_generator
from ebmtut.transport import cost_matrix, exact_ot
from tests.transport.test_rivals import linear_program


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


def test_nanometres_in_metres():
    """On a line the sorted coupling is optimal: 0.4 moves by two steps, 0.4 by one."""
    x = doubles([0.0, 10e-9, 20e-9])
    p, q = doubles([0.7, 0.2, 0.1]), doubles([0.1, 0.2, 0.7])
    solved = exact_ot(p, q, (x[:, None] - x) ** 2)
    assert solved.value == pytest.approx(2.0e-16, rel=1e-9)


def best_permutation(cost):
    """The least mean over all permutations: every column once."""
    n = len(cost)
    rows = range(n)
    return min(sum(cost[i][j] for i, j in zip(rows, k, strict=True)) for k in
               permutations(rows)) / n  # fmt: skip


@pytest.mark.parametrize("far", [1e3, 1e16, 1e30, float("inf")])
def test_pairs_that_are_as_good_as_forbidden(far):
    cost = [[7, 3, far, far], [far, 9, 6, 8], [6, far, 8, 1], [9, 1, 8, 3]]
    u = torch.full((4,), 0.25).double()
    assert best_permutation(cost) == 3.75
    assert exact_ot(u, u, doubles(cost)).value == pytest.approx(3.75, rel=1e-12)


def test_negative_costs():
    solved = exact_ot(doubles([0.5, 0.5]), doubles([0.5, 0.5]),
                      doubles([[-5.0, -6.0], [-7.0, -9.0]]))  # fmt: skip
    assert solved.value == -7.0


@st.composite
def problems(draw):
    m1, m2, seed = draw(st.tuples(*[st.integers(1, 6)] * 2, st.integers(0, 999)))
    generator = make_generator(seed)
    cost = torch.rand(m1, m2, generator=generator, dtype=torch.float64)
    p, q = (torch.rand(m, generator=generator).double() + 0.01 for m in (m1, m2))
    return p / p.sum(), q / q.sum(), cost


@settings(deadline=None, max_examples=60)
@given(
    problems(),
    st.floats(-30, 30).map(lambda e: 10.0**e),
    st.floats(-100, 100),
    st.permutations(range(6)),
)
def test_invariance_under_scale_shift_and_order(problem, scale, shift, order):
    """1e-9 is the certificate; the shift leaves 1e-16 of its own size."""
    p, q, cost = problem
    want = linear_program(p, q, cost)
    rows = [k for k in order if k < len(p)]
    solved = exact_ot(p[rows], q, scale * (cost[rows] + shift))
    assert solved.value / scale - shift == pytest.approx(want, rel=1e-7, abs=1e-11)
    bound = float(p[rows] @ solved.g - q @ solved.h)
    assert bound <= solved.value + 1e-9 * scale * (1 + abs(shift))
    assert bound == pytest.approx(solved.value, abs=1e-9 * scale * (1 + abs(shift)))


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
