"""Errors of couplings, and the score of predicting zero."""

import math

import pytest
import torch

from ebmtut.metrics import negative_log_rmse, rmse


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
