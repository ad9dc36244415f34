"""Photograph the built book's front page for the README.

make book && python -m tools.screenshot
"""

import sys
from pathlib import Path

from tools.pages import open_browser
from tools.paths import BOOK, HTML

__all__ = ["main", "photograph"]

SECONDS = 6  # of the moving picture, so that it shows something


def photograph(index: Path, target: Path) -> None:
    """Save what a reader sees first, on a desktop and in light mode.

    Parameters
    ----------
    index
        A page of the built book.
    target
        A PNG file.
    """
    with open_browser() as browser:
        page = browser.new_page(
            viewport={"width": 1280, "height": 800}, color_scheme="light"
        )
        page.goto(index.as_uri())
        page.wait_for_timeout(1000 * SECONDS)
        page.screenshot(path=str(target))


def main() -> int:
    """Run from the command line."""
    photograph(HTML / "book" / "index.html", BOOK / "_static" / "screenshot.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
