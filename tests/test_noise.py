"""The forward chain: its numbers digit for digit, its distributions by moments."""

import math
from itertools import pairwise

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.noise import NoiseLevels, ddpm_noise, geometric_noise, linear_noise
from ebmtut.random import make_generator

# The six levels of the paper's code, by products of the thousand variances in
# 40-digit decimals: sqrt(1 - prod(1 - beta)) between the levels, pure noise last.
SIX = (
    0.3236802218101412907,
    0.5164952946878930229,
    0.6322110687678287576,
    0.7132421411785388722,
    0.7733690259912665748,
)


def test_six_levels_digit_for_digit():
    noise = ddpm_noise(6)
    assert noise.sigmas == pytest.approx((*SIX, 1.0), rel=1e-12, abs=0)
    assert noise.data_sigma == pytest.approx(0.01, rel=1e-12, abs=0)
    assert noise.signals[-1] == 0


def test_a_thousand_levels_are_those_of_denoising_diffusion():
    noise = linear_noise(1000)
    variances = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
    sigmas = torch.tensor(noise.sigmas).double()
    assert sigmas == pytest.approx(variances.sqrt(), rel=1e-6)
    assert noise.sigmas[-1] ** 2 == pytest.approx(0.02, rel=1e-15)
    last = float((1 - variances).prod().sqrt())
    assert noise.signals[-1] == pytest.approx(last, rel=1e-9)


@pytest.mark.parametrize("noisy_data", [True, False])
def test_geometric_ratios(noisy_data):
    noise = geometric_noise(6, 0.2, 10.0, noisy_data=noisy_data)
    levels = range(0 if noisy_data else 1, 7)
    ratios = [noise.noises[t] / noise.signals[t] for t in levels]
    assert ratios[0] == pytest.approx(0.2)
    assert ratios[-1] == pytest.approx(10.0)
    growth = [b / a for a, b in pairwise(ratios)]
    assert growth == pytest.approx([growth[0]] * len(growth))


def test_one_jump_has_the_distribution_of_many_steps():
    """Mean and variance within five standard errors, level by level."""
    noise = NoiseLevels((0.3, 0.5, 1.0), 0.1)
    n, generator = 100_000, make_generator(0)
    data = torch.full((n, 1), 1.5, dtype=torch.float64)
    zeros = torch.zeros(n, dtype=torch.long)
    x = noise.perturb(data, zeros, generator=generator)
    for t in range(4):
        for states in (x, noise.perturb(data, zeros + t, generator=generator)):
            variance = noise.noises[t] ** 2
            error = 5 * math.sqrt(variance / n)
            assert abs(float(states.mean()) - noise.signals[t] * 1.5) < error
            assert abs(float(states.var()) / variance - 1) < 5 * math.sqrt(2 / n)
        if t < 3:
            x = noise.step(x, zeros + t, generator=generator)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NoiseLevels(()), "number of sigmas .*>= 1, got 0"),
        (lambda: NoiseLevels((0.5, 0.4)), "sigmas must not decrease, got 0.4 after"),
        (lambda: NoiseLevels((0.0, 0.4)), r"sigma_1 .*\(0, 1\], got 0.0"),
        (lambda: NoiseLevels((0.5, 1.1)), r"sigma_2 .*\(0, 1\], got 1.1"),
        (lambda: NoiseLevels((0.5,), 1.0), r"data_sigma .*\[0, 1\), got 1.0"),
        (lambda: linear_noise(3, 0.5, 0.4), "last .*got 0.4"),
        (lambda: ddpm_noise(1), "n_levels .*got 1"),
        (lambda: geometric_noise(3, 2.0, 1.0), "last .*got 1.0"),
    ],
)
def test_schedules_that_cannot_be(make, words):
    with pytest.raises(InputError, match=f"^{words}"):
        make()
