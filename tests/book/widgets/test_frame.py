"""What all widgets share: sizes, and text beside the controls."""

import pytest

from ebmtut.widgets import recovery_explorer
from tools.pages import PHONE

pytestmark = pytest.mark.browser

HEIGHTS = """() => [...document.querySelectorAll(
  ".explorer :is(input, select, button)")].map(e => e.getBoundingClientRect().height)"""


def make_widget():
    return recovery_explorer(0.3)


def test_controls_are_tall_enough_for_a_finger(visit):
    heights = visit.page.evaluate(HEIGHTS)
    assert len(heights) >= 3
    assert min(heights) >= 44


def test_the_line_of_text_is_on_the_screen_of_the_controls(visit):
    first = visit.page.locator(".ex-controls").bounding_box()
    line = visit.page.locator(".ex-note").bounding_box()
    assert first is not None and line is not None
    assert line["y"] + line["height"] - first["y"] < PHONE[1]
