"""Scores against the exact distributions of a torus: of samples and of weights."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from ebmtut.energies import LatticeIsing
from ebmtut.exact import exact_probabilities, torus_correlations
from ebmtut.experiments import get_experiment
from ebmtut.experiments.dnfs import lattices
from ebmtut.random import make_generator
from ebmtut.results import benchmarks_root
from ebmtut.states import enumerate_states
from studies.dnfs.competing import COMPETING

SIGMA = 0.15


def states_of_four():
    """All states of 4 x 4 sites, and their exact log-probabilities."""
    x = enumerate_states(16).float()
    return x, exact_probabilities(LatticeIsing(4, SIGMA), 16)


def test_all_states_by_their_weights_have_no_distance():
    x, log_p = states_of_four()
    energies = LatticeIsing(4, SIGMA)(x).numpy()
    distribution = lattices.energy_distribution(4, SIGMA)
    # Single precision of some sixteen nats.
    assert lattices.distribution_distance(energies, distribution, log_p.numpy()) < 1e-4
    # Without weights the states are those of sigma = 0, whose mean energy is 0.
    shift = -float(distribution.levels @ distribution.chances)
    assert lattices.distribution_distance(energies, distribution) >= shift - 1e-4


def test_a_shift_is_its_distance():
    distribution = lattices.energy_distribution(6, SIGMA)
    rows = np.repeat(
        distribution.levels, (1e5 * distribution.chances).round().astype(int)
    )
    assert lattices.distribution_distance(rows + 0.7, distribution) == pytest.approx(
        0.7, abs=0.01
    )


def test_the_distance_of_exact_draws_falls_with_their_root():
    distribution = lattices.energy_distribution(10, 0.1)
    few, spread = lattices.drawn_distances(
        distribution, 500, generator=make_generator(0)
    )
    many, _ = lattices.drawn_distances(distribution, 8000, generator=make_generator(1))
    # Five standard errors of the ratio of two means of 200 sets of one relative spread.
    noise = (2 / 200) ** 0.5 * spread / few
    assert few / many == pytest.approx(4, rel=5 * noise)


def test_products_by_exact_weights_are_the_exact_correlations():
    x, log_p = states_of_four()
    found = log_p.exp().double() @ lattices.pair_products(x, 4).double()
    want = torus_correlations(4, 4, 2 * SIGMA)[1:]
    assert found.tolist() == pytest.approx(want.tolist(), abs=1e-5)


def test_errors_of_products_cover_the_truth():
    generator = make_generator(3)
    x = torch.randint(2, (20_000, 36), generator=generator).float()
    found = lattices.pair_products(x, 6)
    # Of independent spins: mean 0, variance 1 / 72 at short distances; five errors.
    noise = found.std(0) / math.sqrt(len(x))
    assert (found.mean(0).abs() < 5 * noise).all()
    assert found[:, 0].var() == pytest.approx(1 / 72, rel=0.1)


def test_competing_methods_stand_beside_their_baselines():
    trainings = (
        ("GFlowNet", 0.1, 0),
        ("GFlowNet", 0.1, 120),
        ("LEAPS, leConv", 0.1, 3),
    )
    study = COMPETING.run("quick", trainings=trainings, n_seeds=1)
    table = study.scalars["table"]
    (bare,), (learned,) = table["GFlowNet, untrained"], table["GFlowNet"]
    assert "train cpu s" not in table["GFlowNet, untrained"][bare]
    before, after = table["GFlowNet, untrained"][bare], table["GFlowNet"][learned]
    # Weights of its ways are right in the mean, whatever the policy.
    for cell in (before, after):
        assert abs(cell["log Z error"][0]) < 5 * cell["log Z stderr"][0] + 0.1
    assert after["ESS"][0] > 2 * before["ESS"][0]
    assert len(study.arrays["losses/GFlowNet/4x4, 0.1"]) == 120
    assert table["LEAPS, leConv"][learned]["clipped share"][0] == 0
    plt.close(COMPETING.figure(study))


def test_what_the_page_says_of_competing_methods_is_stored():
    row = get_experiment("dnfs/ising").stored()
    study = COMPETING.stored(benchmarks_root())
    near, critical = "10x10, 0.1", "10x10, critical"
    table = study.scalars["table"]
    leaps, lost = table["LEAPS, leConv"][near], table["paper, leConv"][critical]
    assert len(leaps["ESS"]) == len(lost["ESS"]) == study.config["n_seeds"] == 2
    assert min(leaps["ESS"]) > 0.99
    assert max(map(abs, leaps["log Z error"])) < 0.005
    assert max(lost["ESS"]) < 0.1
    exact = row.scalars["exact"][critical]["energy"]
    assert min(lost["energy"]) < 1.2 * exact and max(lost["energy"]) > 0.8 * exact
    after, before = (
        table[name][near]["energy"] for name in ("GFlowNet", "GFlowNet, untrained")
    )
    assert max(abs(energy - before[0]) for energy in after) < 0.5
    assert not any(leaps["clipped share"] + lost["clipped share"])
