"""The page of the widget of recovery likelihood, in use."""

import re

import pytest

from ebmtut.widgets import RecoveryExplorer, recovery_explorer
from tools.pages import Visit

pytestmark = pytest.mark.browser


def make_widget() -> RecoveryExplorer:
    return recovery_explorer(0.3)


def test_chains_reach_the_conditional_law_and_not_the_marginal(visit: Visit) -> None:
    """Poured into the other mode they come back, or stay there."""
    page = visit.page
    widget = page.locator(".recovery-explorer")
    line = widget.locator(".ex-note")
    cloud = widget.locator(".ex-canvas").nth(1)

    def run(law: str, where: float) -> tuple[int, int]:
        widget.locator(".ex-select").first.select_option(law)
        box = cloud.bounding_box()
        assert box is not None
        cloud.click(position={"x": where * box["width"], "y": 0.5 * box["height"]})
        button = widget.get_by_role("button", name="run the chains")
        button.click()
        page.wait_for_function(
            """() => Number(document.querySelector(".recovery-explorer .ex-note")
            .textContent.match(/After (\\d+) steps/)[1]) >= 60""",
            timeout=60_000,
        )
        widget.get_by_role("button", name="stop").click()
        # "After 60 steps 99 % of the chains are right of 0; the law has 40 % there."
        found = re.findall(r"\d+", line.inner_text())
        return int(found[1]), int(found[3])

    assert visit.wrong() == []
    chains, exact = run("marginal", 0.75)
    assert (chains, exact) == (100, 40)
    chains, exact = run("conditional", 0.25)
    # The package's chains are at 98.5 percent by then: five standard errors of 150.
    assert exact == 100 and chains >= 93
    assert visit.wrong() == []
