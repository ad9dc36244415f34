"""The bound on log Z against enumeration."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.energies import Ising
from ebmtut.exact import exact_log_partition
from ebmtut.message_passing.log_partition import (
    exact_perturb_and_map,
    log_partition_bound,
)
from ebmtut.random import gumbel, logistic, make_generator


def random_ising(n_sites, seed, scale=1.0):
    generator = make_generator(seed)
    coupling = scale * torch.randn(
        n_sites, n_sites, generator=generator, dtype=torch.float64
    )
    bias = torch.randn(n_sites, generator=generator, dtype=torch.float64)
    return Ising(coupling, bias)


def draw_noise(n_samples, n_sites, seed):
    return logistic(
        (n_samples, n_sites), generator=make_generator(seed), dtype=torch.float64
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 8), st.integers(0, 10**6), st.floats(0.0, 1.5))
def test_it_is_an_upper_bound_when_the_maximum_is_exact(n_sites, seed, scale):
    energy = random_ising(n_sites, seed, scale)
    noise = draw_noise(2000, n_sites, seed)
    x = exact_perturb_and_map(energy, n_sites, noise)
    bound = log_partition_bound(energy, x, noise)
    assert bound.value >= float(exact_log_partition(energy, n_sites)) - 5 * bound.stderr


def test_it_is_tight_without_couplings():
    energy = Ising(torch.zeros(6, 6).double(), torch.linspace(-2, 2, 6).double())
    noise = draw_noise(20_000, 6, 0)
    bound = log_partition_bound(energy, exact_perturb_and_map(energy, 6, noise), noise)
    exact = float(exact_log_partition(energy, 6))
    assert abs(bound.value - exact) < 5 * bound.stderr
    assert bound.stderr < 0.02


def test_logistic_noise_leaves_the_mean_of_two_gumbels_and_less_variance():
    """The definition: two centred Gumbels a bit, one for each value."""
    energy = random_ising(4, 3)
    generator = make_generator(1)
    g0, g1 = (
        gumbel((20_000, 4), generator=generator, dtype=torch.float64) - 0.5772156649
        for _ in range(2)
    )
    x = exact_perturb_and_map(energy, 4, g1 - g0)
    ours = log_partition_bound(energy, x, g1 - g0)
    plain = -energy(x) + torch.where(x > 0.5, g1, g0).sum(dim=1)
    error = math.hypot(ours.stderr, float(plain.std()) / len(plain) ** 0.5)
    assert abs(ours.value - float(plain.mean())) < 5 * error
    assert ours.scores.var() < plain.var() / 2


def test_the_best_state_is_the_best():
    energy = random_ising(5, 7)
    noise = draw_noise(30, 5, 2)
    x = exact_perturb_and_map(energy, 5, noise)
    best = -energy(x) + (noise * x).sum(1)
    for i in range(5):
        y = x.clone()
        y[:, i] = 1 - y[:, i]
        assert (-energy(y) + (noise * y).sum(1) <= best).all()
    alone = exact_perturb_and_map(energy, 5, noise[:1])
    assert torch.equal(alone, x[:1])
