"""Tables: what is printed, what is set apart, and what is refused."""

import math

import pytest
import torch

from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.results import Table


def test_text_is_aligned_and_rounded_to_the_error():
    table = Table(
        {
            "method": ["ED", "exact"],
            "error": [(0.01234, 0.00213), (-1.5, 0.04)],
            "time [s]": [12.3456, None],
            "n": [3, -1],
        },
        caption="Errors: standard errors.",
        kinds=["", "exact"],
    )
    assert repr(table).splitlines() == [
        "Errors: standard errors.",
        "method            error  time [s]   n",
        "ED      0.0123 ± 0.0021      12.3   3",
        "exact      −1.50 ± 0.04         –  −1",
    ]


@pytest.mark.parametrize(
    ("cell", "printed"),
    [
        ((123.4, 29.9), "123 ± 30"),
        ((123.4, 2.0), "123.4 ± 2.0"),
        ((1565.0, 1503.0), "1600 ± 1500"),
        ((1565.0, 420.0), "1600 ± 400"),
        ((1.0, 0.0), "1"),
        ((math.nan, 1.0), "–"),
        (math.nan, "–"),
        (-math.inf, "−inf"),
        (1e-5, "1e−05"),
        (-1476.2, "−1480"),
        (98_437.0, "98400"),
        (1.5e6, "1.5e+06"),
        (True, "True"),
    ],
)
def test_cells(cell, printed):
    table = Table({"a": ["x"], "b": [cell]})
    assert table.rows == (("x", printed),)


def test_a_number_without_an_error_stands_alone():
    """A row of one seed stands beside rows of several."""
    cells = [(0.25, None), ("0.250", None), (0.25, 0.01)]
    shown = Table({"runs": ["one", "printed", "three"], "x": cells})
    assert shown.numeric[1]
    assert [line.split()[1:] for line in repr(shown).splitlines()[1:]] == [
        ["0.25"],
        ["0.250"],
        ["0.250", "±", "0.010"],
    ]


def test_the_rounding_of_equal_rows_is_no_error():
    """Three equal numbers have a standard error of 1e-17, by their rounded mean."""
    value = 0.118935850194583456
    single = torch.full((7,), value).std().item() / 7**0.5
    cells = [(value, 5e-18), (value, single), (2.0, 0.5)]
    shown = Table({"a": ["x", "y", "z"], "b": cells}).rows
    assert single > 1e-10 and mean_and_stderr([value] * 7)[1] == 0
    assert [row[1] for row in shown] == ["0.119", "0.119", "2.0 ± 0.5"]


def test_a_column_may_have_equally_many_decimal_places():
    columns = {
        "a": ["x", "y", "z"],
        "b": [0.38, -1.0432, math.nan],
        "c": [1e-7, 2.0, 0.5],
        "n": [1, 2, 3],
        "d": [(0.5, 0.1), 0.25, None],
    }
    table = Table(columns, even=True)
    assert table.rows[0][1:] == ("0.38", "1e−07", "1", "0.50 ± 0.10")
    assert table.rows[1][1:] == ("−1.04", "2", "2", "0.25")
    assert table.rows[2][1:] == ("–", "0.5", "3", "–")
    assert Table({"a": ["x", "y"], "b": [0.3804, 0.3851]}, even=True).rows == (
        ("x", "0.380"),
        ("y", "0.385"),
    )
