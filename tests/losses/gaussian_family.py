"""A Gaussian family of energies, on Gaussian data with noise."""

import math

import torch
from torch import nn

from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator

# E(x) = theta x^2 / 2 on data N(0, V), one level of noise sigma.
V, SIGMA = 0.7, 0.6
A = math.sqrt(1 - SIGMA**2)
NOISE = NoiseLevels((SIGMA,))


class Parabola(nn.Module):
    """One precision a level."""

    def __init__(self, *theta):
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(theta, dtype=torch.float64))

    def forward(self, x, level):
        return self.theta[level] * (x**2).flatten(1).sum(1) / 2


def pairs(n, seed=0):
    generator = make_generator(seed)
    x = math.sqrt(V) * torch.randn(n, 1, dtype=torch.float64, generator=generator)
    level = torch.zeros(n, dtype=torch.long)
    return x, NOISE.step(x, level, generator=generator), level
