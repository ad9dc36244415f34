"""The page of the widget of two modes, in use."""

import re

import numpy as np
import pytest

from ebmtut.widgets import two_modes_explorer


def make_widget():
    """Four points of five lie in the upper mode."""
    data = np.full((50, 2), 1.6)
    data[:10] *= -1
    return two_modes_explorer(data, 4.0)


def test_chains_stuck_in_a_mode_give_a_wrong_gradient(visit, line):
    """The barrier is 8 nats high: hardly a chain crosses it in forty sweeps."""
    page = visit.page
    widget = page.locator(".two-modes-explorer")

    def slopes():
        found = re.findall(r"[+−]?\d+\.\d\d", line.inner_text())
        return [float(number.replace("−", "-")) for number in found]

    def run(steps):
        widget.get_by_role("button", name="run the chains").click()
        page.wait_for_function(
            f"""() => Number(document.querySelector(".two-modes-explorer .ex-note")
            .textContent.match(/after (\\d+) steps/)[1]) >= {steps}""",
            timeout=60_000,
        )
        widget.get_by_role("button", name="stop").click()

    run(40)
    by_chains, exact = slopes()
    # The mean of x1 + x2 within the lower mode, by a sum over the plane.
    axis = np.linspace(-4, 4, 401)
    x, y = np.meshgrid(axis, axis)
    p = np.where(x + y < 0, np.exp(4 * x * y - (x**4 + y**4) / 4), 0)
    lower = float((p * (x + y)).sum() / p.sum())
    # Data: mean 0.6 * 3.2 = 1.92. Chains: five standard errors of 200 chains, and a
    # tenth of them, which is five times the fraction that crosses, in the other mode.
    noise = 5 * 0.8 / 200**0.5
    assert lower - 1.92 - noise < by_chains < 0.8 * lower - 1.92 + noise
    assert exact == pytest.approx(-1.92, abs=0.01)
    # Lower the barrier: the chains cross, and both agree within five standard errors
    # of 200 chains, 5 * 3 / sqrt(200).
    coupling = widget.locator("input[type=range]").first
    coupling.evaluate(
        """e => {
          e.value = 1;
          e.dispatchEvent(new Event("input", { bubbles: true }));
        }"""
    )
    run(120)
    by_chains, exact = slopes()
    assert by_chains == pytest.approx(exact, abs=1.1)
    before = coupling.input_value()
    widget.get_by_role("button", name="gradient step").click()
    page.wait_for_function(
        "old => document.querySelector('input[type=range]').value !== old", arg=before
    )
