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
PROBLEM = {"name": "p", "measure": "its error is {}", "lines": {"exact": 0.05}}
PROBLEM["methods"] = METHODS


@node
@pytest.mark.parametrize(("asks", "names"), [("", "BA"), ("x", "A")])
def test_methods_are_ranked_by_their_error_at_the_cost(asks, names, tmp_path):
    question = 'js.ranked(given[0], "seconds", given[1], given[2])'
    page = ask(tmp_path, "comparison_curves", question, PROBLEM, asks, 0.4)
    assert page["at"] == pytest.approx(10**0.4)
    found = {row["name"]: row["error"] for row in page["found"]}
    assert "".join(found) == names
    expected = np.exp(np.interp(0.4, [0, 1], np.log([0.8, 0.2])))
    assert found["A"] == pytest.approx(expected)


def test_it_shows_the_problem_that_is_asked_for() -> None:
    widget = comparison_explorer([PROBLEM], {"x": "words"}, "p")
    assert (widget.problem, widget.cost, widget.asks) == ("p", "seconds", "")
    with pytest.raises(InputError, match="problem must be"):
        comparison_explorer([PROBLEM], {}, "q")
    with pytest.raises(InputError, match="curves"):
        comparison_explorer([], {}, "q")
