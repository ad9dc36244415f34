"""The page of the widget of energy discrepancy, in use."""

import pytest
import torch

from ebmtut.widgets import DiscrepancyExplorer, discrepancy_explorer
from tools.pages import Visit

pytestmark = pytest.mark.browser


def make_widget() -> DiscrepancyExplorer:
    p = torch.tensor([28, 10, 2, 8, 4, 6, 12, 30], dtype=torch.float64) / 100
    return discrepancy_explorer(p)


def test_sliders_lead_to_the_data_or_away(visit: Visit) -> None:
    """w = 1 finds the data with one negative; w = 0 is lost; no noise, no lesson."""
    page = visit.page
    widget = page.locator(".discrepancy-explorer")
    line = widget.locator(".ex-note")

    def set_to(name: str, value: float) -> None:
        slider = widget.get_by_label(name)
        slider.evaluate(
            "(input, value) => { input.value = value;"
            " input.dispatchEvent(new Event('input')); }",
            value,
        )

    assert visit.wrong() == []
    assert "1e-7 after 200, below the picture" in line.inner_text()
    set_to("negatives M", 0)  # the first: one
    assert "9e-6 after 200" in line.inner_text()
    set_to("stabiliser w", 0)
    page.wait_for_function(
        """() => document.querySelector(".discrepancy-explorer .ex-note")
        .textContent.startsWith("Lost after")"""
    )
    set_to("stabiliser w", 4)  # one
    set_to("noise ε", 0)
    set_to("shown step", 10)
    assert "KL 0.30 nats after step 10, 0.30 after 200" in line.inner_text()
    assert visit.wrong() == []
