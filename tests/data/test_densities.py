"""The seven densities: scales, samplers, log densities and entropies agree."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from ebmtut.data import (
    DENSITIES,
    DensityData,
    _log_densities,
    density_extent,
    density_log_prob,
    density_scale,
    differential_entropy,
    exact_entropy,
    sample_density,
)
from ebmtut.importance import Estimate
from ebmtut.random import make_generator
from ebmtut.states import gray_decode, gray_encode


def reference_draws(name: str, n: int, seed: int) -> np.ndarray:
    """Draws as the literature's code makes them, in its own order and stream."""
    rng = np.random.RandomState(seed)
    half = n // 2
    if name == "2spirals":
        turn = np.sqrt(rng.rand(half)) * 3 * np.pi
        x = -np.cos(turn) * turn + 0.5 * rng.rand(half)
        y = np.sin(turn) * turn + 0.5 * rng.rand(half)
        arm = np.stack([x, y], 1) / 3
        return np.concatenate([arm, -arm]) + 0.1 * rng.randn(n, 2)
    if name == "8gaussians":
        d = 1 / np.sqrt(2)
        centres = [(1, 0), (-1, 0), (0, 1), (0, -1), (d, d), (d, -d), (-d, d), (-d, -d)]
        points = []
        for _ in range(n):
            noise = 0.5 * rng.randn(2)
            points.append(4 * np.array(centres[rng.randint(8)]) + noise)
        return np.array(points, dtype=np.float32) / np.float32(1.414)
    if name == "pinwheel":
        f = rng.randn(n, 2) * [0.3, 0.1] + [1, 0]
        arm = np.repeat(np.linspace(0, 2 * np.pi, 5, endpoint=False), n // 5)
        angle = arm + 0.25 * np.exp(f[:, 0])
        turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)])
        return 2 * np.einsum("ti,tij->tj", f, turn.T.reshape(-1, 2, 2))
    if name == "checkerboard":
        x = rng.rand(n) * 4 - 2
        y = rng.rand(n) - 2 * rng.randint(0, 2, n) + np.floor(x) % 2
        return 2 * np.stack([x, y], 1)
    if name == "swissroll":
        turn = 1.5 * np.pi * (1 + 2 * rng.uniform(size=n))
        height = rng.uniform(size=n)  # drawn and thrown away
        roll = np.stack([turn * np.cos(turn), height, turn * np.sin(turn)])
        roll += rng.standard_normal(size=(3, n))
        return roll[[0, 2]].T.astype(np.float32) / 5
    ends = {"circles": 2 * np.pi, "moons": np.pi}[name]
    angle = np.linspace(0, ends, half, endpoint=name == "moons")
    first = np.stack([np.cos(angle), np.sin(angle)], 1)
    second = first / 2 if name == "circles" else np.array([1, 0.5]) - first
    order = np.arange(n)
    rng.shuffle(order)
    points = np.concatenate([first, second])[order]
    points += rng.normal(scale={"circles": 0.08, "moons": 0.1}[name], size=(n, 2))
    if name == "circles":
        return points.astype(np.float32) * 3
    return points.astype(np.float32) * 2 + np.array([-1, -0.2])


@pytest.mark.parametrize("name", DENSITIES)
def test_scale_is_that_of_the_reference_code(name: str) -> None:
    largest = float(np.abs(reference_draws(name, 5000, seed=1)).max())
    assert density_extent(name) == pytest.approx(largest + 1, rel=1e-12)
    assert density_scale(name) == pytest.approx(2**15 / (largest + 2), rel=1e-12)


@pytest.mark.parametrize("name", DENSITIES)
def test_reference_draws_follow_the_density(name: str) -> None:
    """Compare a histogram of the literature's samples with the density's cell masses.

    The literature's samples are stratified (fixed numbers per arm, even angles), so
    that counts vary less than multinomial ones, and the chi-square test with a
    one-sided bound stays valid.
    """
    draws = torch.from_numpy(reference_draws(name, 20_000, seed=2)).double()
    assert chi_square_p_value(name, draws) > 1e-4


@pytest.mark.parametrize("name", DENSITIES)
def test_samples_follow_the_density(name: str) -> None:
    draws = sample_density(name, 20_000, generator=make_generator(5))
    assert draws.shape == (20_000, 2)
    assert draws.dtype == torch.float64
    assert chi_square_p_value(name, draws) > 1e-4


def cell_masses(name: str, side: float, n_cells: int, fine: int) -> torch.Tensor:
    """Masses of n_cells**2 square cells by the midpoint rule on finer ones."""
    n = n_cells * fine
    centre = (torch.arange(n, dtype=torch.float64) + 0.5) * side / n - side / 2
    density = density_log_prob(name, torch.cartesian_prod(centre, centre)).exp()
    blocks = density.view(n_cells, fine, n_cells, fine).sum(dim=(1, 3))
    return blocks.flatten() * (side / n) ** 2


cached_masses = cache(cell_masses)


def chi_square_p_value(name: str, draws: torch.Tensor) -> float:
    # Cells of side 1/2: a square of the checkerboard is a union of them.
    side, n_cells = 12.0, 24
    cell = ((draws + side / 2) / (side / n_cells)).long()
    counts = torch.bincount(cell[:, 0] * n_cells + cell[:, 1], minlength=n_cells**2)
    expected = cached_masses(name, side, n_cells, 10) * len(draws)
    often = expected >= 5
    observed = torch.cat([counts[often], counts[~often].sum()[None]]).double()
    expected = torch.cat([expected[often], expected[~often].sum()[None]])
    if expected[-1] < 5:
        assert observed[-1] < 30
        observed, expected = observed[:-1], expected[:-1]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, len(observed) - 1))


def integrate(name: str, step: float) -> tuple[float, float]:
    """Total mass and differential entropy by the trapezoid rule."""
    side = torch.arange(-6.0, 6.0 + step / 2, step, dtype=torch.float64)
    log_p = density_log_prob(name, torch.cartesian_prod(side, side))
    p = log_p.exp()
    # Zero where p underflows, as the limit of p ln p.
    entropy = -torch.where(p > 0, p * log_p, 0.0).sum() * step**2
    return float(p.sum()) * step**2, float(entropy)


@pytest.mark.parametrize("name", [n for n in DENSITIES if n != "checkerboard"])
def test_entropy_is_the_integral(name: str) -> None:
    mass, entropy = integrate(name, step=0.05)
    assert mass == pytest.approx(1.0, abs=1e-7)
    assert differential_entropy(name) == pytest.approx(entropy, abs=2e-6)


def test_entropy_of_the_checkerboard_is_that_of_its_area() -> None:
    assert differential_entropy("checkerboard") == math.log(32)


@pytest.mark.parametrize("bits", [5, 6, 7])
def test_entropy_of_the_discretised_distribution_approaches_the_exact_one(bits):
    """At `bits` a coordinate, cell masses sum the density over finer cells.

    The gap between sum -P ln P and h + 2 ln(scale) is, to first order, half
    of the Fisher information's trace times side**2 / 12: it falls fourfold a
    bit, and at 16 bits is 2**-18 of that at 7.
    """
    scale = 2.0 ** (bits - 1) / 6.0  # cells of side 6 / 2**(bits - 1) on [-6, 6]
    mass = cell_masses("circles", 12.0, 2**bits, 2 ** (9 - bits))
    discrete = float(-torch.special.xlogy(mass, mass).sum())
    smooth = differential_entropy("circles") + 2 * math.log(scale)
    # Gaussians of variance 0.24**2 across each ring: information 1 / 0.24**2.
    first_order = 0.5 * (1 / scale) ** 2 / 12 / 0.24**2
    gap = discrete - smooth
    assert 0 < gap < 1.2 * first_order
    assert gap > 0.3 * first_order


def test_entropy_of_the_bits_counts_cells() -> None:
    for name in DENSITIES:
        expected = differential_entropy(name) + 2 * math.log(density_scale(name))
        assert exact_entropy(name) == pytest.approx(expected, abs=1e-12)
        assert exact_entropy(name) < 32 * math.log(2)


@pytest.mark.parametrize("name", ["2spirals", "moons", "swissroll"])
def test_quadrature_has_converged(name: str) -> None:
    distribution = {
        "2spirals": _log_densities._two_spirals,
        "moons": _log_densities._moons,
        "swissroll": _log_densities._swissroll,
    }[name]
    near = sample_density(name, 500, generator=make_generator(0))
    points = near + 0.3 * torch.randn(500, 2, generator=make_generator(1)).double()
    torch.testing.assert_close(
        distribution(points), distribution(points, n_nodes=1024), rtol=0, atol=1e-7
    )


def test_circles_agree_with_quadrature_on_the_circle() -> None:
    angle = 2 * math.pi * torch.arange(400, dtype=torch.float64) / 400
    ring = torch.stack([angle.cos(), angle.sin()], 1)
    centres = torch.cat([3.0 * ring, 1.5 * ring])
    points = 2.0 * torch.randn(200, 2, generator=make_generator(3)).double()
    weights = torch.full((800,), -math.log(800.0), dtype=torch.float64)
    mixture = _log_densities._gaussian_mixture(points, centres, weights, 0.24)
    torch.testing.assert_close(density_log_prob("circles", points), mixture)


def test_pinwheel_has_the_density_of_a_change_of_variables() -> None:
    """At one point far out on one arm the other arms and folds do not matter."""
    radial, tangential = torch.tensor([1.2], dtype=torch.float64), 0.05
    angle = 0.25 * radial.exp()
    x = radial * angle.cos() + tangential * angle.sin()
    y = tangential * angle.cos() - radial * angle.sin()
    point = 2.0 * torch.stack([x, y], 1)
    normal = stats.norm.logpdf(1.2, 1, 0.3) + stats.norm.logpdf(0.05, 0, 0.1)
    # The map's Jacobian is 1 + f1 exp(f0) / 4 in polar, hence Cartesian, area.
    stretch = 1 + 0.25 * 0.05 * math.exp(1.2)
    expected = normal - math.log(stretch) - math.log(5 * 4)
    assert float(density_log_prob("pinwheel", point)) == pytest.approx(expected)


@pytest.mark.parametrize("name", DENSITIES)
def test_bits_decode_to_the_points_cell(name: str) -> None:
    data = DensityData(name)
    bits = data.sample_bits(300, generator=make_generator(7), dtype=torch.float64)
    points = sample_density(name, 300, generator=make_generator(7))
    assert bits.shape == (300, data.n_sites)
    assert torch.equal(bits, gray_encode(points, data.scale))
    decoded = gray_decode(bits, data.scale)
    assert bool(((decoded - points).abs() * data.scale <= 1.0).all())
    assert data.entropy == exact_entropy(name)


@pytest.mark.parametrize("name", DENSITIES)
def test_the_kl_of_uniform_bits_is_what_they_have_more_entropy(name):
    data, log_z = DensityData(name), 32 * math.log(2)
    found = data.kl(
        lambda x: 0 * x.sum(1), Estimate(log_z, 0.3), 2000, generator=make_generator(0)
    )
    assert found.stderr >= 0.3 - 1e-12
    noise = math.sqrt(max(found.stderr**2 - 0.3**2, 0.0))
    assert abs(found.value - (log_z - data.entropy)) < 5 * noise + 1e-6


def test_the_kl_of_the_data_s_own_distribution_is_zero():
    data = DensityData("moons")

    def energy(x):
        points = gray_decode(x.double(), data.scale, center=True)
        return 2 * math.log(data.scale) - density_log_prob("moons", points)

    found = data.kl(energy, Estimate(0.0, 0.0), generator=make_generator(1))
    # A cell is flat here: its density varies by less than a thousandth.
    assert abs(found.value) < 1e-3
