"""The page of the widget of recovery likelihood, in use."""

import re

import pytest

from ebmtut.widgets import recovery_explorer

pytestmark = pytest.mark.browser


def make_widget():
    return recovery_explorer()


def test_chains_cross_only_where_the_noise_is_small(visit):
    """At first none has crossed; with little noise all do; the keyboard moves it."""
    widget = visit.page.locator(".recovery-explorer")
    line = widget.locator(".ex-note")
    sliders = widget.locator(".ex-range")

    def found():
        # "Right of zero: chains 0.00, exact 0.60."
        chains, exact = re.findall(r"\d\.\d\d", line.inner_text())
        return float(chains), float(exact)

    assert visit.wrong() == []
    assert found() == (0.0, 0.6)
    sliders.nth(0).focus()
    visit.page.keyboard.press("Home")  # the least noise
    chains, exact = found()
    assert exact == 1.0 and chains >= 0.95
    sliders.nth(2).focus()
    visit.page.keyboard.press("Home")  # no step at all
    assert found()[0] == 0.0
    assert visit.wrong() == []
