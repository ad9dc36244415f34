"""The page of the widget of two spins, in use."""

import re

import pytest

from ebmtut.widgets import two_spins_explorer


def make_widget():
    return two_spins_explorer(1.0)


def test_both_sides_agree_at_the_rate_of_the_text(visit, line):
    widget = visit.page.locator(".two-spins-explorer")
    time, rate = (widget.locator(".ex-range").nth(k) for k in (0, 1))
    assert "The rate is too high." in line.inner_text()
    # J / (1 + exp(-2 t J)) with J = 1.
    for t, needed in (("0", "0.5"), ("0.5", "0.73"), ("1", "0.88")):
        time.fill(t)
        rate.fill(needed)
        text = line.inner_text()
        assert "Both sides agree." in text
        change, inflow = map(float, re.findall(r"\d\.\d{3}", text))
        assert change == pytest.approx(inflow, abs=0.003)
    rate.fill("0.2")
    assert "The rate is too low." in line.inner_text()
