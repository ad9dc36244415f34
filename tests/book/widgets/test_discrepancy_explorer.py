"""The page of the widget of energy discrepancy, in use."""

import torch

from ebmtut.widgets import discrepancy_explorer


def make_widget():
    p = torch.tensor([28, 10, 2, 8, 4, 6, 12, 30], dtype=torch.float64) / 100
    return discrepancy_explorer(p)


def test_sliders_lead_to_the_data_or_away(visit, line):
    """w = 1 finds the data with one negative; w = 0 diverges; no noise, no gradient."""
    page = visit.page
    widget = page.locator(".discrepancy-explorer")

    def set_to(name, value):
        slider = widget.get_by_label(name)
        slider.evaluate(
            "(input, value) => { input.value = value;"
            " input.dispatchEvent(new Event('input')); }",
            value,
        )

    assert "at step 0: 0.30 nats" in line.inner_text()
    assert "At step 200: less than 0.000001" in line.inner_text()
    set_to("negatives M", 0)  # the first: one
    assert "At step 200: 0.0000094" in line.inner_text()
    set_to("stabiliser w", 0)
    page.wait_for_function(
        """() => document.querySelector(".discrepancy-explorer .ex-note")
        .textContent.startsWith("Diverged after")"""
    )
    set_to("stabiliser w", 4)  # one
    set_to("noise ε", 0)
    set_to("shown step", 10)
    assert "at step 10: 0.30 nats. At step 200: 0.30." in line.inner_text()
    set_to("noise ε", 1)  # every bit is flipped, and flipped back
    assert "at step 10: 0.30 nats. At step 200: 0.30." in line.inner_text()
    set_to("shown step", 200)  # the last one is not named twice
    assert line.inner_text() == "KL divergence at step 200: 0.30 nats."
