"""The chapter's tables say what the stored results hold."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ebmtut.experiments.got.barycentre import barycentre_table, quantile_barycentre
from ebmtut.experiments.got.coupling_1d import budgets_table, stops_table
from ebmtut.experiments.got.gibbs_bands import bands_table
from ebmtut.experiments.got.lines import bumps, points, two_modes
from ebmtut.experiments.got.martingale_tails import tails_table
from ebmtut.experiments.got.stopping import levels_table, plans_table
from ebmtut.experiments.got.temperature_bound import looks_table
from ebmtut.experiments.got.three_heaps import schedules_table, shares_table
from ebmtut.experiments.got.timing import timing_table
from ebmtut.experiments.got.wnmf_measures import ImagesConfig, load_measures
from ebmtut.experiments.got.wnmf_reports import epochs_table, factors_table
from ebmtut.experiments.got.wnmf_trials import memberships_table, rounds_table
from ebmtut.results import Result, load_result
from ebmtut.transport import GibbsOTTrace, Plan, WNMFConfig

RESULTS = Path(__file__).parents[2] / "results"


def stored(name: str) -> Result:
    return load_result(f"got/{name}", "full", RESULTS)


def number(cell: str) -> float:
    return float(cell.split(" ± ")[0].replace("−", "-"))


def test_a_budget_a_row_and_a_method_a_column() -> None:
    result = stored("coupling-1d")
    table = budgets_table(result, "dual", percent=True)
    methods = result.scalars["table"]
    # Ours first, where a phone shows it; Bregman ADMM has no dual value to offer.
    heads = {
        "k = 2": "Gibbs-OT, power 2",
        "k = 4": "Gibbs-OT, power 4",
        "ε = 0.1/N": "IBP, 0.1/N",
        "ε = 0.5/N": "IBP, 0.5/N",
        "ε = 2/N": "IBP, 2/N",
    }
    assert [head.removeprefix("Gibbs-OT, ") for head in table.heads[1:]] == [*heads]
    for row in table.rows:
        for name, cell in zip(heads.values(), row[1:], strict=True):
            mean = 100 * np.mean(methods[name][row[0]]["dual"])
            assert number(cell) == pytest.approx(mean, rel=0.06)
            assert (" ± " in cell) == name.startswith("Gibbs-OT")


def test_a_schedule_a_row_and_a_budget_a_column() -> None:
    def lack(schedule: torch.Tensor) -> torch.Tensor:
        return schedule.sum() * torch.tensor([0.01, 0.02, 0.04])

    table = schedules_table(lack, {"ones": torch.ones, "none": torch.zeros}, (1, 3))
    assert table.heads == ("iterations", "1", "3")
    assert [*table.rows] == [
        ("ones", "2.00 / 4", "6.00 / 12"),
        ("none", *["0.00 / 0"] * 2),
    ]


def test_shares_are_means_over_the_chains() -> None:
    shares = torch.tensor([[0.2, 0.8], [0.4, 0.6]]).double()
    table = shares_table({"9": shares}, torch.tensor([0.3, 0.7]).double())
    assert table.heads == ("iterations", "hole 1", "hole 2")
    assert [*table.rows] == [
        ("9", "0.30 ± 0.10", "0.70 ± 0.10"),
        ("in the law", "0.3", "0.7"),
    ]


def test_bands_are_means_over_the_chains() -> None:
    result = stored("gibbs-bands")
    for row, cell in zip(
        bands_table(result).rows, result.scalars["table"].values(), strict=True
    ):
        assert number(row[1]) == pytest.approx(100 * np.mean(cell["inside"]), rel=0.01)


def test_the_barycentre_of_shifted_copies_is_one_more_copy() -> None:
    x = points(100)
    laws = torch.stack([bumps(x, [(1, m, 0.03)], floor=0) for m in (0.2, 0.3, 0.7)])
    known = quantile_barycentre(x, laws)
    expected = bumps(x, [(1, 0.4, 0.03)], floor=0)
    # Quantiles are the centres of cells: their mean is off by a cell at most.
    assert (known.cumsum(0)[1:] - expected.cumsum(0)[:-1]).min() > -1e-3
    assert (expected.cumsum(0)[1:] - known.cumsum(0)[:-1]).min() > -1e-3
    table = barycentre_table(x, laws, laws[1])
    means = [number(row[1]) for row in table.rows]
    assert means == pytest.approx([0.3, 0.5, 0.4, 0.4], abs=6e-3)
    costs = [number(row[3]) for row in table.rows[:3]]
    assert costs[2] < costs[0] < costs[1]


def test_looks_are_rows_and_fractions_columns() -> None:
    table = looks_table(two_modes(16), (0.5, 0.9), (5, 50), n_iterations=100, n_seeds=2)
    assert table.heads == ("a look", "η = 0.5", "η = 0.9")
    assert [row[0] for row in table.rows] == ["every 5", "every 50"]
    assert all(number(cell) >= -1e-9 for row in table.rows for cell in row[1:])


TINY = ImagesConfig(
    source="small digits",
    n_images=20,
    side=8,
    wnmf=WNMFConfig(n_components=3, n_epochs=20, n_hold=10),
    n_steps=5,
    n_exact=4,
)


def test_rounds_in_a_table_are_those_of_one_run() -> None:
    data = load_measures(TINY)
    both = rounds_table(data, TINY, (1, 3))
    (last,) = rounds_table(data, TINY, (3,)).rows
    assert [row[0] for row in both.rows] == ["1", "3"]
    assert both.rows[1] == last


def test_memberships_are_judged_half_way_and_at_the_end() -> None:
    data = load_measures(TINY)
    trials = {"plain": (100.0, False), "accelerated": (2.0, True)}
    table = memberships_table(data, TINY.wnmf, trials, 0)
    assert table.heads == ("memberships", "after 10 epochs", "after 20 epochs")
    assert [row[0] for row in table.rows] == [*trials]
    assert all(number(cell) > 0 for row in table.rows for cell in row[1:])
    longer = memberships_table(data, TINY.wnmf, {"longer": (50.0, False)}, 0)
    assert longer.rows[0][1:] != table.rows[0][1:]


def test_levels_are_those_of_the_second_half() -> None:
    V, dual = torch.tensor([[9.0, 9, 3, 5], [0, 0, 1, 1]]).double()
    trace = GibbsOTTrace(torch.arange(4), V, dual)
    table = levels_table({"0.1/N": trace}, 2.0)
    assert [*table.rows] == [("0.1/N", "100", "\N{MINUS SIGN}50")]


def test_plans_stand_beside_their_distances() -> None:
    exact = torch.eye(2).double() / 2
    plans = {"exact": Plan(exact, 0.0), "even": Plan(torch.full_like(exact, 0.25), 0.1)}
    table = plans_table(plans, exact, 0.01234)
    assert table.rows == (("exact", "0", "0"), ("even", "1", "0.1"))
    assert table.caption.endswith("lack 1.234 %")


def test_stops_are_listed_by_temperature() -> None:
    result = stored("coupling-1d")
    table = stops_table(result)
    cells = result.scalars["stopping"]
    assert [row[0] for row in table.rows] == [f"{T}/N" for T in cells]
    for row, cell in zip(table.rows, cells.values(), strict=True):
        assert number(row[1]) == pytest.approx(np.mean(cell["mixed_at"]), rel=0.06)


def test_tails_lie_below_their_bounds() -> None:
    for row in tails_table(stored("temperature-bound")).rows:
        falls, most, rises, most_rising = map(number, row[1:])
        assert falls < most and rises < most_rising


def test_what_is_scaled_up_says_so() -> None:
    faces = stored("wnmf-faces")
    ours = faces.scalars["methods"]["Gibbs-OT"]
    table = epochs_table({"400 faces": faces})
    (row,) = table.rows
    assert "extrapolated from 6 of them" in table.caption
    times = ours["exact_seconds"] / ours["epoch_seconds"]
    assert float(row[3]) == pytest.approx(times, rel=0.05)
    costs = [number(row[1]) for row in factors_table(faces).rows]
    methods = faces.scalars["methods"].values()
    assert costs == pytest.approx([1e3 * row["cost"] for row in methods], rel=0.02)


def test_timing_has_a_row_for_each_start() -> None:
    result = stored("timing")
    table = timing_table(result, (10, 500))
    rows = {(r["method"], r["smoothing"], r["start"]) for r in result.scalars["rows"]}
    assert len(table.rows) == len(rows)
    cooled = dict(zip((r[0] for r in table.rows), table.rows, strict=True))
    assert number(cooled["Gibbs-OT, cold, cooled"][2]) == pytest.approx(6.0, abs=0.05)
