"""Small asymmetric systems and the counting tests that the samplers share."""

import numpy as np
import torch
from scipy.stats import chi2

from ebmtut.energies import Ising
from ebmtut.neighbors import neighbor_log_ratios
from ebmtut.states import enumerate_states, states_to_index


def cubic_energy(n_sites):
    """No two states alike, and cubic in single bits, so that Taylor ratios err."""
    generator = torch.Generator().manual_seed(n_sites)
    field = torch.randn(n_sites, dtype=torch.float64, generator=generator)
    pair = torch.randn(n_sites, n_sites, dtype=torch.float64, generator=generator)

    def energy(x):
        triple = x[:, 0] * x[:, 1] * x[:, 2]
        cube = 0.4 * (x[:, 0] - 1.5 * x[:, -1]) ** 3
        return x @ field + ((x @ pair) * x).sum(1) + 1.3 * triple + cube

    return energy


def path_ising(n_sites):
    """Ising path with unequal couplings and fields; odd and even sites colour it."""
    generator = torch.Generator().manual_seed(10 + n_sites)
    edges = 0.6 * torch.randn(n_sites - 1, dtype=torch.float64, generator=generator)
    bias = 0.5 * torch.randn(n_sites, dtype=torch.float64, generator=generator)
    return Ising(torch.diag(edges, 1), bias)


def chi_square_p(counts, expected):
    """p-value of counts against expectations, rare cells merged.

    A count where the expectation is zero gives zero.
    """
    counts = np.asarray(counts, dtype=float)
    expected = np.asarray(expected, dtype=float)
    if counts[expected == 0].any():
        return 0.0
    rare = expected < 10
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    counts, expected = counts[expected > 0], expected[expected > 0]
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float(chi2.sf(statistic, max(len(counts) - 1, 1)))


def distribution_p(x, probabilities):
    """p-value of independent states beside a distribution over enumerate_states."""
    counts = torch.bincount(states_to_index(x), minlength=len(probabilities))
    return chi_square_p(counts, len(x) * probabilities)


def swept_distribution(energy, start, order):
    """Exact distribution after redrawing the sites once in this order."""
    n_sites = len(start)
    states = enumerate_states(n_sites)
    flip = torch.sigmoid(neighbor_log_ratios(energy, states))
    distribution = (states == start).all(1).double()
    index = torch.arange(2**n_sites)
    for site in order:
        other = index ^ (1 << (n_sites - 1 - int(site)))
        distribution = (
            distribution * (1 - flip[:, site]) + (distribution * flip[:, site])[other]
        )
    return distribution
