"""Ising samples: their distribution at high, critical and low temperature."""

import math

import pytest
import torch

from ebmtut.data import ising_samples
from ebmtut.energies import LatticeIsing
from ebmtut.exact import exact_probabilities
from ebmtut.random import make_generator
from ebmtut.states import bits_to_spins, enumerate_states, states_to_index


@pytest.mark.parametrize("sigma", [0.2, -0.2])
def test_distribution_of_a_small_lattice(sigma: float) -> None:
    """Frequencies of energy levels on 3 x 3 against enumeration, chi-square."""
    energy = LatticeIsing(3, sigma)
    states = enumerate_states(9)
    probability = exact_probabilities(energy, 9).exp()
    levels, level = energy(states).mul(1e6).round().unique(return_inverse=True)
    expected = torch.zeros(len(levels), dtype=torch.float64)
    expected.index_add_(0, level, probability)
    n = 20_000
    x = ising_samples(3, sigma, n, generator=make_generator(0), n_sweeps=100)
    counts = torch.bincount(level[states_to_index(x)], minlength=len(levels))
    often = expected * n >= 5
    gap = (counts - n * expected)[often]
    statistic = float((gap**2 / (n * expected)[often]).sum())
    freedom = int(often.sum()) - 1
    # Mean k and variance 2k; five standard deviations, and room for the skew.
    assert statistic < freedom + 5 * math.sqrt(2 * freedom) + 10


def test_both_magnetisations_have_half_the_mass_below_the_critical_point() -> None:
    """Each chain keeps the sign that it fell into, and its start was fair."""
    x = ising_samples(6, 0.5, 1000, generator=make_generator(1), n_sweeps=200)
    magnetisation = bits_to_spins(x).mean(dim=1)
    assert float((magnetisation.abs() > 0.8).float().mean()) > 0.9
    up = float((magnetisation > 0).float().mean())
    assert abs(up - 0.5) <= 5 * 0.5 / math.sqrt(1000)
