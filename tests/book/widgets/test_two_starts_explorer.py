"""The page of the widget of two starts, in use."""

import re

import pytest

from ebmtut.widgets import TwoStartsExplorer, two_starts_explorer
from tools.pages import Visit

pytestmark = pytest.mark.browser


def make_widget() -> TwoStartsExplorer:
    return two_starts_explorer()


def test_the_prompt_shows_what_it_promises(visit: Visit) -> None:
    """Black comes to lie on grey at 0.33, red follows, and blue leans to off."""
    widget = visit.page.locator(".two-starts-explorer")
    line = widget.locator(".ex-note")
    theta, sweeps = (widget.locator(".ex-range").nth(k) for k in (0, 1))

    def numbers() -> list[float]:
        text = line.inner_text().replace("\N{MINUS SIGN}", "-")
        return [float(x) for x in re.findall(r"-?\d\.\d+", text)]

    assert visit.wrong() == []
    # The first number is the coupling that is wanted; then the optimum, zero start,
    # symmetric start, and the zero start's mean spin.
    assert numbers()[1] > 0.05
    theta.fill("0.33")
    sweeps.fill("20")
    _, best, zero, symmetric, lean = numbers()
    # Five bins of 1000 draws leave four halves of a thousandth of a nat by chance.
    assert best < 0.01 and symmetric < 0.01
    assert zero > best and -0.2 < lean < -0.05
    sweeps.fill("1")
    assert numbers()[4] < -0.4
    assert visit.wrong() == []
