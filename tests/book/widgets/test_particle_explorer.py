"""The page of the particle widget, in use."""

import re

import numpy as np
import pytest
from playwright.sync_api import Locator

from ebmtut.metrics import PlaneGrid
from ebmtut.noise import NoiseLevels
from ebmtut.widgets import ParticleExplorer, particle_explorer
from tools.pages import Visit

pytestmark = pytest.mark.browser


def make_widget() -> ParticleExplorer:
    """Two far modes, 80 percent of the mass in the right one, on both levels."""
    points = PlaneGrid(3.0, 48).points.numpy()
    modes = [
        weight * np.exp(-(((points - [at, 0]) / width) ** 2).sum(1) / 2) / width**2
        for width in (0.4, 0.8)
        for weight, at in ((0.8, 1.5), (0.2, -1.5))
    ]
    levels = np.log([modes[0] + modes[1], modes[2] + modes[3]]).reshape(2, 48, 48)
    return particle_explorer(levels, NoiseLevels((0.25, 1.0)), 3.0, n_cells=48)


def test_poured_particles_stay_in_the_marginal_law_and_leave_in_the_conditional(
    visit: Visit,
) -> None:
    page = visit.page
    widget = page.locator(".particle-explorer")
    line = widget.locator(".ex-note")
    below, above = (widget.locator(".ex-canvas").nth(k) for k in (0, 1))
    assert visit.wrong() == []

    def at(canvas: Locator, across: float, down: float) -> tuple[float, float]:
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        assert box is not None
        return box["x"] + across * box["width"], box["y"] + down * box["height"]

    def run(law: str) -> tuple[int, ...]:
        widget.get_by_role("button", name="remove all").click()
        widget.locator(".ex-select").first.select_option(law)
        # A stroke through the left mode.
        page.mouse.move(*at(below, 0.2, 0.45))
        page.mouse.down()
        page.mouse.move(*at(below, 0.3, 0.55), steps=4)
        page.mouse.up()
        widget.get_by_role("button", name="run K steps").click()
        page.wait_for_function(
            """() => document.querySelector(".particle-explorer .ex-note")
            .textContent.includes("after 30 steps")""",
            timeout=60_000,
        )
        # Some draws make a particle leave the picture, which is a fifth number.
        return tuple(int(n) for n in re.findall(r"\d+", line.inner_text())[:4])

    # "60 particles after 30 steps: 0 % in the right half, where the law has 80 %."
    n, _, right, exact = run("marginal")
    assert n >= 24 and right <= 5 and exact == 80
    # See something near the right mode: the law given it is there, and so are they.
    page.mouse.click(*at(above, 0.75, 0.5))
    _, _, right, exact = run("conditional")
    assert right >= 90 and exact >= 99
    assert visit.wrong() == []
