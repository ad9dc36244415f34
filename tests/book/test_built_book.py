"""The built book: every page is there, every link leads somewhere, nothing is left out.

That it builds without a warning is checked where it is built, in tools/render.py.
"""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ebmtut.cli import main
from tools.api_pages import undocumented
from tools.links import dead_links
from tools.paths import ROOT
from tools.render import missing_pages, toc_pages

pytestmark = pytest.mark.rendered

FEWEST_WORDS = 60


class _Article(HTMLParser):
    """The text of a page's article."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.depth = 0
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "article":
            self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self.depth -= 1

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.text += data


def page_text(html: Path, page: str) -> str:
    return _Article((html / page).read_text("utf-8")).text


def test_every_page_is_there(html: Path) -> None:
    assert toc_pages()
    assert missing_pages(ROOT, html) == []


def test_every_page_has_something_to_say(html: Path, pages: list[str]) -> None:
    words = {page: len(page_text(html, page).split()) for page in pages}
    assert not {page: n for page, n in words.items() if n < FEWEST_WORDS}


def test_every_public_name_is_documented(html: Path) -> None:
    assert undocumented(html) == []


def test_no_unresolved_reference(html: Path, pages: list[str]) -> None:
    """Sphinx leaves these marks where a reference or a citation leads nowhere."""
    marks = re.compile(r'class="[^"]*problematic|\[\?\]|\{(?:ref|eq|cite|py:\w+)\}`')
    wrong = [
        f"{page}: {mark}"
        for page in pages
        for mark in marks.findall((html / page).read_text("utf-8"))
    ]
    assert not wrong


def test_every_internal_link_leads_somewhere(html: Path) -> None:
    dead = dead_links(html)
    assert not dead, "\n".join(dead)


def test_every_result_is_shown(
    html: Path, pages: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What the ledger calls live or stored is named on a chapter's page."""
    assert main(["list", "--json"]) == 0
    ledger = json.loads(capsys.readouterr().out)
    assert ledger, "the ledger is empty"
    shown = [
        row["id"]
        for row in ledger
        if any(at["state"] in ("live", "stored") for at in row["scales"].values())
    ]
    chapters = [page for page in pages if not page.startswith("book/ledger")]
    text = "\n".join(page_text(html, page) for page in chapters)
    assert not [name for name in shown if name not in text]
