"""A declared tolerance forgives small differences of decimal numbers, and no more."""

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tools.compare import compare_notebooks, settle


def notebook(text, tolerance):
    cell = new_code_cell("print(gap)", execution_count=1)
    cell.outputs = [new_output("stream", name="stdout", text=text)]
    if tolerance is not None:
        cell.metadata["ebmtut"] = {"tolerance": tolerance}
    return new_notebook(cells=[cell])


@pytest.mark.parametrize(
    ("new", "tolerance", "agrees"),
    [
        ("gap 0.21 in 3 runs", 0.05, True),
        ("gap 0.21 in 3 runs", None, False),
        ("gap 0.30 in 3 runs", 0.05, False),
        ("gap 0.21 in 4 runs", 0.05, False),
        ("rift 0.21 in 3 runs", 0.05, False),
        ("gap 0.21 0.21 in 3 runs", 0.05, False),
        ("gap nan in 3 runs", 0.05, False),
    ],
)
def test_only_close_decimals_are_forgiven(new, tolerance, agrees):
    stored = notebook("gap 0.20 in 3 runs", tolerance)
    differences = compare_notebooks(stored, notebook(new, None))
    assert (not differences) == agrees


def test_a_share_settles_numbers_without_a_point_too():
    assert settle("18 and 200", "17.6 and 100", 0.0, 0.1) == "17.6 and 200"
    assert settle("18", "17.6", 0.5) == "18"
    assert settle("0.3 of 7", "0.5 of 7", 0.25, 0.1) == "0.5 of 7"
