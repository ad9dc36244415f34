"""The page of the widget of recovery likelihood, in use."""

import re

import pytest

from ebmtut.widgets import recovery_explorer

make_widget = recovery_explorer


def test_chains_cross_only_where_the_noise_is_small(visit, line):
    """At first none has crossed; with little noise all do; the keyboard moves it."""
    widget = visit.page.locator(".recovery-explorer")
    sliders = widget.locator(".ex-range")

    def found():
        # "Right of zero: chains 0.00, exact 0.60."
        chains, exact = re.findall(r"\d\.\d\d", line.inner_text())
        return float(chains), float(exact)

    assert found() == (0.0, 0.6)
    sliders.nth(0).focus()
    visit.page.keyboard.press("Home")  # the least noise
    chains, exact = found()
    assert exact == 1.0 and chains >= 0.95


def test_a_start_near_the_copy_reaches_its_mode(visit, line):
    """With medium noise chains from -2 stay there, and chains from 2.5 are right."""
    widget = visit.page.locator(".recovery-explorer")
    sliders = widget.locator(".ex-range")

    def moved(slider, value):
        sliders.nth(slider).fill(value)
        return float(re.search(r"chains (\d\.\d\d)", line.inner_text())[1])

    assert moved(0, "0.5") < 0.2
    assert moved(2, "2.5") > 0.95


HIGHEST = """async ({ name, sigmas }) => {
  const js = await import(name);
  return Math.max(...sigmas.flatMap(sigma => [-2.5, -2, 0, 1, 2, 2.5].map(
    copy => Math.max(...js.given(copy, sigma)))));
}"""


@pytest.mark.parametrize("visit", ["desktop"], indirect=True)  # it has a server
def test_every_curve_fits_into_the_picture(visit):
    sigmas = [0.25 + 0.01 * k for k in range(74)]
    of = {"name": "./recovery_explorer.js", "sigmas": sigmas}
    top = visit.page.evaluate("import('./recovery_explorer.js').then(js => js.TOP)")
    assert 0.8 * top < visit.page.evaluate(HIGHEST, of) < top
