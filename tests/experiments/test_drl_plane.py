"""Experiments of the plane: compared with exact answers, and a run of a few steps."""

import dataclasses
import math

import pytest
import torch

from ebmtut.data import density_log_prob, sample_density
from ebmtut.experiments import get_experiment
from ebmtut.experiments.drl import plane
from ebmtut.experiments.drl.checkerboard import level_table, squares
from ebmtut.random import make_generator, normal

TINY = {
    "n_steps": 3,
    "batch_size": 16,
    "n_starts": 2,
    "hidden": 8,
    "n_features": 4,
    "n_samples": 50,
}


def test_the_grid_holds_every_density():
    """Its mass on the grid is 1, as far as cells of 0.03 see sharp edges."""
    for density in ("checkerboard", "moons", "8gaussians"):
        mass = plane.exact_log_density(density).exp().sum() * math.exp(
            plane.PLANE.log_cell
        )
        assert float(mass) == pytest.approx(1, abs=0.02)


def test_the_truth_judges_itself_perfect():
    scores = plane.exact_row("checkerboard", 0, 500)
    assert scores == pytest.approx(
        {"kl": 0, "tv": 0, "on support": 1, "samples on support": 1}, abs=1e-12
    )


def test_the_null_is_the_gaussian_with_the_datas_moments():
    """KL to the Gaussian fit: its entropy less that of the data, ln 32."""
    data = (
        sample_density("checkerboard", 200_000, generator=make_generator(1))
        / plane.SCALE
    )
    fit = math.log(2 * math.pi * math.e) + float(data.T.cov().logdet()) / 2
    exact = fit - (math.log(32) - 2 * math.log(plane.SCALE))
    # What the fit has outside of the grid, and the edges of cells.
    found = plane.gaussian_fit("checkerboard", 0, 100)
    assert found["kl"] == pytest.approx(exact, abs=0.02)


def test_levels_that_are_exact_diverge_by_nothing_and_their_gaussian_by_the_nulls():
    row = get_experiment("drl/checkerboard")
    noise = plane.plane_noise("recovery, many starts", row.config("paper").plane)
    distributions = [
        plane.noised_log_density("checkerboard", noise, k)
        for k in range(noise.n_levels)
    ]
    arrays = {"density/recovery": torch.stack(distributions).numpy()}
    table = level_table(dataclasses.replace(row.stored(), arrays=arrays))
    _, _, exact, null = zip(*table.rows, strict=True)
    assert set(exact) == {"0.000"}
    found = plane.gaussian_fit("checkerboard", 0, 100)["kl"]
    # The fit has the moments of 20,000 draws; noise only makes the board rounder.
    assert float(null[0]) == pytest.approx(found, abs=0.02)
    assert sorted(map(float, null), reverse=True) == list(map(float, null))


@pytest.mark.parametrize("density", ["moons", "8gaussians"])
def test_what_score_matching_is_after_has_the_datas_moments_and_the_noises(density):
    """Of a x + s e with unit normal e: a^2 times the covariance, and s^2."""
    noise = plane.plane_noise("score matching")
    covariances = []
    for log_p in (
        plane.exact_log_density(density),
        plane.noised_log_density(density, noise),
    ):
        p = log_p.exp().flatten()
        p = p / p.sum()
        mean = p @ plane.PLANE.points
        centered = plane.PLANE.points - mean
        covariances.append(centered.T @ (p[:, None] * centered))
    clean, noisy = covariances
    want = noise.signals[0] ** 2 * clean + noise.noises[0] ** 2 * torch.eye(2)
    # A cell of 0.03 adds a twelfth of its square to both, and sees edges as it can.
    assert (noisy - want).abs().max() < 1e-3


def test_a_fiftieth_of_a_square_beside_the_board_counts():
    inside = torch.tensor([[-3.0, -3.0]]) / plane.SCALE
    assert density_log_prob("checkerboard", inside.double() * plane.SCALE) > -math.inf
    edge = torch.tensor([[-4.03, -3.0], [-4.05, -3.0], [-1.0, -3.0]]) / plane.SCALE
    assert plane.on_board(inside).tolist() == [True]
    assert plane.on_board(edge).tolist() == [True, False, False]


@pytest.mark.parametrize("method", plane.METHODS)
def test_a_run_of_three_steps_is_judged(method):
    outcome = plane.plane_job(method, "checkerboard", plane.PlaneConfig(**TINY), seed=0)
    n_levels = plane.plane_noise(method).n_levels
    assert outcome.arrays["density"].shape == (n_levels, 200, 200)
    # Three steps leave the Gaussian that training starts from, nearly.
    standard = -(plane.PLANE.points**2).sum(1).reshape(200, 200) / 2
    start = plane.PLANE.kl(plane.exact_log_density("checkerboard"), standard)
    assert outcome.scalars["kl"] == pytest.approx(start, abs=0.1)
    alone = plane.plane_job(
        method, "checkerboard", plane.PlaneConfig(**TINY), 0, partition=False
    )
    scores = {k for k in outcome.scalars if not k.startswith("log Z")}
    assert set(alone.scalars) == scores
    assert alone.scalars["kl"] == outcome.scalars["kl"]


def test_the_bias_of_the_chain_of_ratios_is_that_of_jensen():
    """One ratio of known weights: the bias is minus their variance over 2 n.

    Level 0 has variance v and white noise 1: the weights exp(x^2 (1 - 1 / v) / 2) of
    normal x have mean v^(1/2) and second moment (2 / v - 1)^(-1/2).
    """
    v = 0.5
    white = normal(torch.empty(2, 200_000, 1).double(), generator=make_generator(0))
    exact = 0.5 * math.log(2 * math.pi * v)
    rows = plane.partition_bias(
        lambda x, t: (x**2).sum(1) / (2 * v), white, exact, n_largest=12_500
    )
    assert rows[:, 0].tolist() == [16, 64, 256, 1024, 4096, 16384]
    spread = 1 / math.sqrt(2 / v - 1) / v - 1  # relative variance of a weight
    for size, mean, error in rows:
        rest = 2 * (spread / size) ** 2  # of the next order
        assert abs(mean + spread / (2 * size)) < 5 * error + rest
    # All rows share their samples: the bias is nearly all of what is between them. A
    # group's mean weight has the relative variance s = spread / size, half of its
    # square the standard deviation s / 2^(1/2).
    first, last = rows[0], rows[-1]
    bias = -spread / 2 * (1 / first[0] - 1 / last[0])
    error = spread / first[0] / math.sqrt(2 * 12_500)
    rest = 2 * (spread / first[0]) ** 2
    assert abs(first[1] - last[1] - bias) < 5 * error + rest < abs(bias) / 5


def test_the_squares_are_the_boards():
    """Eight squares of side 2, up to a cell of the grid."""
    found = torch.tensor(squares()) * plane.SCALE
    cell = plane.SCALE * 2 * plane.PLANE.extent / plane.PLANE.n
    assert found.shape == (8, 4)
    assert (found - (found / 2).round() * 2).abs().max() < cell
    assert (found[:, 1] - found[:, 0] - 2).abs().max() < 2 * cell
