"""The chapter's tables say what the stored results hold."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from ebmtut.experiments.got import coulomb, coupling_1d, pictures, temperature_bound
from ebmtut.experiments.got.coupling_1d import budgets_table, methods_of, stops_table
from ebmtut.experiments.got.gibbs_bands import bands_table
from ebmtut.experiments.got.lines import bumps, points
from ebmtut.experiments.got.timing import timing_table
from ebmtut.experiments.got.wnmf import factors_table, shapes_table
from ebmtut.results import Result, load_result
from ebmtut.transport import cost_matrix, exact_ot

RESULTS = Path(__file__).parents[2] / "results"


def stored(name: str) -> Result:
    return load_result(f"got/{name}", "full", RESULTS)


def number(cell: str) -> float:
    return float(cell.split(" ± ")[0].replace("−", "-"))


def test_a_row_per_budget_and_a_column_per_method() -> None:
    result = stored("coupling-1d")
    methods = methods_of(result.config)
    assert [m.key for m in methods] == [*result.scalars["table"]]
    table = budgets_table(result, methods, "dual", percent=True)
    # Bregman ADMM has no dual value to offer.
    shown = [m for m in methods if m.solver != "B-ADMM"]
    assert [*table.heads] == ["iterations", *(m.label for m in shown)]
    for row in table.rows:
        for method, cell in zip(shown, row[1:], strict=True):
            mean = 100 * np.mean(result.scalars["table"][method.key][row[0]]["dual"])
            assert number(cell) == pytest.approx(mean, rel=0.06)
            assert (" ± " in cell) == (method.solver == "Gibbs-OT")


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("coupling-1d", coupling_1d),
        ("coulomb", coulomb),
        ("temperature-bound", temperature_bound),
    ],
)
def test_methods_have_the_names_of_the_stored_results(name, module) -> None:
    result = stored(name)
    keys = [method.key for method in module.methods_of(result.config)]
    assert keys == [*result.scalars["table"]]


def test_bands_are_means_over_the_chains() -> None:
    result = stored("gibbs-bands")
    for row, cell in zip(
        bands_table(result).rows, result.scalars["table"].values(), strict=True
    ):
        assert number(row[1]) == pytest.approx(100 * np.mean(cell["inside"]), rel=0.01)


def test_the_barycentre_of_shifted_copies_is_one_more_copy() -> None:
    x = points(100)
    given = torch.stack([bumps(x, [(1, m, 0.03)], floor=0) for m in (0.2, 0.3, 0.7)])
    known = pictures.quantile_barycentre(x, given)
    expected = bumps(x, [(1, 0.4, 0.03)], floor=0)
    # Quantiles are the centres of cells: their mean is off by a cell at most.
    assert (known.cumsum(0)[1:] - expected.cumsum(0)[:-1]).min() > -1e-3
    assert (expected.cumsum(0)[1:] - known.cumsum(0)[:-1]).min() > -1e-3


def test_stops_are_listed_by_temperature() -> None:
    result = stored("coupling-1d")
    table = stops_table(result)
    cells = result.scalars["stopping"]
    assert [row[0] for row in table.rows] == [f"{T}/N" for T in cells]
    for row, cell in zip(table.rows, cells.values(), strict=True):
        assert number(row[1]) == pytest.approx(np.mean(cell["mixed_at"]), rel=0.06)


def test_costs_of_images_are_roots_in_pixels() -> None:
    faces = stored("wnmf-faces")
    methods = faces.scalars["methods"].values()
    costs = [number(row[1]) for row in shapes_table(faces).rows]
    assert costs == pytest.approx([1e3 * m["cost"] for m in methods], rel=0.02)
    # A mean squared distance in units of the side, which has 64 pixels.
    pixels = [number(row[1]) for row in factors_table({"faces": faces}).rows]
    assert pixels == pytest.approx([64 * m["cost"] ** 0.5 for m in methods], rel=0.02)


def test_the_study_of_oracles_is_drawn_by_its_own_numbers() -> None:
    """Seconds are epochs times the median epoch, costs are roots of means."""
    table = {"exact": {"2": {"epoch_seconds": [3.0, 1.0], "cost": [4.0, 9.0]}}}
    study = Result("got/oracles", "full", {}, {"table": table})
    (row,) = pictures.oracle_points(study)["exact"]
    assert row == pytest.approx([2, 4, 2.5, 0.5])


def test_timing_has_a_row_for_each_start() -> None:
    result = stored("timing")
    table = timing_table(result, (10, 500))
    rows = {(r["method"], r["smoothing"], r["start"]) for r in result.scalars["rows"]}
    assert len(table.rows) == len(rows)
    cooled = dict(zip((r[0] for r in table.rows), table.rows, strict=True))
    assert number(cooled["Gibbs-OT, cold, cooled"][2]) == pytest.approx(6.0, abs=0.05)


def test_bands_and_blue_cells_agree() -> None:
    x, y = torch.tensor([[0, 1, 3], [1, 2, 4]]).double()
    p, q = torch.tensor([[5, 3, 2], [3, 3, 4]]).double() / 10
    cost = cost_matrix(x, y)
    solved = exact_ot(p, q, cost)
    figure = pictures.draw_duality(x, y, p, q, cost, solved)
    left, right = figure.axes
    assert len(left.lines) == int((solved.plan > 0).sum())
    blue = torch.as_tensor(right.images[0].get_array().data.astype(bool))
    assert bool(blue[solved.plan > 0].all())
    # What is written in a blue cell is zero, and elsewhere not.
    for text in right.texts:
        j, i = (round(value) for value in text.get_position())
        asked, sign, offered = text.get_text().split()
        left_over = float(asked) - float(offered) * (1 if sign == "−" else -1)
        assert (left_over == 0) == bool(blue[i, j])
    plt.close(figure)
