"""The chapter's tables say what the stored results hold."""

from pathlib import Path

import numpy as np
import pytest

from ebmtut.experiments.got.coupling_1d import budgets_table, stops_table
from ebmtut.experiments.got.temperature_bound import tails_table
from ebmtut.experiments.got.timing import timing_table
from ebmtut.experiments.got.wnmf import epochs_table, factors_table
from ebmtut.results import Result, load_result

RESULTS = Path(__file__).parents[2] / "results"


def stored(name: str) -> Result:
    return load_result(f"got/{name}", "full", RESULTS)


def number(cell: str) -> float:
    return float(cell.split(" ± ")[0].replace("−", "-"))


def test_a_budget_a_row_and_a_method_a_column() -> None:
    result = stored("coupling-1d")
    table = budgets_table(result, "dual", percent=True)
    methods = result.scalars["table"]
    # Bregman ADMM has no dual value to offer.
    assert table.heads == ("iterations", *(m for m in methods if m != "B-ADMM"))
    for row in table.rows:
        for name, cell in zip(table.heads[1:], row[1:], strict=True):
            mean = 100 * np.mean(methods[name][row[0]]["dual"])
            assert number(cell) == pytest.approx(mean, rel=0.06)
            assert (" ± " in cell) == name.startswith("Gibbs-OT")


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
    (row,) = epochs_table({"400 faces": faces}).rows
    assert row[3].endswith("scaled up from 6")
    times = ours["exact_seconds"] / ours["epoch_seconds"]
    assert float(row[4]) == pytest.approx(times, rel=0.05)
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
