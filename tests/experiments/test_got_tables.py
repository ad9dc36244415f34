"""The chapter's tables say what the stored results hold."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ebmtut.experiments.got import pictures
from ebmtut.experiments.got.coupling_1d import methods_of
from ebmtut.experiments.got.lines import bumps, points
from ebmtut.results import Result, load_result

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
