"""Check that internal links, anchors and pictures of a built book lead somewhere."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

# Which attribute of which element names another file.
ATTRIBUTES = {
    "a": "href",
    "link": "href",
    "img": "src",
    "script": "src",
    "iframe": "src",
    "source": "src",
}


def _links_and_anchors(html: str) -> tuple[set[str], set[str]]:
    """Return what a page links to and the anchors that it offers."""
    soup = BeautifulSoup(html, "html.parser")
    links = {str(tag.get(ATTRIBUTES[tag.name], "")) for tag in soup(list(ATTRIBUTES))}
    anchors = {
        str(tag[name]) for name in ("id", "name") for tag in soup.select(f"[{name}]")
    }
    return links - {""}, anchors


def dead_links(html: Path) -> list[str]:
    """Return the internal links that lead nowhere, ``page: link (why)``."""
    html = html.resolve()
    pages = {
        path: _links_and_anchors(path.read_text("utf-8"))
        for path in sorted(html.rglob("*.html"))
        if "_static" not in path.relative_to(html).parts
    }
    dead = []
    for path, (links, _) in pages.items():
        name = path.relative_to(html)
        for link in sorted(links):
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
                _, anchors = pages[target]
                if unquote(parts.fragment) not in anchors:
                    dead.append(f"{name}: {link} (no such anchor)")
    return dead
