"""The page of the widget of two initialisations, in use."""

import re

import pytest

from ebmtut.widgets import two_starts_explorer

pytestmark = pytest.mark.browser


def make_widget():
    return two_starts_explorer()


def test_the_prompt_shows_what_it_promises(visit):
    """Black comes to lie on grey at 0.33, orange follows, and blue does not."""
    widget = visit.page.locator(".two-starts-explorer")
    line = widget.locator(".ex-note")
    theta, sweeps = (widget.locator(".ex-range").nth(k) for k in (0, 1))

    def numbers():
        return [float(x) for x in re.findall(r"\d\.\d+", line.inner_text())]

    assert visit.wrong() == []
    # Of the MAP states, from zero messages, and from symmetric ones.
    assert numbers()[0] == pytest.approx(0.127, abs=0.01)
    theta.fill("0.33")
    best, zero, symmetric = numbers()
    # Five bins of 5000 samples: four halves of 2e-4 nats of sampling error.
    assert best < 0.002 and symmetric < 0.005
    assert zero > 0.005
    sweeps.fill("1")
    assert numbers()[1] > 0.2
    assert visit.wrong() == []
