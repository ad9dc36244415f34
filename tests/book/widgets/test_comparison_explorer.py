"""The page of the widget of curves, in use."""

from ebmtut.widgets import comparison_explorer
from tests.widgets.test_comparison_explorer import PROBLEM

#: The same method, with runs of half a second and of twenty.
OTHER = PROBLEM | {
    "name": "q",
    "methods": [
        PROBLEM["methods"][0]
        | {"points": {"seconds": [[0.5, 0.8, 0.7, 0.9], [20, 0.08, 0.08, 0.08]]}}
    ],
}
#: Near at first and at the end, but not between; two methods over evaluations.
RISES = PROBLEM | {
    "name": "r",
    "methods": [
        method
        | {
            "points": {
                "seconds": [[1, *[0.09] * 3], [10, *[0.2] * 3], [20, *[0.08] * 3]],
                "evaluations": [[5e3 * factor, *[0.08] * 3], [5e4, *[0.07] * 3]],
            }
        }
        for factor, method in enumerate(PROBLEM["methods"], start=1)
    ],
}


def make_widget():
    return comparison_explorer([PROBLEM, OTHER, RISES], {"x": "only A"}, "p")


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


def test_another_problem_keeps_the_cost_and_says_from_where_a_method_is_near(
    visit, line
):
    widget = visit.page.locator(".comparison-explorer")
    widget.locator(".ex-range").fill("0.6")
    assert line.inner_text().startswith("At 4 CPU seconds ")
    widget.locator("select").first.select_option("q")
    far = "A has the lowest median, but not within twice the error of exact samples"
    assert line.inner_text() == f"At 4 CPU seconds {far}."
    widget.locator(".ex-range").fill("1")
    near = "A (from 14 s) stays within twice the error of exact samples, in the median"
    assert line.inner_text() == f"At 20 CPU seconds {near}."


def test_a_method_that_is_near_but_leaves_again_does_not_stay(visit, line):
    widget = visit.page.locator(".comparison-explorer")
    widget.locator("select").first.select_option("r")
    widget.locator(".ex-range").fill("0.1")
    far = "does not stay within twice the error of exact samples"
    assert far in line.inner_text()
    widget.locator("select").nth(1).select_option("evaluations")
    widget.locator(".ex-range").fill("1")
    assert " A (from 5,000) and B (from 10,000) stay within " in line.inner_text()
