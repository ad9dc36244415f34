"""Distances between samples and data, against closed forms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.metrics import (
    class_score,
    frechet_distance,
    gaussian_frechet_distance,
    nearest_neighbors,
    precision_recall,
)
from ebmtut.random import make_generator
from tests.shared import normal


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6))
def test_commuting_covariances_add_by_axis(seed: int, n: int) -> None:
    turn, _ = torch.linalg.qr(normal(n, n, seed=seed))
    scale1, scale2 = normal(2, n, seed=seed + 1).exp()
    mean1, mean2 = normal(2, n, seed=seed + 2)
    found = gaussian_frechet_distance(
        mean1, (turn * scale1**2) @ turn.T, mean2, (turn * scale2**2) @ turn.T
    )
    want = ((mean1 - mean2) ** 2).sum() + ((scale1 - scale2) ** 2).sum()
    assert found == pytest.approx(float(want), rel=1e-9)


def test_general_covariances_against_the_optimal_map() -> None:
    # If x ~ N(0, C) and y = A x with A symmetric positive, A is optimal:
    # the distance is E |x - A x|^2 = tr((1 - A) C (1 - A)).
    root, factor = normal(5, 5), normal(5, 5, seed=1)
    covariance, map_ = root @ root.T, factor @ factor.T + torch.eye(5)
    rest = torch.eye(5).double() - map_
    found = gaussian_frechet_distance(
        torch.zeros(5), covariance, torch.zeros(5), map_ @ covariance @ map_
    )
    assert found == pytest.approx(float((rest @ covariance @ rest).trace()), rel=1e-9)


def test_invariances_and_zero() -> None:
    x, y = normal(60, 7), 1.5 * normal(80, 7, seed=1) + 0.3
    turn, _ = torch.linalg.qr(normal(7, 7, seed=2))
    distance = frechet_distance(x, y)
    assert frechet_distance(x, x) == pytest.approx(0.0, abs=1e-9)
    assert frechet_distance(x.flip(0), x) == pytest.approx(0.0, abs=1e-9)
    assert frechet_distance(y, x) == pytest.approx(distance)
    assert frechet_distance(x @ turn + 5, y @ turn + 5) == pytest.approx(distance)
    assert frechet_distance(2 * x, 2 * y) == pytest.approx(4 * distance)


def test_fewer_samples_than_features_are_no_trouble() -> None:
    x = normal(5, 20)
    assert frechet_distance(x, x + 1.0) == pytest.approx(20.0)


def test_the_class_score_from_one_to_the_number_of_classes() -> None:
    sure = torch.eye(4).repeat(3, 1)
    assert class_score(sure) == pytest.approx(4.0)
    assert class_score(sure[:1].repeat(9, 1)) == pytest.approx(1.0)
    assert class_score(torch.full((5, 4), 0.25)) == pytest.approx(1.0)
    # Two classes, each told with probability q: exp of the mutual information.
    q = 0.9
    told = torch.tensor([[q, 1 - q], [1 - q, q]], dtype=torch.float64)
    want = math.log(2) + q * math.log(q) + (1 - q) * math.log(1 - q)
    assert class_score(told) == pytest.approx(math.exp(want))


def test_precision_and_recall_on_constructed_sets() -> None:
    left = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    right = left + 100
    both = torch.cat([left, right])
    assert precision_recall(both, both + 0.01, 1) == (1.0, 1.0)
    # Samples of one half: all look like data, half of the data are reached.
    assert precision_recall(both, left + 0.01, 1) == (1.0, 0.5)
    assert precision_recall(left, both + 0.01, 1) == (0.5, 1.0)
    assert precision_recall(left, right, 1) == (0.0, 0.0)
    # Exact copies of one point have balls of radius 0.
    assert precision_recall(left, left[:1].repeat(4, 1), 1) == (1.0, 0.25)


def test_nearest_neighbors_find_copies() -> None:
    data = normal(30, 4, 4)
    index = torch.tensor([3, 3, 17])
    found = nearest_neighbors(data[index], data, block=2)
    assert torch.equal(found.place, index)
    assert torch.equal(found.distance, torch.zeros(3).double())
    moved = nearest_neighbors(data[index] + 0.01, data)
    assert torch.allclose(moved.distance, torch.full((3,), 0.04).double())


def test_precision_and_recall_far_from_the_origin() -> None:
    """0..39 against 20..59: what lies within three steps of the other set counts."""
    x, y = (
        torch.arange(40.0).double()[:, None],
        torch.arange(20.0, 60).double()[:, None],
    )
    want = pytest.approx((0.575, 0.575))
    assert precision_recall(x, y) == want
    assert precision_recall(x + 1.6e9, y + 1.6e9) == want
    few, far = y[:7], 2.0**52
    want = pytest.approx(frechet_distance(x, few))
    assert frechet_distance(x + far, few + far) == want


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 99),
    st.integers(-100, 100).map(lambda e: 2.0**e),
    st.sampled_from([0.0, 1.0, -1e9]),
)
def test_invariance_under_scale_shift_and_order(seed, scale, shift) -> None:
    """On multiples of 1/8 and powers of two, which nothing here rounds: ties stay."""
    x, y = ((8 * normal(30, 3, seed=seed + k)).round() / 8 for k in (0, 1))
    order = torch.randperm(30, generator=make_generator(seed))
    moved = [(z[order] + shift) * scale for z in (x, y)]
    assert precision_recall(*moved) == precision_recall(x, y)
    near, other = nearest_neighbors(y, x), nearest_neighbors(moved[1], moved[0])
    far = near.distance[order] * scale
    torch.testing.assert_close(other.distance, far, rtol=1e-6, atol=0)
    want = frechet_distance(x, y) * scale**2
    assert frechet_distance(*moved) == pytest.approx(want, rel=1e-6)
