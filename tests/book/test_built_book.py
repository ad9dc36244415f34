"""The built book: every page is there, every link leads somewhere, nothing is left out.

That it builds without a warning is checked where it is built, in tools/render.py.
"""

import json
import re
from functools import cache
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from ebmtut.cli import main
from tools.api_pages import undocumented
from tools.paths import ROOT
from tools.render import missing_pages, toc_pages

pytestmark = pytest.mark.rendered


class Page(HTMLParser):
    """The links, anchors and pictures of a page, read in one pass without a tree."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.alts = set(), {""}, []  # "": the page itself
        self.in_article = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.in_article |= tag == "article"
        named = {name: value or "" for name, value in attrs}
        self.links |= {named[key] for key in ("href", "src") if named.get(key)}
        self.anchors |= {named[key] for key in ("id", "name") if key in named}
        if tag == "img" and self.in_article:
            self.alts.append(named.get("alt", ""))

    def handle_endtag(self, tag):
        self.in_article &= tag != "article"


#: A page by its text, which is parsed once for all tests of this process.
page_of = cache(Page)


def dead_links(html):
    """Return the internal links that lead nowhere, ``page: link (why)``."""
    html = html.resolve()
    pages = {
        path: page_of(path.read_text("utf-8"))
        for path in sorted(html.rglob("*.html"))
        if "_static" not in path.relative_to(html).parts
    }
    dead = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve()
            if not parts.path:
                target = path
            why, name = "", unquote(parts.fragment)
            if parts.path.startswith("/"):
                why = "absolute: breaks below a folder"
            elif not target.is_file():
                why = "no such file"
            elif target in pages and name not in pages[target].anchors:
                why = "no such anchor"
            if why:
                dead.append(f"{path.relative_to(html)}: {link} ({why})")
    return dead


def test_every_page_is_there(html):
    assert toc_pages()
    assert missing_pages(ROOT, html) == []


def test_every_picture_has_a_text(html, pages):
    """Sphinx puts the file's name where an author wrote nothing."""
    silent = re.compile(r"|.*\.(png|jpe?g|webp|svg|gif)")
    found = {page: page_of((html / page).read_text("utf-8")).alts for page in pages}
    for page, alts in found.items():
        assert not any(silent.fullmatch(alt) for alt in alts), (page, alts)
    assert any(found.values())


def test_every_public_name_is_documented(html):
    assert undocumented(html) == []


def test_no_unresolved_reference(html, pages):
    """Sphinx leaves these marks where a reference or a citation leads nowhere."""
    marks = re.compile(r'class="[^"]*problematic|\[\?\]|\{(?:ref|eq|cite|py:\w+)\}`')
    wrong = [
        f"{page}: {mark}"
        for page in pages
        for mark in marks.findall((html / page).read_text("utf-8"))
    ]
    assert not wrong


def test_every_internal_link_leads_somewhere(html):
    dead = dead_links(html)
    assert not dead, "\n".join(dead)


def test_every_result_is_shown(html, pages, capsys):
    """What the ledger calls live or stored has its section on a chapter's page."""
    assert main(["list", "--json"]) == 0
    ledger = json.loads(capsys.readouterr().out)
    assert ledger, "the ledger is empty"
    shown = [
        row["id"].replace("/", "-")
        for row in ledger
        if any(at["state"] in ("live", "stored") for at in row["scales"].values())
    ]
    assert shown
    text = "\n".join((html / page).read_text("utf-8") for page in pages)
    assert not [label for label in shown if f'id="{label}"' not in text]


def test_a_page_opens_with_words(html, pages):
    """Imports and parameters are one folded line, below the first paragraph."""
    fold = "Imports and parameters of this page"
    for page in pages:
        text = (html / page).read_text("utf-8")
        if "tag_parameters" in text or fold in text:
            assert text.count(fold) == 1, page
            assert "tag_parameters" not in text, page
            assert 0 < text.find("<p>", text.find("<article")) < text.find(fold), page


def test_results_come_before_their_code(html, pages):
    """A folded cell shows what it made first; each fold says what it holds."""
    shown = 0
    for page in pages:
        text = (html / page).read_text("utf-8")
        assert "Show code cell" not in text, page
        for fold in re.finditer('<details class="admonition hide ([^"]*)"', text):
            before = text[: fold.start()].rstrip()
            alone = before.endswith('docutils container">')
            after = text[text.index("</details>", fold.end()) :]
            # Alone: nothing was made, above or below.
            ends = after.removeprefix("</details>").lstrip().startswith("</div>")
            assert ends and (alone or "below-result" in fold[1]), (page, before[-200:])
            shown += not alone
    assert shown
