"""Exact results for the torus, against enumeration and derivatives of log Z."""

import pytest
import torch

from ebmtut import exact
from ebmtut.energies import LatticeIsing
from ebmtut.states import bits_to_spins, enumerate_states

CRITICAL = 0.44068679350977147


@pytest.mark.parametrize("k", [0.05, 0.2, CRITICAL, 0.9])
def test_energies_of_a_small_torus_are_those_of_all_states(k):
    energy = LatticeIsing(4, k / 2)(enumerate_states(4 * 4).double())
    p = (-energy).softmax(0)
    levels, distribution = exact.torus_energy_distribution(4, 4, k)
    place = ((energy - levels[0]) / (4 * k)).round().long()
    assert (energy - levels[place]).abs().max() < 1e-9
    want = torch.zeros_like(distribution).index_add(0, place, p)
    assert (distribution - want).abs().max() < 1e-12


@pytest.mark.parametrize(("rows", "cols"), [(10, 10), (4, 10), (12, 6), (32, 32)])
@pytest.mark.parametrize("k", [0.2, CRITICAL])
def test_mean_and_variance_are_derivatives_of_log_z(rows, cols, k):
    levels, distribution = exact.torus_energy_distribution(rows, cols, k)
    assert float(distribution.sum()) == pytest.approx(1, abs=1e-10)
    mean = float(distribution @ levels)
    variance = float(distribution @ (levels - mean) ** 2)
    h = 1e-4
    below, at, above = (
        exact.torus_log_partition(rows, cols, k * (1 + h * j)) for j in (-1, 0, 1)
    )
    assert mean == pytest.approx(-(above - below) / (2 * h), rel=1e-6)
    assert variance == pytest.approx((above - 2 * at + below) / h**2, rel=1e-3)


@pytest.mark.parametrize("k", [-0.3, 0.2, CRITICAL])
def test_correlations_of_a_small_torus_are_those_of_all_states(k):
    rows, cols = 4, 3
    s = bits_to_spins(enumerate_states(rows * cols)).double()
    grid = s.view(-1, rows, cols)
    edges = (grid * grid.roll(1, 1)).sum((1, 2)) + (grid * grid.roll(1, 2)).sum((1, 2))
    p = (k * edges).softmax(0)
    want = [float(p @ (grid[:, 0, 1] * grid[:, r, 1])) for r in range(3)]
    assert exact.torus_correlations(rows, cols, k).tolist() == pytest.approx(
        want, abs=1e-12
    )


def test_neighbours_have_the_mean_energy():
    levels, distribution = exact.torus_energy_distribution(10, 10, CRITICAL)
    near = float(exact.torus_correlations(10, 10, CRITICAL)[1])
    assert -2 * 100 * CRITICAL * near == pytest.approx(
        float(distribution @ levels), rel=1e-9
    )
