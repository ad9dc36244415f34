"""Denoising score matching on a Gaussian family, where its least loss is known."""

import math

import pytest
import torch

from ebmtut.losses import DenoisingScoreMatching, denoising_score_matching_loss
from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator
from tests.losses.gaussian_family import Parabola, V, pairs


def test_denoising_score_matching_at_the_truth():
    """The least loss, 1 - std^2 / variance a coordinate, and no gradient there."""
    n = 50_000
    noise = NoiseLevels((0.5, 0.8, 0.9))
    x, _, _ = pairs(n)
    level = 1 + torch.arange(n) % 2
    variances = [noise.signals[t] ** 2 * V + noise.noises[t] ** 2 for t in range(3)]
    energy = Parabola(*(1 / v for v in variances))
    loss = denoising_score_matching_loss(
        energy, noise, x, level, generator=make_generator(1)
    )
    least = [1 - noise.noises[t] ** 2 / variances[t] for t in (1, 2)]
    # The residual is Gaussian: its square has a variance of twice the mean's.
    error = 5 * math.sqrt(2 * sum(v**2 for v in least) / 2 / n)
    assert abs(loss.item() - sum(least) / 2) < error
    (slopes,) = torch.autograd.grad(loss, energy.theta)
    # 2 std r x a row, residual r and x independent, half the rows a level.
    for t in (1, 2):
        per_row = 2 * noise.noises[t] * math.sqrt(least[t - 1] * variances[t])
        assert abs(float(slopes[t])) < 5 * per_row * math.sqrt(0.5 / n)
    assert slopes[0] == 0


@pytest.mark.parametrize(("data_sigma", "lowest"), [(0.0, 1), (0.1, 0)])
def test_score_matching_leaves_levels_without_noise_out(data_sigma, lowest):
    energy = Parabola(1.0, 2.0, 3.0)
    loss = DenoisingScoreMatching(NoiseLevels((0.3, 0.5, 0.8), data_sigma))
    value = loss(energy, pairs(200)[0], generator=make_generator(0))
    (slopes,) = torch.autograd.grad(value, energy.theta)
    assert (slopes != 0).tolist() == [lowest == 0, True, True]
