"""The built book as a reader sees it: in a browser, with no network and no kernel."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from tools.pages import DESKTOP, PHONE, serve, visitor

pytestmark = pytest.mark.browser

# Cells of widgets that no visible still follows.
WIDGETS_WITHOUT_PICTURE = """() => {
  const kind = "application/vnd.jupyter.widget-view+json";
  const views = [...document.querySelectorAll(`script[type="${kind}"]`)];
  const seen = image => image.naturalWidth && image.offsetWidth;
  return views.map(view => view.closest("div.cell")).filter(cell => {
    const next = cell.nextElementSibling;
    const after = [next, next?.nextElementSibling];
    return !after.some(one => one?.matches(".tag_still")
      && [...one.querySelectorAll("img")].some(seen));
  }).map(cell => cell.closest("section").id);
}"""

# So that two browsers have done at the same time.
N_PARTS = 4
in_parts = pytest.mark.parametrize("part", range(N_PARTS))

# What axe-core says of elements that pass takes more time than its checks.
BRIEFLY = {"resultTypes": ["violations"], "selectors": False, "preload": False}
BY_COLOUR = ("color-contrast", "link-in-text-block")
ALL_BUT_COLOURS = BRIEFLY | {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    "rules": {rule: {"enabled": False} for rule in BY_COLOUR},
}
ONLY_COLOURS = BRIEFLY | {"runOnly": {"type": "rule", "values": BY_COLOUR}}
SOME_OF_THE_REFERENCE = ("book/api/index.html", "book/api/checks.html")

# The contrast of a text depends on these properties alone, and axe-core needs half a
# minute for all texts of a long page. Keep one text of each kind that is not known yet
# and empty the rest, which leaves the positions of all elements that style sheets may
# count. Return the kinds that are kept.
KEEP_ONE_OF_EACH_COLOUR = """known => {
  const style = e => getComputedStyle(e);
  const once = (f, known = new Map()) => e => {
    if (e && !known.has(e)) known.set(e, f(e));
    return known.get(e);
  };
  const kinds = new Map();
  for (const theme of ["light", "dark"]) {
    document.documentElement.dataset.theme = theme;
    const ground = once(e => {
      const {backgroundColor, backgroundImage} = style(e);
      const none = backgroundColor === "rgba(0, 0, 0, 0)" && backgroundImage === "none";
      return none ? ground(e.parentElement) : backgroundColor + backgroundImage;
    });
    const opacity = once(e => style(e).opacity * (opacity(e.parentElement) ?? 1));
    for (const e of document.body.querySelectorAll("*")) {
      const text = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
      if (!(text || e.matches("input, select, textarea")) || !e.checkVisibility())
        continue;
      const {color, fontSize, fontWeight, textDecorationLine, textShadow} = style(e);
      const around = e.closest("a")?.parentElement;
      const kind = String([theme, e.localName, color, fontSize, fontWeight, textShadow,
        textDecorationLine, ground(e), opacity(e), around && style(around).color]);
      if (!kinds.has(kind) && !known.includes(kind)) kinds.set(kind, e);
    }
  }
  const kept = new Set();
  for (const one of kinds.values()) {
    for (let e = one; e; e = e.parentElement) kept.add(e);
    one.querySelectorAll("*").forEach(e => kept.add(e));
  }
  for (const e of document.body.querySelectorAll("*"))
    if (!kept.has(e)) e.replaceChildren();
  return [...kinds.keys()];
}"""

RUN_AXE = "async options => (await axe.run(options)).violations"
# Colours that fade over would be checked half-way.
AT_ONCE = "*, *::before, *::after { transition: none !important; }"


@pytest.fixture(scope="module")
def address(html):
    with serve(html) as where:
        yield where


@pytest.fixture(scope="module")
def desk(browser):
    with visitor(browser, DESKTOP) as visit:
        yield visit


@pytest.fixture(scope="module")
def colours():
    """Kinds of coloured texts of the pages that have been opened."""
    return set()


@pytest.fixture(scope="module")
def phone(browser):
    with visitor(browser, PHONE) as visit:
        yield visit


@pytest.fixture(scope="module")
def widget_pages(html, pages):
    mark = "application/vnd.jupyter.widget-view+json"
    found = [page for page in pages if mark in (html / page).read_text("utf-8")]
    assert found, "no page has a widget"
    return found


def look(visit, address, pages, further=lambda visit, page: []):
    """Open each page; return what is wrong with it, also by a further check."""
    wrong = []
    for page in pages:
        visit.open(f"{address}/{page}")
        wrong += [f"{page}: {what}" for what in visit.wrong() + further(visit, page)]
    return wrong


def barriers(visit, page, known):
    """Violations of WCAG A and AA by axe-core on a page, its colours light and dark.

    The reference's pages are made alike: two of them stand for all. Kinds of coloured
    texts that earlier pages had are known, and this page's are added.
    """
    if "/api/" in page and page not in SOME_OF_THE_REFERENCE:
        return []
    visit.page.add_style_tag(content=AT_ONCE)
    visit.page.evaluate(AXE_SCRIPT)
    found = []

    def run(theme, options):
        for rule in visit.page.evaluate(RUN_AXE, options):
            first = rule["nodes"][0]["html"][:100]
            found.append(f"{theme}: {rule['id']}, such as {first}")

    run("light", ALL_BUT_COLOURS)
    kept = visit.page.evaluate(KEEP_ONE_OF_EACH_COLOUR, sorted(known))
    known.update(kept)
    assert known
    for theme in ("light", "dark") if kept else ():
        visit.page.evaluate(f"document.documentElement.dataset.theme = {theme!r}")
        run(theme, ONLY_COLOURS)
    return found


@in_parts
def test_pages_on_a_desk(desk, address, pages, widget_pages, colours, part):
    """No error, no foreign request; all is drawn, answers, and everybody can read it.

    Widgets answer without a kernel. In a narrow window no page scrolls sideways; pages
    with widgets are opened in one below.
    """
    chapters = [page for page in pages if "/api/" not in page]
    assert len(chapters) >= 20
    assert {*SOME_OF_THE_REFERENCE} <= {*pages}

    def further(visit, page):
        if page in widget_pages:
            found = visit.dead_sliders()
        else:
            visit.resize(PHONE)
            found = visit.wrong()
            visit.resize(DESKTOP)
        # What counts colours takes the page apart, and so comes last.
        return [*found, *barriers(visit, page, colours)]

    wrong = look(desk, address, pages[part::N_PARTS], further)
    assert not wrong, "\n".join(wrong)


def test_pale_text_is_caught(desk, address):
    """In one theme and the other, among many texts of their usual colours."""
    page = SOME_OF_THE_REFERENCE[1]
    for colour, theme in (("#aaa", "light"), ("#555", "dark")):
        desk.open(f"{address}/{page}")
        desk.page.evaluate(
            """colour => {
              const shown = e => e.checkVisibility() && e.textContent.trim();
              const texts = [...document.querySelectorAll("article p")].filter(shown);
              texts[texts.length >> 1].style.color = colour;
            }""",
            colour,
        )
        (found,) = barriers(desk, page, set())
        assert found.startswith(f"{theme}: color-contrast")


def test_front_door_leads_to_the_front_page(desk, address):
    desk.page.goto(address)
    desk.page.wait_for_url("**/book/index.html")


def test_pages_on_a_phone(phone, address, widget_pages):
    """No error there either, where scripts see a narrow window from the beginning.

    Each control of a widget is tall enough for a finger. Other pages have the scripts
    of the theme only, and are narrowed when open.
    """
    wrong = look(
        phone,
        address,
        [*widget_pages, SOME_OF_THE_REFERENCE[0]],
        lambda visit, page: visit.small_controls(),
    )
    assert not wrong, "\n".join(wrong)


def test_widgets_answer_on_a_phone(phone, address, widget_pages):
    phone.open(f"{address}/{widget_pages[0]}")
    assert not phone.wrong()
    assert not phone.dead_sliders()
    assert not phone.wrong()


def test_widgets_answer_from_a_file(desk, html, widget_pages):
    """The built folder works when it is opened without any server."""
    desk.open((html / widget_pages[0]).as_uri())
    assert not desk.wrong()
    assert not desk.dead_sliders()
    assert not desk.wrong()


def test_a_picture_stands_in_for_each_widget(browser, address, widget_pages):
    """Where scripts are off, a still stands behind the widget."""
    with visitor(browser, scripts=False) as plain:
        for page in widget_pages:
            plain.page.goto(f"{address}/{page}")
            alone = plain.page.evaluate(WIDGETS_WITHOUT_PICTURE)
            assert not alone, f"{page}: no still in {alone}"


def test_search_finds_a_page(desk, address):
    """Its excerpts show formulas as they were typed: only errors count here."""
    desk.open(f"{address}/search.html?q=energy")
    desk.page.wait_for_selector("#search-results li a")
    assert not desk.problems
