"""Between two runs, and completed: all states have a Gaussian distribution."""

import math

import pytest
import torch

from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator, normal
from ebmtut.samplers import ConditionalChain, inpaint, interpolate, progressive_samples
from tests.samplers.gaussian_chain import CHAIN, NOISE, SHORT, distribution, energy


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
