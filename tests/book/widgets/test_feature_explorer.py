"""The page of the widget of features, in use."""

import torch

from ebmtut.widgets import feature_explorer


def make_widget():
    features = {name: torch.rand(3, 5, 6, 6) for name in ("PMP", "Gibbs")}
    wrong = {"PMP": [0.3, 0.1, 0.0], "Gibbs": [0.3, 0.25, 0.06]}
    return feature_explorer([1, 10, 250], features, wrong)


def test_the_slider_shows_other_pictures(visit, line):
    assert "After 1 sweep," in line.inner_text()
    before = visit.page.locator("canvas").first.evaluate("c => c.toDataURL()")
    visit.page.get_by_role("slider").press("End")
    assert "After 250 sweeps" in line.inner_text()
    assert "PMP 0.0 %, Gibbs 6.0 %" in line.inner_text()
    assert visit.page.locator("canvas").first.evaluate("c => c.toDataURL()") != before
    assert visit.dead_sliders() == []
