"""Samples, arcs and completions of a Gaussian chain, whose distributions are known."""

import math
import re

import pytest
import torch

from ebmtut.checks import DivergenceError
from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator, normal
from ebmtut.samplers import (
    ConditionalChain,
    denoised,
    inpaint,
    interpolate,
    progressive_samples,
)
from tests.samplers.gaussian_chain import (
    CHAIN,
    MEAN,
    NOISE,
    SHORT,
    VARIANCE,
    distribution,
    energy,
    white,
)


def test_every_level_has_its_distribution():
    n = 20_000
    samples = progressive_samples(
        energy, NOISE, white(n), CHAIN, generator=make_generator(1)
    )
    assert samples.shape == (4, n, 2)
    error = 5 / math.sqrt(n)
    for t in range(3):
        mean, variance = distribution(t)
        assert ((samples[t].mean(0) - mean) / variance.sqrt()).abs().max() < error
        assert (samples[t].var(0) / variance - 1).abs().max() < error * math.sqrt(2)


def test_divergence_names_the_level_and_the_largest_energy():
    wild = ConditionalChain(60, (0.1, 9.0, 0.1), adjusted=False)
    match = (
        r"^chains diverged at level 1, Langevin step (\d+) of 60: \d+ of 50 energies "
        ".* largest"
    )
    with pytest.raises(DivergenceError, match=match) as raised:
        progressive_samples(
            lambda x, level: energy(x, level) + (x**4).sum(1),
            NOISE,
            white(50),
            wild,
            generator=make_generator(0),
        )
    # Of a fourth power a step of size 9 makes the cube, from about 1 and times 160: the
    # logarithm of the state trebles a step, and float32 ends after a few.
    told = re.match(match, str(raised.value))
    assert told is not None and 2 <= int(told[1]) <= 8


def test_the_denoised_state_is_the_mean_of_the_data_given_it():
    noise = NoiseLevels((0.5,), data_sigma=0.4)
    signal, std = noise.signals[0], noise.noises[0]
    x = white(5)

    def of_level_0(x, level):
        variance = signal**2 * VARIANCE + std**2
        return ((x - signal * MEAN) ** 2 / (2 * variance)).sum(1)

    # Of a Gaussian: the prior's mean, moved by the fraction of the variance.
    gain = signal * VARIANCE / (signal**2 * VARIANCE + std**2)
    want = MEAN + gain * (x - signal * MEAN)
    assert torch.allclose(denoised(of_level_0, noise, x), want)
    assert torch.allclose(denoised(energy, NOISE, x), x)


@pytest.mark.parametrize("chain", [SHORT, CHAIN, ConditionalChain(4, start="noisy")])
def test_the_ends_of_an_interpolation_are_the_samples(chain):
    noise = NoiseLevels((0.3, 0.6, 0.9))
    like = torch.empty(5, 2, dtype=torch.float64)
    path = interpolate(
        energy, noise, like, chain, 4, generators=(make_generator(3), make_generator(4))
    )
    assert path.shape == (4, 5, 2)
    for end, seed in ((0, 3), (-1, 4)):
        generator = make_generator(seed)
        start = normal(like, generator=generator)
        samples = progressive_samples(energy, noise, start, chain, generator=generator)
        assert torch.equal(path[end], samples[0])
    assert not torch.equal(path[1], path[0])


def test_between_two_runs_lie_draws_of_the_same_distribution():
    """The noise on an arc is white noise; so the middle is a sample, too."""
    n = 5000
    like = torch.empty(n, 2, dtype=torch.float64)
    generators = (make_generator(5), make_generator(6))
    middle = interpolate(energy, NOISE, like, CHAIN, 3, generators=generators)[1]
    mean, variance = distribution(0)
    error = 5 / math.sqrt(n)
    assert ((middle.mean(0) - mean) / variance.sqrt()).abs().max() < error
    assert (middle.var(0) / variance - 1).abs().max() < error * math.sqrt(2)


def test_inpainting_keeps_what_is_known_and_draws_the_rest():
    """Independent coordinates: the free one keeps its distribution."""
    n = 20_000
    data = torch.full((n, 2), 0.123456789, dtype=torch.float64)
    free = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(n, 2)
    x = inpaint(energy, NOISE, data, free, CHAIN, generator=make_generator(7))
    assert torch.equal(x[:, 0], data[:, 0])
    mean, variance = distribution(0)
    error = 5 / math.sqrt(n)
    assert abs(float((x[:, 1].mean() - mean[1]) / variance[1].sqrt())) < error
    assert abs(float(x[:, 1].var() / variance[1] - 1)) < error * math.sqrt(2)
