"""The widget of two spins: its numbers against a path of the package."""

import pytest

from ebmtut.paths import AnnealingPath
from ebmtut.states import enumerate_states
from ebmtut.widgets import two_spins_explorer
from tests.widgets.pages import ask, node


@node
@pytest.mark.parametrize(("coupling", "t"), [(1.0, 0.0), (1.0, 0.7), (2.5, 1.0)])
def test_probabilities_and_their_change_are_those_of_the_path(coupling, t, tmp_path):
    page = ask(tmp_path, "two_spins", "js.balance(...given)", coupling, t, 0.3)
    path = AnnealingPath(lambda x: -coupling * (2 * x - 1).prod(1), 2)
    states = enumerate_states(2).double()
    p = path.log_density(states, t).softmax(0)
    agree = states[:, 0] == states[:, 1]
    assert page["agree"] == pytest.approx(float(p[agree][0]))
    assert page["disagree"] == pytest.approx(float(p[~agree][0]))
    rise = path.time_derivative(states)
    change = p * (rise - p @ rise)
    assert page["change"] == pytest.approx(float(change[agree][0]))
    assert page["inflow"] == pytest.approx(0.6 * page["disagree"])
    # The rate at which the right side is the left one.
    needed = page["needed"]
    assert 2 * needed * page["disagree"] == pytest.approx(page["change"])


def test_it_begins_with_a_rate_that_is_too_high() -> None:
    widget = two_spins_explorer(2.0)
    assert (widget.coupling, widget.time, widget.rate) == (2.0, 0.0, 2.0)
