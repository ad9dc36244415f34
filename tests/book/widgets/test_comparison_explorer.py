"""The page of the widget of curves, in use."""

from ebmtut.widgets import comparison_explorer
from tests.widgets.test_comparison_explorer import PROBLEM


def make_widget():
    return comparison_explorer([PROBLEM], {"x": "only A"}, "p")


def test_the_filter_leaves_the_methods_that_meet_it(visit, line):
    widget = visit.page.locator(".comparison-explorer")
    widget.locator(".ex-range").fill("0.4")
    # A is between its runs, and its lowest error 0.32.
    # Its only run took two seconds.
    told = "At 2.5 CPU seconds B has the lowest median, by its last run of 2, "
    assert (
        line.inner_text() == told + "but not within twice the error of exact samples."
    )
    widget.locator("select").nth(2).select_option("x")
    assert line.inner_text().startswith("At 2.5 CPU seconds A has the lowest median, ")


def test_the_method_with_the_lowest_median_is_named(visit, line):
    visit.page.locator(".comparison-explorer .ex-range").fill("1")
    far = ", but not within twice the error of exact samples"
    assert line.inner_text() == f"At 10 CPU seconds A has the lowest median{far}."
    visit.page.locator(".comparison-explorer .ex-range").fill("0.2")
    assert line.inner_text() == f"At 1.6 CPU seconds only A has a run{far}."
    visit.page.locator(".comparison-explorer .ex-range").fill("0.6")
    # The only run of B is in the range of A's runs, but not as good as their median.
    assert line.inner_text() == f"At 4 CPU seconds A has the lowest median{far}."


def test_a_click_moves_the_budget(visit, line):
    widget = visit.page.locator(".comparison-explorer")
    plot = widget.locator("canvas").first
    told = []
    for place in (0.3, 0.9):
        box = plot.bounding_box()
        plot.click(position={"x": place * box["width"], "y": box["height"] / 2})
        told.append(line.inner_text())
    assert told[0] != told[1]
    assert all(text.startswith("At ") for text in told)
