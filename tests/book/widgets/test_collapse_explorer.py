"""The page of the widget of the collapse, in use."""

from ebmtut.widgets import collapse_explorer

make_widget = collapse_explorer


def test_a_large_curvature_collapses_unless_the_loss_is_clipped(visit, line):
    widget = visit.page.locator(".collapse-explorer")
    assert line.inner_text().startswith("Collapsed")
    widget.locator(".ex-range").first.focus()
    for _ in range(10):
        visit.page.keyboard.press("ArrowLeft")
    assert line.inner_text().startswith("After 60 updates θ is 1.")
    visit.page.keyboard.press("End")
    assert line.inner_text().startswith("Collapsed")
    widget.locator(".ex-select").first.select_option("clipped")
    assert line.inner_text().startswith("After 60 updates θ is 1.")
