"""The page of the widget of the collapse, in use."""

import pytest

from ebmtut.widgets import collapse_explorer

pytestmark = pytest.mark.browser


def make_widget():
    return collapse_explorer()


def test_a_large_curvature_collapses_unless_the_loss_is_clipped(visit):
    widget = visit.page.locator(".collapse-explorer")
    line = widget.locator(".ex-note")
    assert visit.wrong() == []
    assert line.inner_text().startswith("Collapsed")
    widget.locator(".ex-range").first.focus()
    for _ in range(10):
        visit.page.keyboard.press("ArrowLeft")
    assert line.inner_text().startswith("After 60 updates θ is 1.")
    visit.page.keyboard.press("End")
    assert line.inner_text().startswith("Collapsed")
    widget.locator(".ex-select").first.select_option("clipped")
    assert line.inner_text().startswith("After 60 updates θ is 1.")
    assert visit.wrong() == []
