"""What all widgets share: sizes, the keyboard, and text beside the controls."""

import pytest

from ebmtut.widgets import RecoveryExplorer, recovery_explorer
from tools.pages import PHONE, Visit

pytestmark = pytest.mark.browser

HEIGHTS = """() => [...document.querySelectorAll(
  ".explorer :is(input, select, button)")].map(e => e.getBoundingClientRect().height)"""


def make_widget() -> RecoveryExplorer:
    return recovery_explorer(0.3)


def test_controls_are_tall_enough_for_a_finger(visit: Visit) -> None:
    heights = visit.page.evaluate(HEIGHTS)
    assert len(heights) >= 6
    assert min(heights) >= 44


def test_the_line_of_text_is_on_the_screen_of_the_controls(visit: Visit) -> None:
    first = visit.page.locator(".ex-controls").bounding_box()
    line = visit.page.locator(".ex-note").bounding_box()
    assert first is not None and line is not None
    assert line["y"] + line["height"] - first["y"] < PHONE[1]


def test_the_keyboard_does_what_a_pointer_does(visit: Visit) -> None:
    """All chains are put where the mark stands: left of 0, then right of it."""
    line = visit.page.locator(".ex-note")
    cloud = visit.page.locator(".ex-canvas").nth(1)
    assert visit.page.locator(".ex-canvas").first.get_attribute("tabindex") is None
    for key, expected in (("ArrowLeft", "steps 0 %"), ("ArrowRight", "steps 100 %")):
        for _ in range(6):
            cloud.press(key)
        if key == "ArrowRight":  # back to the middle, then as far to the other side
            for _ in range(6):
                cloud.press(key)
        cloud.press("Enter")
        visit.page.wait_for_timeout(200)
        assert expected in line.inner_text()
    assert visit.wrong() == []
