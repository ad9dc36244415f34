"""Enumeration, transfer matrix, Kaufman and published values against each other."""

import math

import pytest
import torch
from scipy.integrate import quad

from ebmtut import exact
from ebmtut.checks import InputError
from ebmtut.energies import LatticeIsing
from ebmtut.states import bits_to_spins, enumerate_states

CRITICAL = math.log(1 + math.sqrt(2)) / 2


def onsager_free_energy(sigma):
    """Free energy per site of the infinite lattice without field, in nats.

    Onsager (1944): with K = 2 sigma and k = 2 sinh 2K / cosh(2K)^2,
    f = -ln(2 cosh 2K) - int_0^pi ln((1 + sqrt(1 - k^2 sin^2 t)) / 2) dt / 2 pi.
    """
    k = abs(2 * sigma)
    modulus = 2 * math.tanh(2 * k) / math.cosh(2 * k)

    def integrand(t):
        # Rounding may leave the root a hair below 0 at criticality.
        root = math.sqrt(max(1 - (modulus * math.sin(t)) ** 2, 0.0))
        return math.log((1 + root) / 2)

    integral, _ = quad(integrand, 0, math.pi / 2, epsabs=1e-13, epsrel=1e-13)
    log_2cosh = 2 * k + math.log1p(math.exp(-4 * k))
    return -log_2cosh - integral / math.pi


@pytest.mark.parametrize("side", [3, 4])
@pytest.mark.parametrize(
    ("sigma", "bias"), [(0.3, 0.0), (0.22, 0.5), (-0.25, 0.0), (-0.4, 0.3), (0.0, 1.0)]
)
def test_transfer_matrix_equals_enumeration(side, sigma, bias):
    want = exact.exact_log_partition(LatticeIsing(side, sigma, bias), side * side)
    got = exact.lattice_log_partition(side, sigma, bias)
    assert got == pytest.approx(float(want), rel=1e-13)


@pytest.mark.parametrize(("rows", "cols"), [(3, 4), (4, 3), (5, 3), (3, 5)])
@pytest.mark.parametrize("field", [0.0, 0.2])
def test_rectangles_equal_enumeration(rows, cols, field):
    def energy(x):
        s = bits_to_spins(x).reshape(-1, rows, cols)
        bonds = s * s.roll(1, 1) + s * s.roll(1, 2)
        return -(0.35 * bonds + field * s).sum((1, 2))

    want = float(exact.exact_log_partition(energy, rows * cols))
    assert exact.transfer_log_partition(rows, cols, 0.35, field) == pytest.approx(want)
    if field == 0:
        found = exact.torus_log_partition(rows, cols, 0.35)
        assert found == pytest.approx(want, rel=1e-13)


@pytest.mark.parametrize(("rows", "cols"), [(3, 5), (7, 4), (6, 8), (9, 9), (20, 11)])
@pytest.mark.parametrize("k", [1e-6, 0.3, CRITICAL, 0.4407, 0.9, 5.0])
def test_kaufman_equals_transfer_matrix(rows, cols, k):
    want = exact.transfer_log_partition(rows, cols, k)
    assert exact.torus_log_partition(rows, cols, k) == pytest.approx(want, rel=1e-13)


def test_antiferromagnets():
    # On an even torus the sign of the coupling does not matter.
    want = exact.transfer_log_partition(6, 4, -0.7)
    assert exact.torus_log_partition(6, 4, -0.7) == pytest.approx(want, rel=1e-13)
    assert want == pytest.approx(exact.transfer_log_partition(6, 4, 0.7), rel=1e-13)
    # An odd one is frustrated: 5 rows and 5 columns each lose a bond.
    ground = 8 * (2 * 25 - 2 * 10)
    frustrated = exact.transfer_log_partition(5, 5, -8.0)
    assert ground < frustrated < ground + 25 * math.log(2)
    words = r"edge_coupling must be >= 0 .* -0.7 on 5 x 4"
    with pytest.raises(InputError, match=words):
        exact.torus_log_partition(5, 4, -0.7)


def test_rows_and_columns_commute():
    one = exact.transfer_log_partition(4, 9, 0.3, 0.1)
    assert one == pytest.approx(exact.transfer_log_partition(9, 4, 0.3, 0.1), rel=1e-13)


def test_published_value():
    # 15 x 15 at beta 0.4407: 209.826, given with the LEAPS sampler.
    assert exact.torus_log_partition(15, 15, 0.4407) == pytest.approx(209.826, abs=5e-4)


def test_side_12_with_and_without_field():
    got = exact.lattice_log_partition(12, 0.2)
    assert got == pytest.approx(exact.torus_log_partition(12, 12, 0.4), rel=1e-13)
    # A strong field aligns all: 144 spins and 288 edges, each counted twice.
    strong = exact.lattice_log_partition(12, 0.2, 15.0)
    assert strong == pytest.approx(144 * 15 + 288 * 0.4)


def test_uncoupled_spins():
    assert exact.torus_log_partition(5, 6, 0.0) == pytest.approx(30 * math.log(2))
    # Spins that never disagree: two states of 60 bonds.
    want = 60 * 100 + math.log(2)
    assert exact.torus_log_partition(5, 6, 100.0) == pytest.approx(want, rel=1e-15)
    want = 30 * math.log(2 * math.cosh(0.7))
    assert exact.transfer_log_partition(5, 6, 0.0, 0.7) == pytest.approx(want)


def test_derivative_is_the_mean_energy():
    step = 1e-5
    high = exact.lattice_log_partition(4, 0.3 + step)
    low = exact.lattice_log_partition(4, 0.3 - step)
    lattice = LatticeIsing(4, 0.3)
    # d log Z / d sigma = -<E> / sigma; the difference quotient errs by step^2.
    mean = float(exact.exact_mean(lattice, lattice))
    assert (high - low) / (2 * step) == pytest.approx(-mean / 0.3, rel=1e-7)


@pytest.mark.parametrize("sigma", [-0.15, 0.1, 0.18, 0.3, 0.5])
def test_onsager_is_the_limit(sigma):
    # Away from criticality finite sizes differ by ln(2) / n_sites below it and
    # exponentially little above it.
    side = 100
    per_site = exact.torus_log_partition(side, side, 2 * sigma) / side**2
    ordered = 2 * abs(sigma) > CRITICAL
    correction = math.log(2) / side**2 if ordered else 0.0
    want = -onsager_free_energy(sigma) + correction
    assert per_site == pytest.approx(want, abs=1e-9)


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
    found = exact.torus_correlations(rows, cols, k).tolist()
    assert found == pytest.approx(want, abs=1e-12)


def test_neighbours_have_the_mean_energy():
    levels, distribution = exact.torus_energy_distribution(10, 10, CRITICAL)
    near = float(exact.torus_correlations(10, 10, CRITICAL)[1])
    mean = float(distribution @ levels)
    assert -2 * 100 * CRITICAL * near == pytest.approx(mean, rel=1e-9)
