"""Bits of a Gaussian, whose entropy is known."""

import math

import pytest
import torch

from ebmtut.metrics import Estimate, bits_per_dimension
from ebmtut.random import make_generator


def test_bits_of_a_gaussian_are_its_entropy():
    n, n_dims, width = 20_000, 5, 0.3
    x = width * torch.randn(n, n_dims, generator=make_generator(0)).double()
    energies = (x**2).sum(1) / (2 * width**2)
    log_z = n_dims * math.log(width * math.sqrt(2 * math.pi))
    found = bits_per_dimension(energies, n_dims, Estimate(log_z, 0.0))
    entropy = math.log2(width * math.sqrt(2 * math.pi * math.e))
    # An energy has the variance of half a chi-square: half its degrees of freedom.
    stderr = math.sqrt(n_dims / 2 / n) / n_dims / math.log(2)
    assert found.value == pytest.approx(entropy, abs=5 * stderr)
    # A sample's standard deviation has a relative error of about 1 / root n.
    assert found.stderr == pytest.approx(stderr, rel=0.05)
    normed = bits_per_dimension(energies + log_z, n_dims)
    assert normed.value == pytest.approx(found.value, rel=1e-12)


def test_errors_of_the_mean_and_of_log_z_add_in_squares():
    energies = torch.tensor([1.0, 3.0])  # a mean of 2, with a standard error of 1
    found = bits_per_dimension(energies, 2, Estimate(0.5, 0.75))
    bits = 2 * math.log(2)
    assert found.value == pytest.approx(2.5 / bits)
    assert found.stderr == pytest.approx(1.25 / bits)
    assert bits_per_dimension(energies[:1], 2).stderr == 0
