"""Lattices: by enumeration, baselines run by run, chains, and hollow networks."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from ebmtut.energies import LatticeIsing
from ebmtut.exact import exact_probabilities, lattice_log_partition, torus_correlations
from ebmtut.experiments import get_experiment
from ebmtut.experiments.dnfs import lattices
from ebmtut.experiments.dnfs.hollow import (
    draw_influences,
    draw_xi,
    exact_weights,
    influences,
)
from ebmtut.experiments.dnfs.lattice_tables import (
    draw_log_z,
    drawn_each_way,
    effective_fraction,
    log_z_table,
    seconds_table,
    with_baselines,
)
from ebmtut.experiments.dnfs.recipes import BASELINES
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.flows import Flow, HollowMLP, OddLatticeNetwork
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import benchmarks_root
from ebmtut.states import enumerate_states
from studies.dnfs.baselines import MANY_BASELINES
from studies.dnfs.competing import COMPETING
from studies.dnfs.enumerated import ENUMERATED
from tests.flows.systems import independence_metropolis


@pytest.fixture(scope="module")
def small():
    return ENUMERATED.run("quick")


def test_the_sum_over_all_states_is_the_truth_and_ours_is_near_it(small):
    lattice = "3x3, 0.1"
    exact = small.scalars["exact"][lattice]
    assert exact["log Z"] == pytest.approx(lattice_log_partition(3, 0.1), abs=1e-5)
    x = enumerate_states(9).float()
    p = exact_probabilities(LatticeIsing(3, 0.1), 9).exp()
    s = (2 * x - 1).unflatten(1, (3, 3))
    beside = float(p @ (s * s.roll(1, dims=1)).mean((1, 2)).double())
    assert exact["products"] == [pytest.approx(beside, abs=1e-6)]
    assert exact["energy"] == pytest.approx(-0.2 * 18 * beside, abs=1e-5)
    assert exact["marginals"] == pytest.approx([0.5] * 9, abs=1e-6)
    ours, bare = (small.scalars["table"][m][lattice] for m in ("ours", "untrained"))
    assert ours["exceeded"] == bare["exceeded"] == [0]
    for way in ("in steps", "exactly"):
        off = [abs(cell[way][0]["log Z"] - exact["log Z"]) for cell in (ours, bare)]
        # ESS is above 0.9: 300 weights leave log Z a standard error of 0.02 at most.
        assert off[0] < 5 * 0.02
        assert off[0] < off[1] / 3


def test_what_the_page_shows_of_small_lattices_and_nulls_is_stored():
    found = ENUMERATED.stored(benchmarks_root())
    assert set(found.scalars["exact"]) == {"4x4, critical", "5x5, critical"}
    for lattice, known in found.scalars["exact"].items():
        for run in found.scalars["table"]["ours"][lattice]["exactly"]:
            assert abs(run["log Z"] - known["log Z"]) < 5 * run["log Z stderr"] < 0.02
            assert abs(run["energy"] / known["energy"] - 1) < 0.01
            off = np.subtract(run["products"], known["products"])
            assert np.abs(off).max() < 0.01
    baselines = MANY_BASELINES.stored(benchmarks_root())
    row = get_experiment("dnfs/ising").stored()
    both = with_baselines(row, baselines)
    for column in row.scalars["exact"]:
        for name in BASELINES:
            n = 4 if name == "untrained" else 32
            assert len(both.scalars["table"][name][column]["ESS"]) == n
    # Where weights need no resampling, SMC is AIS.
    ais, smc = (
        np.array(both.scalars["table"][name]["10x10, 0.1"]["ESS"])
        for name in ("AIS", "SMC")
    )
    stderr = math.hypot(ais.std(ddof=1), smc.std(ddof=1)) / math.sqrt(32)
    assert abs(ais.mean() - smc.mean()) < 5 * stderr
    lines = {r[0]: r for r in seconds_table(both, "10x10, critical").rows}
    assert float(lines["SMC"][3]) > 10 * float(lines["flow, 64 steps"][3])
    # For one estimate of log Z the flow is ahead at 0.1 only, its training included.
    seconds = {}
    for column in row.scalars["exact"]:
        rows = log_z_table(both, column).rows
        seconds[column] = {line[0]: float(line[4]) for line in rows}
    flow = "flow with sweeps"
    assert min(seconds["10x10, 0.1"], key=seconds["10x10, 0.1"].get) == flow
    critical = seconds["10x10, critical"]
    assert critical["AIS ×16"] < critical["AIS ×4"] < critical[flow]
    assert 3 < critical[flow] / critical["AIS ×16"] < 4


def test_seconds_to_an_error_of_log_z_grow_with_its_square():
    row = get_experiment("dnfs/ising").stored()
    both = with_baselines(row, MANY_BASELINES.stored(benchmarks_root()))
    column = "10x10, critical"
    cell = both.scalars["table"]["AIS x4"][column]
    before = float(log_z_table(both, column).rows[2][4])
    cell["log Z error"] = [3 * error for error in cell["log Z error"]]
    after = float(log_z_table(both, column).rows[2][4])
    assert after == pytest.approx(9 * before, rel=0.05)
    figure = draw_log_z(both, column)
    points = [line for line in figure.axes[0].lines if line.get_marker() in "os"]
    drawn = {float(f"{point.get_ydata()[0]:.2g}") for point in points}
    assert drawn == {float(row[3]) for row in log_z_table(both, column).rows}
    plt.close(figure)


def test_exact_draws_are_worth_what_they_are_and_copies_less():
    distribution = lattices.energy_distribution(4, 0.1)
    chances = torch.from_numpy(distribution.chances)
    levels = torch.from_numpy(distribution.levels)
    drawn = torch.multinomial(chances, 400 * 100, True, generator=make_generator(0))
    means = levels[drawn].unflatten(0, (400, 100)).mean(1)
    # A mean of 400 squares: relative error sqrt(2 / 400), five of them.
    noise = 5 * math.sqrt(2 / 400)
    assert effective_fraction(means.tolist(), distribution, 100) == pytest.approx(
        1, rel=noise
    )
    # Each draw four times over.
    assert effective_fraction(means.tolist(), distribution, 400) == pytest.approx(
        0.25, rel=noise
    )
    two = lattices.EnergyDistribution(
        distribution.levels[:2], distribution.chances[:2] * 0 + 0.5
    )
    mean = float(two.levels.mean())
    away = [mean + 1, mean - 1]
    variance = float(two.levels.var())
    assert effective_fraction(away, two, 10) == pytest.approx(variance / 10)


def test_a_chain_of_proposals_has_the_exact_energy():
    path = AnnealingPath(LatticeIsing(4, 0.1))
    flow = Flow(path, OddLatticeNetwork(4, generator=make_generator(0)))
    bound = lattices.rate_bound(flow, 8, generator=make_generator(0))
    stepped, run = drawn_each_way(flow, (2, 4), 2000, bound=bound, seed=1)
    assert list(stepped) == ["2 steps", "4 steps"]
    assert all(found.chain_log_weights is not None for found in stepped.values())
    held = independence_metropolis(run.log_weights, generator=make_generator(2))
    assert float((held[1:] != held[:-1]).double().mean()) < 0.9
    energy = path.target(run.x).double()
    distribution = exact_probabilities(path.target, 16).exp()
    exact = float(distribution @ path.target(enumerate_states(16).float()).double())
    parts = [float(part.mean()) for part in energy[held].tensor_split(10)]
    chain, noise = mean_and_stderr(parts)
    assert abs(chain - exact) < 5 * noise
    proposed = float(energy.mean()), float(energy.std()) / len(energy) ** 0.5
    assert abs(proposed[0] - exact) > 5 * proposed[1]


SIGMA = 0.15


def states_of_four():
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


PAIR = AnnealingPath(lambda x: -(2 * x - 1).prod(1), 2)


class TwoSpins(torch.nn.Module):
    def __init__(self, strength):
        super().__init__()
        self.strength = strength

    def forward(self, x, t):
        return -self.strength * (2 * x - 1).prod(1, keepdim=True).expand_as(x)


class Leaky(torch.nn.Module):
    """Adds a number of the site's own state to a hollow network."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, t):
        return self.network(x, t) + 0.5 * x


def hollow(d):
    return HollowMLP(d, width=4, generator=make_generator(1))


def test_a_perfect_flow_has_equal_weights():
    found = exact_weights(Flow(PAIR, TwoSpins(1.0)))
    assert found == pytest.approx((0, 1, 0), abs=1e-5)


@pytest.mark.parametrize("rates", ["reversible", "one_way"])
def test_any_locally_equivariant_network_has_the_right_log_z(rates):
    path = AnnealingPath(LatticeIsing(3, 0.1))
    found = exact_weights(Flow(path, hollow(9), rates=rates), 32)
    # The rates are float32; Runge-Kutta steps of 1 / 32 err by (rate / 32)^4, where the
    # rates of a state add up to a few.
    assert found.stein_mean == pytest.approx(0, abs=1e-5)
    assert found.log_z_error == pytest.approx(0, abs=2e-3)
    assert 0 < found.ess < 0.99


def test_a_leak_shows_in_the_stein_mean_and_in_log_z():
    path = AnnealingPath(LatticeIsing(3, 0.1))
    found = exact_weights(Flow(path, Leaky(hollow(9))), 32)
    assert abs(found.stein_mean) > 0.1
    assert abs(found.log_z_error) > 0.1


def test_influences_of_a_hollow_network_have_a_white_diagonal():
    x = torch.randint(2, (16, 9), generator=make_generator(2)).float()
    t = torch.rand(16, generator=make_generator(3))
    found = influences(hollow(9), x, t)
    assert found.diagonal().max() < 1e-6 < found.max()
    assert influences(Leaky(hollow(9)), x, t).diagonal().min() > 0.1
    figure = draw_influences({"a": hollow(9), "b": Leaky(hollow(9))}, x, t)
    *panels, bar = figure.axes
    assert [ax.get_title() for ax in panels] == ["a", "b"]
    assert bar.get_xlim() == (0, 1)


def test_xi_of_two_spins_differs_between_states_at_half_rates_only():
    ax = draw_xi(PAIR, TwoSpins(1.0)).axes[0]
    agree, disagree, *right = (torch.as_tensor(line.get_ydata()) for line in ax.lines)
    for t, *found in zip(torch.linspace(0, 1, 51), *right, strict=True):
        for x, value in zip(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), found, strict=True):
            xi = Flow(PAIR, TwoSpins(1.0)).terms(x[None], float(t)).xi
            assert float(value) == pytest.approx(float(xi), abs=1e-6)
            assert float(value) == pytest.approx(float(t.tanh()), abs=1e-6)
    # At half rates xi is (tanh t - E) / 2, and E differs by 2.
    torch.testing.assert_close(agree - disagree, torch.ones(51))
