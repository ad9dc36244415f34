"""Check that internal links, anchors and pictures of a built book lead somewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Which attribute of which element names another file.
ATTRIBUTES = {
    "a": "href",
    "link": "href",
    "img": "src",
    "script": "src",
    "iframe": "src",
    "source": "src",
}


class _Page(HTMLParser):
    """What a page links to and the anchors it offers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links and anchors."""
        values = dict(attrs)
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(str(values[name]))
        link = values.get(ATTRIBUTES.get(tag, ""))
        if link:
            self.links.add(link)


def dead_links(html: Path) -> list[str]:
    """Return the internal links that lead nowhere, ``page: link (why)``."""
    html = html.resolve()
    pages = {
        path: _Page(path.read_text("utf-8"))
        for path in sorted(html.rglob("*.html"))
        if "_static" not in path.relative_to(html).parts
    }
    dead = []
    for path, page in pages.items():
        name = path.relative_to(html)
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path.startswith("/"):
                dead.append(f"{name}: {link} (absolute: breaks below a folder)")
                continue
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
            if not target.is_file():
                dead.append(f"{name}: {link} (no such file)")
            elif parts.fragment and target in pages:
                anchor = unquote(parts.fragment)
                if anchor not in pages[target].anchors:
                    dead.append(f"{name}: {link} (no such anchor)")
    return dead
