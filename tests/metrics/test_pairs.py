"""Errors of couplings, and of pair covariances against enumeration and simulation."""

import math

import pytest
import torch

from ebmtut import metrics
from ebmtut.metrics import negative_log_rmse, rmse
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states


def correlated(n: int, seed: int = 0) -> torch.Tensor:
    """Bits in pairs that agree three times in four."""
    g = make_generator(seed)
    one = torch.rand(n, 4, generator=g) < 0.3
    flip = torch.rand(n, 4, generator=g) < 0.25
    return torch.cat([one, one ^ flip], dim=1).float()


def test_covariances_one_by_one() -> None:
    x = correlated(50)
    found = metrics.pair_covariances(x)
    for i in range(8):
        for j in range(8):
            a, b = x[:, i].double(), x[:, j].double()
            truth = (a * b).mean() - a.mean() * b.mean() if i != j else 0.0
            assert found[i, j].item() == pytest.approx(float(truth), abs=1e-12)


def test_zero_for_the_data_and_one_for_independent_sites() -> None:
    x = correlated(1000)
    truth = metrics.pair_covariances(x)
    assert metrics.covariance_error(x, truth) == 0.0
    # All states once: no pair has a covariance, whatever the means of the data.
    assert metrics.covariance_error(enumerate_states(8), truth) == pytest.approx(1.0)


def test_noise_of_a_fresh_sample() -> None:
    x, n, repeats = correlated(2000), 100, 200
    truth = metrics.pair_covariances(x)
    g = make_generator(1)
    squares = torch.tensor(
        [
            metrics.covariance_error(x[torch.randint(len(x), (n,), generator=g)], truth)
            ** 2
            for _ in range(repeats)
        ]
    )
    expected = metrics.covariance_error_of_fresh_sample(x, n) ** 2
    # Five standard errors, and a part 2 / n that the leading order leaves out.
    error = 5 * squares.std().item() / repeats**0.5 + 2 / n * expected
    assert abs(squares.mean().item() - expected) < error
    assert metrics.covariance_error_of_fresh_sample(x, 4 * n) == pytest.approx(
        expected**0.5 / 2
    )


def test_all_entries_count() -> None:
    truth = torch.zeros(3, 3)
    estimate = truth.clone()
    estimate[0, 1] = 3.0
    assert rmse(estimate, truth) == pytest.approx(1.0)
    assert negative_log_rmse(10 * estimate, truth) == pytest.approx(-math.log(10.0))
    assert negative_log_rmse(truth, truth) == math.inf


def test_what_is_not_finite_is_no_perfect_score() -> None:
    truth = torch.zeros(2, 2)
    for entry in (math.nan, math.inf):
        estimate = truth.clone()
        estimate[0, 0] = entry
        score = negative_log_rmse(estimate, truth)
        assert score == -math.inf if entry == math.inf else math.isnan(score)
