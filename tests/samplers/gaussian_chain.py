"""A Gaussian under a chain of noise: the distribution of every level is known."""

import torch

from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator, normal
from ebmtut.samplers import ConditionalChain

# Data N(1, 0.09) in the first coordinate, N(-0.5, 1.44) in the second.
MEAN = torch.tensor([1.0, -0.5], dtype=torch.float64)
VARIANCE = torch.tensor([0.09, 1.44], dtype=torch.float64)
NOISE = NoiseLevels((0.3, 0.6, 1.0))
CHAIN = ConditionalChain(40, 0.7)
SHORT = ConditionalChain(3, 0.4, adjusted=False)


def distribution(t):
    signal, std = NOISE.signals[t], NOISE.noises[t]
    return signal * MEAN, signal**2 * VARIANCE + std**2


def energy(x, level):
    means, variances = (torch.stack(part) for part in zip(*map(distribution, range(3))))  # noqa: B905
    return ((x - means[level]) ** 2 / (2 * variances[level])).sum(1)


def white(n, seed=0):
    like = torch.empty(n, 2, dtype=torch.float64)
    return normal(like, generator=make_generator(seed))
