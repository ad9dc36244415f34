"""The built book as a reader sees it: in a browser, with no network and no kernel."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from tools.pages import DESKTOP, PHONE, Visit, visitor
from tools.serve import serve

pytestmark = pytest.mark.browser

# Sections that hold a widget, and no picture that is seen without scripts.
SECTIONS_WITHOUT_PICTURE = """() => {
  const kind = "application/vnd.jupyter.widget-view+json";
  const views = [...document.querySelectorAll(`script[type="${kind}"]`)];
  const seen = image => image.naturalWidth && image.offsetWidth;
  return views.map(view => view.closest("section"))
    .filter(section => ![...section.querySelectorAll("img")].some(seen))
    .map(section => section.id);
}"""

# Colours that fade over would be judged half way.
AT_ONCE = "*, *::before, *::after { transition: none !important; }"


@pytest.fixture(scope="module")
def address(html: Path) -> Iterator[str]:
    with serve(html) as where:
        yield where


@pytest.fixture(scope="module")
def desk(browser: Browser) -> Iterator[Visit]:
    with visitor(browser, DESKTOP) as visit:
        yield visit


@pytest.fixture(scope="module")
def phone(browser: Browser) -> Iterator[Visit]:
    with visitor(browser, PHONE) as visit:
        yield visit


@pytest.fixture(scope="module")
def widget_pages(html: Path, pages: list[str]) -> list[str]:
    """Pages that hold the state of widgets."""
    mark = "application/vnd.jupyter.widget-view+json"
    found = [page for page in pages if mark in (html / page).read_text("utf-8")]
    assert found, "no page has a widget"
    return found


def look(visit: Visit, address: str, pages: list[str]) -> list[str]:
    """Open each page; return what is wrong, page by page."""
    wrong = []
    for page in pages:
        visit.open(f"{address}/{page}")
        wrong += [f"{page}: {what}" for what in visit.wrong()]
    return wrong


def test_pages_on_a_desk(desk: Visit, address: str, pages: list[str]) -> None:
    """No error, no foreign request; formulas, pictures and widgets are drawn."""
    assert pages
    wrong = look(desk, address, pages)
    assert not wrong, "\n".join(wrong)


def test_front_door_leads_to_the_front_page(desk: Visit, address: str) -> None:
    desk.page.goto(address)
    desk.page.wait_for_url("**/book/index.html")


def test_pages_on_a_phone(phone: Visit, address: str, pages: list[str]) -> None:
    """The same, and no page scrolls sideways."""
    assert pages
    wrong = look(phone, address, pages)
    assert not wrong, "\n".join(wrong)


def test_widgets_answer_without_a_kernel(
    desk: Visit, address: str, widget_pages: list[str]
) -> None:
    for page in widget_pages:
        desk.open(f"{address}/{page}")
        assert not desk.wrong()
        assert not desk.dead_sliders(), page
        assert not desk.wrong()


def test_widgets_answer_on_a_phone(
    phone: Visit, address: str, widget_pages: list[str]
) -> None:
    phone.open(f"{address}/{widget_pages[0]}")
    assert not phone.wrong()
    assert not phone.dead_sliders()
    assert not phone.wrong()


def test_widgets_answer_from_a_file(
    desk: Visit, html: Path, widget_pages: list[str]
) -> None:
    """The built folder works when it is opened without any server."""
    desk.open((html / widget_pages[0]).as_uri())
    assert not desk.wrong()
    assert not desk.dead_sliders()
    assert not desk.wrong()


def test_a_picture_stands_in_for_each_widget(
    browser: Browser, address: str, widget_pages: list[str]
) -> None:
    """Where scripts are off, the widget's section still shows a picture."""
    with visitor(browser, scripts=False) as plain:
        for page in widget_pages:
            plain.page.goto(f"{address}/{page}")
            alone = plain.page.evaluate(SECTIONS_WITHOUT_PICTURE)
            assert not alone, f"{page}: no picture in {alone}"


def test_search_finds_a_page(desk: Visit, address: str) -> None:
    """Its excerpts show formulas as they were typed: only errors count here."""
    desk.open(f"{address}/search.html?q=energy")
    desk.page.wait_for_selector("#search-results li a")
    assert not desk.problems


def test_everybody_can_read_the_pages(
    desk: Visit, address: str, pages: list[str]
) -> None:
    """No violation of WCAG A or AA by axe-core, light and dark.

    The reference's pages are made alike: two of them stand for all.
    """
    chapters = [p for p in pages if p.startswith("book/") and "/api/" not in p]
    assert len(chapters) >= 20
    chapters += ["book/api/index.html", "book/api/checks.html"]
    rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
    wrong = []
    for page in chapters:
        desk.open(f"{address}/{page}")
        desk.page.add_style_tag(content=AT_ONCE)
        for theme in ("light", "dark"):
            desk.page.evaluate(f"document.documentElement.dataset.theme = {theme!r}")
            for found in Axe().run(desk.page, options=rules).response["violations"]:
                first = found["nodes"][0]["html"][:100]
                wrong.append(f"{page}, {theme}: {found['id']}, such as {first}")
    assert not wrong, "\n".join(wrong)
