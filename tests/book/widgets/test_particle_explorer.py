"""The page of the particle widget, in use."""

import re

import numpy as np

from ebmtut.metrics import PlaneGrid
from ebmtut.noise import NoiseLevels
from ebmtut.widgets import particle_explorer


def make_widget():
    """Two distant modes with 80 and 20 percent, and samples that are half and half."""
    points = PlaneGrid(3.0, 48).points.numpy()
    modes = [
        weight * np.exp(-(((points - [at, 0]) / width) ** 2).sum(1) / 2) / width**2
        for width in (0.4, 0.8)
        for weight, at in ((0.8, 1.5), (0.2, -1.5))
    ]
    levels = np.log([modes[0] + modes[1], modes[2] + modes[3]]).reshape(2, 48, 48)
    samples = np.array([[1.5, 0.1], [-1.5, 0.1]] * 100)
    halves = [[-3.0, 0.0, -3.0, 3.0], [0.0, 3.0, -3.0, 3.0]]
    noise = NoiseLevels((0.25, 1.0))
    return particle_explorer(levels, noise, 3.0, samples, halves, n_cells=48)


def test_particles_stay_in_their_mode_and_follow_the_cross(visit, line):
    page = visit.page
    widget = page.locator(".particle-explorer")

    def run(steps):
        widget.get_by_role("button", name="run 30 steps").click()
        page.wait_for_function(
            """steps => document.querySelector(".particle-explorer .ex-note")
            .textContent.includes(`After ${steps} steps`)""",
            arg=steps,
            timeout=60_000,
        )
        return tuple(int(n) for n in re.findall(r"(\d+) %", line.inner_text()))

    # "... 100 % of 200 particles are on the board (energy: 100 %), and 50 % in the
    # fullest square (energy: 80 %). 0 particles are beside the board, 0 of these ..."
    board, _, heaviest, exact = run(30)
    assert board == 100 and heaviest <= 55 and exact == 80
    beside = "0 particles are beside the board, 0 of these outside the picture."
    assert line.inner_text().endswith(beside)
    # With a cross in the right mode, chains that begin near it stay there.
    widget.locator(".ex-select").first.select_option("conditional")
    cross = widget.locator(".ex-canvas").nth(1)
    cross.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    widget.get_by_role("button", name="start from noise").click()
    _, _, heaviest, exact = run(30)
    assert heaviest >= 95 and exact >= 99


def test_every_slider_changes_a_picture(visit):
    assert visit.dead_sliders() == []
