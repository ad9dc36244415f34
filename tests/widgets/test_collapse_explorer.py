"""The widget of the collapse: its fixed points against those of the formula."""

import math

import pytest

from tests.widgets.pages import ask, node


@node
def test_training_converges_below_the_unstable_point_and_runs_away_above(tmp_path):
    question = """{ unstable: js.UNSTABLE,
      ends: [[2, false], [6.5, false], [7.5, false], [7.5, true]].map(
        ([first, clipped]) => js.learned(first, 1, clipped).at(-1)) }"""
    found = ask(tmp_path, "collapse_explorer frame langevin_line", question)
    # A chain's variance delta^2 / (1 - (1 - c)^2), c = delta^2 theta / 2, is 1 there.
    delta = 0.7
    stable, unstable = (
        2 * (1 + sign * math.sqrt(1 - delta**2)) / delta**2 for sign in (-1, 1)
    )
    assert found["unstable"] == pytest.approx(unstable, rel=1e-12)
    low, middle, collapsed, clipped = found["ends"]
    # Batches of 200: theta fluctuates by a tenth or so about the stable point.
    assert low == pytest.approx(stable, abs=0.3)
    assert middle == pytest.approx(stable, abs=0.3)
    assert collapsed > 1000
    assert clipped == pytest.approx(stable, abs=0.3)
