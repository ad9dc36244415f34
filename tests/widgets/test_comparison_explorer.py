"""The widget of curves: its arithmetic against numpy, and what it refuses."""

import numpy as np
import pytest

from ebmtut.checks import InputError
from ebmtut.widgets import comparison_explorer
from tests.widgets.pages import ask, node

POINTS = {"A": [[1, 0.8, 0.7, 0.9], [10, 0.2, 0.1, 0.3]], "B": [[2, 0.4, 0.4, 0.4]]}
METHODS = [
    {"name": n, "color": "#000", "dashed": False, "asks": ["x"] * (n == "A")}
    | {"points": {"seconds": POINTS[n]}}
    for n in POINTS
]
PROBLEM = {"name": "p", "measure": "error [nats]", "lines": {"exact": 0.05}}
PROBLEM["per"] = "in total"
PROBLEM["methods"] = METHODS


@node
@pytest.mark.parametrize(("asks", "names"), [("", "BA"), ("x", "A")])
def test_methods_are_ranked_by_their_error_at_the_cost(asks, names, tmp_path):
    question = 'js.ranked(given[0], "seconds", given[1], given[2])'
    page = ask(tmp_path, "comparison_curves", question, PROBLEM, asks, 0.4)
    assert page["at"] == pytest.approx(10**0.4)
    found = {row["name"]: row for row in page["found"]}
    assert "".join(found) == names
    # A is between two runs, on lines of its logarithms.
    kept = [found["A"][key] for key in ("error", "low", "high")]
    first, second = np.log(POINTS["A"])[:, 1:]
    assert kept == pytest.approx(np.exp(0.6 * first + 0.4 * second))
    assert found["A"]["stays"] == found["A"]["error"]  # it falls from there on
    assert "B" not in found or found["B"]["error"] == 0.4
    assert found["A"]["ended"] is None
    assert "B" not in found or found["B"]["ended"] == 2


@node
def test_the_cost_is_that_of_the_first_run_or_a_tenth_more(tmp_path):
    later = PROBLEM | {"methods": [METHODS[0], METHODS[1] | {"asks": ["y"]}]}
    question = 'js.ranked(given[0], "seconds", "y", 0)'
    page = ask(tmp_path, "comparison_curves", question, later)
    assert page["at"] == pytest.approx(2.2)
    assert page["budget"] == pytest.approx(np.log10(2.2))
    assert page["found"][0]["ended"] is None  # a run of 2 counts as one of 2.2


@node
@pytest.mark.parametrize(
    ("errors", "cost"),
    [
        ([0.4, 0.2, 0.1], 2),
        ([0.4, 0.1, 0.1], 2**0.5),
        ([0.1, 0.5, 0.2], 4),
        ([0.1, 0.1], 1),
        ([0.1, 1], None),  # infinite
    ],
)
def test_a_method_arrives_where_the_comparison_says(errors, cost, tmp_path):
    points = [[2**k, error] for k, error in enumerate(errors)]
    found = ask(tmp_path, "comparison_curves", "js.arrival(given[0], 0.2)", points)
    assert found == (cost and pytest.approx(cost))


BANDS = {"A": (0.2, 0.1, 0.3), "B": (0.35, 0.25, 0.5), "C": (0.5, 0.4, 0.6)}


@node
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ({}, (False, "")),
        ({"exact": 0.1}, (False, "A")),  # a median of twice the exact error is near
        ({"exact": 0.15}, (False, "A")),  # a low end of a band is not
        ({"exact": 0.18}, (False, "AB")),
        ({"exact": 0.25}, (False, "AB")),  # C is, but does not stay
        ({"exact": 0.05, "independent bits": 0.31}, (False, "")),
        ({"baseline": 0.3}, (False, "")),  # a run of A is not below it, its median is
        ({"baseline": 0.2}, (True, "")),
    ],
)
def test_the_verdict_names_the_methods_that_are_near_and_the_best(
    lines, expected, tmp_path
):
    keys = ("error", "low", "high")
    found = [
        {"name": n, **dict(zip(keys, band, strict=True)), "stays": band[0], "from": k}
        for k, (n, band) in enumerate(BANDS.items())
    ]
    found[2]["stays"] = 0.51
    question = "js.verdict(given[0], given[1])"
    told = ask(tmp_path, "comparison_curves", question, lines, found)
    assert (told["baseline"], "".join(told["near"])) == expected
    found[0]["from"] = 3
    cheaper = ask(tmp_path, "comparison_curves", question, lines, found)["near"]
    assert "".join(cheaper) == expected[1][::-1]
    # The median of B is not in the band of A, though their bands overlap.
    assert told["best"] == ["A"]
    found[1]["error"] = 0.3
    # Now it is, but no run of B is as good as the median of A.
    told = ask(tmp_path, "comparison_curves", question, lines, found)
    assert told["best"] == ["A"]
    found[1]["low"] = 0.2
    told = ask(tmp_path, "comparison_curves", question, lines, found)
    assert told["best"] == ["A", "B"]


def test_it_shows_the_problem_that_is_asked_for() -> None:
    widget = comparison_explorer([PROBLEM], {"x": "words"}, "p")
    assert (widget.problem, widget.cost, widget.asks) == ("p", "seconds", "")
    assert comparison_explorer([PROBLEM], {}, "p", budget=1.0).budget == 1
    with pytest.raises(InputError, match="budget"):
        comparison_explorer([PROBLEM], {}, "p", budget=2.0)
    with pytest.raises(InputError, match="problem must be"):
        comparison_explorer([PROBLEM], {}, "q")
    with pytest.raises(InputError, match="curves"):
        comparison_explorer([], {}, "q")
