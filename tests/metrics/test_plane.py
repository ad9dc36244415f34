"""Grids of the plane against Gaussians, and log Z down the levels."""

import math

import pytest
import torch

from ebmtut.energies import at_level
from ebmtut.metrics import PlaneGrid, log_partition_chain, log_partition_particles
from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator

GRID = PlaneGrid(9.0, 180)


def gaussian(variance, mean=0.0):
    def energy(x):
        return ((x - mean) ** 2).sum(1) / (2 * variance)

    return energy


def on_grid(energy):
    return GRID.energies(energy, torch.float64)


def test_log_partition_of_a_gaussian():
    """The midpoint rule is exact to rounding on what is smooth and decays."""
    for variance in (0.3, 1.0):
        value = GRID.log_partition(on_grid(gaussian(variance)))
        assert value == pytest.approx(math.log(2 * math.pi * variance), abs=1e-12)


def test_divergence_of_two_gaussians():
    p, q = on_grid(gaussian(0.5)), on_grid(gaussian(1.0, 0.4))
    exact = 0.5 - 1 + math.log(2) + 0.4**2
    assert GRID.kl(-p, -q) == pytest.approx(exact, abs=1e-10)
    assert GRID.kl(-p, -p) == pytest.approx(0, abs=1e-12)


def test_total_variation_of_shifted_gaussians():
    p, q = (
        on_grid(gaussian(1.0)),
        on_grid(lambda x: gaussian(1.0)(x - x.new_tensor([1, 0]))),
    )
    exact = math.erf(0.5 / math.sqrt(2))
    # |p - q| has a kink: the midpoint rule errs by its step squared.
    assert GRID.total_variation(-p, -q) == pytest.approx(exact, abs=0.1**2)


def test_mass_in_a_half_plane():
    q = GRID.log_density(on_grid(gaussian(1.0)))
    right = (GRID.points[:, 0] > 0).reshape(180, 180)
    assert GRID.mass(q, right) == pytest.approx(0.5, abs=1e-12)


def test_points_and_histogram_agree_on_the_axes():
    points = torch.tensor([[0.25, 8.95], [0.25, 8.95], [-20.0, 0.0], [0.0, -8.99]])
    density = GRID.histogram(points)
    row = int(density[:, 92].argmax())
    assert (row, 92) == (179, 92)
    at = GRID.points.reshape(180, 180, 2)[179, 92]
    assert at.tolist() == pytest.approx([0.25, 8.95])
    # One of four points is off the grid: three quarters of the mass are seen.
    seen = density.exp().sum() * math.exp(GRID.log_cell)
    assert float(seen) == pytest.approx(0.75)


VARIANCES = (0.3, 0.6, 0.8)


def levels(x, level):
    table = x.new_tensor(VARIANCES)[level]
    return (x**2).sum(1) / (2 * table)


def exact_samples(n, seed):
    generator = make_generator(seed)
    widths = torch.tensor((*VARIANCES, 1.0), dtype=torch.float64).sqrt()
    noise = torch.randn(4, n, 2, dtype=torch.float64, generator=generator)
    return widths[:, None, None] * noise


def test_the_chain_of_ratios_is_right_within_its_error_bar():
    n = 40_000
    found = log_partition_chain(levels, exact_samples(n, 0))
    for t, estimate in enumerate(found.levels):
        exact = GRID.log_partition(on_grid(at_level(levels, t)))
        assert exact == pytest.approx(math.log(2 * math.pi * VARIANCES[t]), abs=1e-12)
        assert 0 < estimate.stderr < 0.02
        assert abs(estimate.value - exact) < 5 * estimate.stderr
    # Ratios of Gaussians: the effective sample size in closed form.
    for t, (v, above) in enumerate(zip(VARIANCES, (*VARIANCES[1:], 1.0), strict=True)):
        ratio = v / above
        assert found.effective[t] == pytest.approx(ratio * (2 - ratio), rel=0.05)


def two_heaps(x, level):
    """Energies that no forward chain connects, each with a constant of its own."""
    table = x.new_tensor(VARIANCES)[level]
    near = ((x + 0.7) ** 2).sum(1) / (2 * table)
    far = ((x - 0.9) ** 2).sum(1) / (2 * table) + 0.4 * level
    return -torch.logaddexp(-near, -far) + 3.0 - 2.0 * level


NOISE = NoiseLevels((0.5, 0.7, 1.0))


def test_particles_need_no_agreement_of_the_levels():
    found = log_partition_particles(
        two_heaps, NOISE, 2, generator=make_generator(0), n_particles=4000
    )
    for t, estimate in enumerate(found.levels):
        exact = GRID.log_partition(on_grid(at_level(two_heaps, t)))
        assert 0 < estimate.stderr < 0.01
        assert abs(estimate.value - exact) < 5 * estimate.stderr
    assert all(0 < share <= 1 for share in found.effective)


def test_particles_are_unbiased_where_they_are_few():
    """The mean of Z, of many runs of four particles, is Z, and not a bound on it."""
    found = log_partition_particles(
        two_heaps,
        NOISE,
        2,
        generator=make_generator(1),
        n_particles=4,
        n_starts=2,
        n_runs=1000,
    )
    exact = GRID.log_partition(on_grid(at_level(two_heaps, 0)))
    assert abs(found.levels[0].value - exact) < 5 * found.levels[0].stderr < 0.2
