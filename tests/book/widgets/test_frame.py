"""What all widgets share: sizes, and text beside the controls."""

from ebmtut.widgets import recovery_explorer
from tools.pages import PHONE

CONTROLS = ".explorer :is(input, select, button)"


def make_widget():
    return recovery_explorer(0.3)


def test_controls_are_tall_enough_for_a_finger(visit):
    assert visit.page.locator(CONTROLS).count() >= 3
    assert not visit.small_controls()


def test_a_low_control_is_caught(visit):
    visit.page.locator(CONTROLS).first.evaluate("e => e.style.height = '20px'")
    (small,) = visit.small_controls()
    assert "20 px" in small


def test_the_line_of_text_is_on_the_screen_of_the_controls(visit):
    first = visit.page.locator(".ex-controls").bounding_box()
    line = visit.page.locator(".ex-note").bounding_box()
    assert first is not None and line is not None
    assert line["y"] + line["height"] - first["y"] < PHONE[1]
