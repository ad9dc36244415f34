"""Completions of Gaussian states: what is free has its own distribution."""

import math

import torch

from ebmtut.random import make_generator
from ebmtut.samplers import inpaint
from tests.samplers.gaussian_chain import CHAIN, NOISE, distribution, energy


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
