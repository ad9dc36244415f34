"""The page of the widget of two initialisations, in use."""

import re

import pytest

from ebmtut.widgets import two_starts_explorer

make_widget = two_starts_explorer


def test_the_prompt_shows_what_it_promises(visit, line):
    """Exact maxima match the target at 0.33; so do messages from W/2, not from 0."""
    widget = visit.page.locator(".two-starts-explorer")
    search = widget.locator(".ex-select")

    def number():
        return float(re.search(r"\d\.\d+", line.inner_text())[0])

    assert number() == pytest.approx(0.127, abs=0.006)
    widget.locator(".ex-range").fill("0.33")
    # Five bins of 10,000 samples: four halves of 1e-4 nats of sampling error.
    assert number() < 0.001
    search.select_option("symmetric")
    assert number() < 0.002
    search.select_option("zero")
    assert number() > 0.005
