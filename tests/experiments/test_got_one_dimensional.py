"""Gibbs-OT: problems with known answers, checks that can say no, and its tables."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.experiments import get_experiment
from ebmtut.experiments.got import coupling_1d, lines, pictures, temperature_bound
from ebmtut.experiments.got.coulomb import CoulombConfig, describe
from ebmtut.experiments.got.coupling_1d import methods_of
from ebmtut.experiments.got.gibbs_bands import BandsConfig, measure
from ebmtut.experiments.got.lines import bumps, points
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.random import make_generator
from ebmtut.results import Result, load_result
from ebmtut.transport import (
    GibbsOTResult,
    GibbsOTState,
    Martingale,
    constant_temperatures,
    dual_value,
    exact_ot,
    sinkhorn,
    sinkhorn_oracle,
)

BANDS, COUPLING, COULOMB, BOUND = (
    get_experiment(f"got/{row}")
    for row in ("gibbs-bands", "coupling-1d", "coulomb", "temperature-bound")
)
SMALL = coupling_1d.CouplingConfig(
    n_points=16, budgets=(1, 30, 1000), n_seeds=2, temperatures=()
)
SMALL_BOUND = temperature_bound.TemperatureBoundConfig(
    n_points=16,
    n_iterations=40,
    n_long=2000,
    budgets=(20, 100),
    fractions=(0.5,),
    chain_points=6,
    chain_iterations=5,
    n_chains=500,
)


def test_masses_have_the_modes_that_were_asked_for():
    x = lines.points(100)
    mass = lines.bumps(x, [(0.25, 0.2, 0.02), (0.75, 0.7, 0.04)], floor=0)
    assert mass.sum().item() == pytest.approx(1, abs=1e-12)
    left = x < 0.45
    assert mass[left].sum().item() == pytest.approx(0.25, abs=1e-6)
    mean = (mass * x)[left].sum() / mass[left].sum()
    assert mean.item() == pytest.approx(0.2, abs=1e-6)
    floored = lines.bumps(x, [(1.0, 0.5, 0.01)], floor=0.1)
    assert floored.min().item() == pytest.approx(0.1 / 100 / 1.1, rel=1e-9)


def test_two_electrons_are_half_a_line_apart():
    _, p, q, cost = lines.uniform_coulomb(32)
    solved = exact_ot(p, q, cost)
    assert solved.value == pytest.approx(2, abs=1e-12)
    shift = torch.eye(32, dtype=torch.float64).roll(16, 0) / 32
    assert lines.distance(solved.plan, shift) < 1e-12
    assert describe(shift) == {
        "l1": pytest.approx(0, abs=1e-12),
        "near": pytest.approx(1),
        "boundary": pytest.approx(1),
        "mass": pytest.approx(1),
        "bad": 0,
    }


def test_crowded_ends_are_told_from_even_couplings():
    _, p, _, _ = lines.uniform_coulomb(64)
    i = torch.arange(64)
    shift = torch.eye(64, dtype=torch.float64).roll(32, 0) / 64
    end = ((i < 4) | (i >= 60) | ((i >= 28) & (i < 36)))[:, None]
    spread = torch.where(end, shift, (shift + shift.roll(1, 1)) / 2)
    assert describe(spread)["boundary"] == pytest.approx(2)
    broken = shift.clone()
    broken[3, 35] = math.nan
    assert describe(broken)["bad"] == 1
    assert describe(torch.outer(p, p))["near"] == pytest.approx(320 / 4096)


def test_a_repaired_exact_plan_costs_nothing_extra():
    problem = lines.two_modes(16)
    exact = exact_ot(*problem[1:])
    numbers = coupling_1d.evaluate(exact.plan, problem, exact)
    assert all(abs(value) < 1e-9 for value in numbers.values())
    product = torch.outer(problem.p, problem.q)
    assert coupling_1d.evaluate(product, problem, exact)["excess"] > 0.1


def test_entropic_potentials_are_those_of_the_projections():
    _, p, q, cost = lines.two_modes(16)
    plan = sinkhorn(p, q, cost, 0.1, 7)
    # All entries are positive here: potentials can be read off the coupling.
    g = 0.1 * plan[:, 0].log() + cost[:, 0]
    found, *_ = sinkhorn_oracle(0.1, 7)(p, q, cost)
    assert float(found) == pytest.approx(dual_value(p, q, cost, g=g).item(), abs=1e-9)
    assert sinkhorn_oracle(0.1, 2)(p, q, cost)[0] <= exact_ot(p, q, cost).value


def test_bands_hold_95_percent_and_the_check_can_say_no():
    config = BandsConfig(n_points=64, n_seeds=10)
    result = BANDS.run(config, seed=3)
    table = result.scalars["table"]
    inside = np.mean([cell["inside"] for cell in table.values()])
    n = 2 * 64 * 10 * 3
    assert abs(inside - 0.95) < 5 * math.sqrt(0.95 * 0.05 / n)
    assert max(table["60"]["dual"]) <= 1e-12
    check = BANDS.check
    assert [v.verdict for v in check(result)] == ["match"] * 3
    table["60"]["gap"] = table["20"]["gap"]
    table["60"]["range"] = [100.0] * 10
    assert [v.verdict for v in check(result)] == ["match", "miss", "miss"]


def test_a_snapshot_tells_what_it_sees():
    """Half of the samples are a hundredth off their limits, half two."""
    problem = lines.two_modes(4)
    _, p, q, _ = problem
    gap = torch.tensor([0.01, 0.02], dtype=torch.float64).repeat(2)
    limit = torch.tensor([0.1, 0.2, 0.3, -0.4], dtype=torch.float64)
    state = GibbsOTState(limit - gap, limit + gap)
    exact = exact_ot(*problem[1:]).value
    cold = -0.015 * float(p.max()) / math.log(0.05)
    seen = measure(GibbsOTResult(state, limit, limit), problem, exact, cold)
    assert seen["gap"] == pytest.approx(0.02)
    reach = 0.015 * p.max() / torch.cat([p, q])
    assert seen["inside"] == float((gap.repeat(2) <= reach).double().mean())
    assert seen["range"] == pytest.approx(0.4)


def test_splitting_a_run_at_snapshots_changes_nothing():
    one = BANDS.run(BandsConfig(n_points=16, snapshots=(60,)), seed=1)
    three = BANDS.run(BandsConfig(n_points=16), seed=1)
    assert np.array_equal(one.arrays["60/U"], three.arrays["60/U"])


def test_first_stop_is_the_first():
    values = torch.tensor([1.0, 2.0, 3.0])
    assert coupling_1d.first_stop(values, [False, True, True]) == (2, 2.0)
    assert coupling_1d.first_stop(values, [False] * 3) == (3, 3.0)


def test_paper_s_rule_stops_before_the_dual_value_has_settled():
    problem = lines.two_modes(32)
    optimum = exact_ot(*problem[1:]).value
    cell = coupling_1d.stopping_table(problem, optimum, (0.1,), 3, 0)["0.1"]
    assert max(cell["mixed_at"]) < min(cell["settled_at"])
    assert np.mean(cell["mixed_error"]) > 3 * np.mean(cell["settled_error"])
    # A certificate says at least what is missing.
    for gap, error in zip(cell["settled_gap"], cell["settled_error"], strict=True):
        assert gap >= error
    # V lies above the cost at equilibrium: it is no bound.
    assert min(cell["overshoot"]) > 0


def test_coupling_table_has_what_the_check_needs():
    result = COUPLING.run(SMALL, seed=0)
    table = result.scalars["table"]
    assert list(table)[:4] == ["IBP, 0.1/N", "IBP, 0.5/N", "IBP, 2/N", "B-ADMM"]
    cell = table["Gibbs-OT, power 2"]["1000"]
    assert max(cell["dual"]) < 1e-3
    assert min(cell["dual"]) > -1e-12
    assert len(cell["l1"]) == 2
    assert len(table["B-ADMM"]["30"]["l1"]) == 1
    verdicts = list(COUPLING.check(result))
    assert [v.verdict for v in verdicts] == ["match"] * 3
    table["Gibbs-OT, power 2"]["1000"]["l1"] = [2.0, 2.0]
    table["Gibbs-OT, power 2"]["1000"]["dual"] = [0.0, 0.006]
    verdicts = list(COUPLING.check(result))
    assert [v.verdict for v in verdicts] == ["miss", "match", "miss"]


def test_coulomb_is_recovered_and_the_entropic_kernel_breaks():
    config = CoulombConfig(n_points=32, budgets=(10, 2000), epsilons=(0.5, 0.05))
    result = COULOMB.run(config, seed=0)
    table = result.scalars["table"]
    assert table["Gibbs-OT"]["2000"]["near"][0] > 0.99
    assert abs(table["Gibbs-OT"]["2000"]["dual"][0]) < 1e-3
    assert table["entropic, 0.05/N"]["2000"]["mass"][0] < 0.99
    with pytest.raises(InputError, match="even"):
        CoulombConfig(n_points=33)


def test_bound_is_the_temperature_at_equilibrium():
    problem = lines.two_modes(16)
    T = 0.1
    bounds = temperature_bound.bounds_along(
        problem, constant_temperatures(T, 6000), every=10, generator=make_generator(0)
    )[100:]
    # Batches of 50 evaluations are next to independent.
    batches = bounds.view(10, 50).mean(1)
    error = batches.std() / 10**0.5
    assert abs(batches.mean() - T) < 5 * error


def test_tails_count_what_they_say():
    r = torch.tensor([[0.0, 0.1, -1.0], [0.0, 0.1, 0.2]], dtype=torch.float64)
    ones = torch.ones_like(r)
    found = temperature_bound.tails(
        Martingale(V=r, r=r, bound=r, c=ones, d=0 * ones),
        torch.tensor([0.3, 0.4, 0.5], dtype=torch.float64),
        n_largest=2,
        epsilon=0.01,
    )
    assert found["K"][-1] == pytest.approx(3 * 0.5)  # sqrt(0.3^2 + 0.4^2)
    at_half = np.searchsorted(found["K"], 0.5 - 1e-12)
    assert found["below"][at_half] == 0.5
    assert found["below_bound"][at_half] == pytest.approx(math.exp(-0.5))
    assert found["above"][0] == 0.5
    assert float(found["gamma"]) == pytest.approx(math.log(3 * 2 / 0.01))


def test_martingale_keeps_its_mean_and_its_bounds():
    result = BOUND.run(SMALL_BOUND, seed=0)
    check = BOUND.check
    # A run's mean bound over T has a standard deviation of 0.02.
    assert [v.verdict for v in check(result)] == ["match"] * 4
    z = result.arrays
    wrong = {
        "below": np.ones_like(z["below"]),
        "above": z["above"] + 2 * z["above_bound"],
    }
    scalars = result.scalars | {"equilibrium": [1.2, 1.1], "drift": 6.0}
    broken = replace(result, scalars=scalars, arrays=z | wrong)
    assert [v.verdict for v in check(broken)] == ["miss"] * 4
    assert set(result.scalars["table"]) == {"followed, 0.5", "geometric"}


RESULTS = Path(__file__).parents[2] / "results"


def stored(name):
    return load_result(f"got/{name}", "full", RESULTS)


def number(cell):
    return float(cell.split(" ± ")[0].replace("−", "-"))


def test_a_row_per_budget_and_a_column_per_method():
    result = stored("coupling-1d")
    methods = methods_of(result.config)
    assert [m.key for m in methods] == [*result.scalars["table"]]
    table = pictures.budgets_table(result, methods, "dual", percent=True)
    # Bregman ADMM has no dual value to offer.
    shown = [m for m in methods if m.solver != "B-ADMM"]
    assert [*table.heads] == ["iterations", *(m.label for m in shown)]
    for row in table.rows:
        for method, cell in zip(shown, row[1:], strict=True):
            mean = 100 * np.mean(result.scalars["table"][method.key][row[0]]["dual"])
            assert number(cell) == pytest.approx(mean, rel=0.06)
            assert (" ± " in cell) == (method.solver == "Gibbs-OT")


def test_the_page_compares_what_is_stored():
    """Sentences of "Solvers on a line" that no output of the page holds."""
    table = stored("coupling-1d").scalars["table"]
    gibbs = table["Gibbs-OT, power 2"]
    epsilons = [row for name, row in table.items() if name.startswith("IBP")]
    for n, sign in (("200", 0), ("1000", 0), ("5000", -1)):
        mean, error = mean_and_stderr(gibbs[n]["dual"])
        off = (mean - min(row[n]["dual"][0] for row in epsilons)) / error
        assert abs(off) < 2 if sign == 0 else off * sign > 2
    assert max(gibbs["200"]["dual"]) == pytest.approx(0.009, abs=5e-4)
    assert np.mean(gibbs["200"]["excess"]) == pytest.approx(0.12, abs=5e-3)
    cheap = table["IBP, 0.5/N"]["200"]["excess"][0]
    assert cheap < np.mean(gibbs["5000"]["excess"])


def test_bands_are_means_over_the_chains():
    result = stored("gibbs-bands")
    for row, cell in zip(
        pictures.bands_table(result).rows, result.scalars["table"].values(), strict=True
    ):
        assert number(row[1]) == pytest.approx(100 * np.mean(cell["inside"]), rel=0.01)


def test_the_barycentre_of_shifted_copies_is_one_more_copy():
    x = points(100)
    given = torch.stack([bumps(x, [(1, m, 0.03)], floor=0) for m in (0.2, 0.3, 0.7)])
    known = pictures.quantile_barycentre(x, given)
    expected = bumps(x, [(1, 0.4, 0.03)], floor=0)
    # Quantiles are the centres of cells: their mean is off by a cell at most.
    assert (known.cumsum(0)[1:] - expected.cumsum(0)[:-1]).min() > -1e-3
    assert (expected.cumsum(0)[1:] - known.cumsum(0)[:-1]).min() > -1e-3


def test_costs_of_images_are_roots_in_pixels():
    faces = stored("wnmf-faces")
    methods = faces.scalars["methods"].values()
    costs = [number(row[1]) for row in pictures.shapes_table(faces).rows]
    assert costs == pytest.approx([1e3 * m["cost"] for m in methods], rel=0.02)
    # A mean squared distance in units of the side, which has 64 pixels.
    pixels = [number(row[1]) for row in pictures.factors_table({"faces": faces}).rows]
    assert pixels == pytest.approx([64 * m["cost"] ** 0.5 for m in methods], rel=0.02)


def test_the_study_of_oracles_is_drawn_by_its_own_numbers():
    """Seconds are epochs times the median epoch, costs are roots of means."""
    table = {"exact": {"2": {"epoch_seconds": [3.0, 1.0], "cost": [4.0, 9.0]}}}
    study = Result("got/oracles", "full", {}, {"table": table})
    (row,) = pictures.oracle_points(study)["exact"]
    assert row == pytest.approx([2, 4, 2.5, 0.5])
