"""Measure what a reader sees of a page, and compare it with the book's budgets.

Words are those of prose, headings and captions that are visible without unfolding.
Formulas, table entries, code and folded blocks do not count. Notebooks are read as
they are stored; nothing is executed or rendered.

    python -m tools.prose                    # a report on all story pages
    python -m tools.prose book/ed/index.ipynb
"""

import itertools
import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bs4 import BeautifulSoup

from tools.paths import BOOK, ROOT, book_pages

CHAPTERS = ("ed", "drl", "pmp", "got", "dnfs")

# The budgets of book/style.md.
WORDS_OF_FIRST_PAGE = 1800
WORDS_OF_OTHER_PAGES = 1400
MOST_TABLES = 3
MOST_FIGURES = 5
MOST_CODE_LINES = 80
MOST_TABLE_LINES = 7
MOST_TABLE_COLUMNS = 5
# Pixels. Three columns of text that wraps are counted as 717 and fit 700.
WIDEST_TABLE = 720
WORDS_PER_MINUTE = 180
# A stated reading time may differ from the counted one by this fraction, and always
# by the minutes below, since authors round to five minutes.
READING_SLACK = 0.25
READING_SLACK_MINUTES = 2.5

# Pixels of a character and of the padding of an entry. With these the estimated widths
# of twelve tables that fit the text column differ from those in Chromium by at most
# twelve percent.
PIXELS_OF_CHARACTER = 7.4
PIXELS_OF_PADDING = 17

HIDDEN_OUTPUT = {"hide-cell", "hide-output", "remove-cell", "remove-output"}
HIDDEN_CODE = {"hide-cell", "hide-input", "remove-cell", "remove-input", "parameters"}
HIDDEN_DIRECTIVES = ("{raw}", "{code", "{solution", "{button-ref}", "{literalinclude}")

# Numbers in words, as reading times are stated.
_WORDS = "one two three four five six seven eight nine ten eleven twelve"
_TENS = {"a": 1, "fifteen": 15, "twenty": 20, "twenty-five": 25, "thirty": 30}
NUMBERS = _TENS | {word: n for n, word in enumerate(_WORDS.split(), start=1)}
_READING = re.compile(
    r"(?:\breading (?:time:?|takes|it takes)|\bit reads in|\breads in)"
    r"(?:\s+is)?\s+(?:about\s+|some\s+)?\**(\d+|[a-z]+(?:-[a-z]+)?)\**\s+minutes?"
    r"|\*(\d+) minutes[;,.]",  # the line below a page's title
    re.IGNORECASE,
)


class Table(NamedTuple):
    """The size of a table: lines below the header, columns, estimated pixels."""

    lines: int
    columns: int
    width: float


@dataclass
class Page:
    """What is visible of a page."""

    path: Path
    prose: str = ""
    words: int = 0
    figures: int = 0
    code_lines: int = 0
    tables: list[Table] = field(default_factory=list)
    stated_minutes: int | None = None

    @property
    def counted_minutes(self) -> int:
        """The reading time: words, and a minute for each table or figure."""
        shown = len(self.tables) + self.figures
        return math.ceil(self.words / WORDS_PER_MINUTE) + shown


def is_notes(path: Path) -> bool:
    """Whether a page holds a chapter's reproduction notes, under either name."""
    return path.stem in ("notes", "record")


def story_pages(book: Path = BOOK) -> list[Path]:
    """Return the notebooks of the chapters and of the basics, without the notes."""
    pages = []
    for path in book_pages(book.parent):
        relative = path.relative_to(book)
        chapter = relative.parts[0] in CHAPTERS and len(relative.parts) == 2
        if (chapter and not is_notes(path)) or relative.stem == "basics":
            pages.append(path)
    return pages


def visible(markdown: str) -> str:
    """Drop folded directives, code and displayed formulas."""
    kept: list[str] = []
    open_fences: list[tuple[str, bool]] = []  # the marker, and whether it hides
    lines = markdown.splitlines()
    for number, line in enumerate(lines):
        hidden = any(hides for _, hides in open_fences)
        if fence := re.match(r"^\s*(`{3,}|:{3,})(.*)$", line):
            marker, name = fence[1], fence[2].strip()
            if not name and open_fences and open_fences[-1][0] == marker:
                open_fences.pop()
                continue
            if name or not open_fences or open_fences[-1][0][0] != marker[0]:
                options = itertools.takewhile(
                    lambda option: option.lstrip().startswith(":"),
                    lines[number + 1 : number + 6],
                )
                hides = (
                    not name.startswith("{")
                    or name.startswith((*HIDDEN_DIRECTIVES, "{dropdown}"))
                    or any("dropdown" in option for option in options)
                )
                open_fences.append((marker, hidden or hides))
                continue
        if not hidden and not re.match(r"^\s*:[\w-]+:", line):
            kept.append(line)
    text = re.sub(r"\$\$.*?\$\$", "", "\n".join(kept), flags=re.DOTALL)
    return re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)


def count_words(text: str) -> int:
    """Count the words of visible Markdown; tables and inline formulas are left out."""
    text = re.sub(r"^\s*\|.*$|^\(\S+\)=$", "", text, flags=re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"</?[a-z][^>]*>", " ", re.sub(r"\$[^$]+\$", "", text))
    return len(re.sub(r"[|#*`>{}\[\]()]", " ", text).split())


def _size(rows: Sequence[Sequence[str]], n_lines: int) -> Table:
    n_columns = max((len(row) for row in rows), default=0)
    width = 0.0
    for column in range(n_columns):
        entries = [row[column].strip() for row in rows if column < len(row)]
        # Headers and labels wrap at spaces, numbers do not: a column is as wide as
        # its longest entry, but a long text takes at most thirty characters.
        longest = max(min(len(entry), 30) for entry in entries)
        width += PIXELS_OF_CHARACTER * longest + PIXELS_OF_PADDING
    return Table(n_lines, n_columns, width)


def html_tables(html: str) -> list[Table]:
    """Measure the tables of an HTML output."""
    found = []
    for table in BeautifulSoup(html, "html.parser").find_all("table"):
        lines = table.find_all("tr")
        rows = [[cell.text for cell in line.find_all(["td", "th"])] for line in lines]
        found.append(_size(rows, sum(line.td is not None for line in lines)))
    return found


def markdown_tables(text: str) -> list[Table]:
    """Measure the pipe tables of visible Markdown."""
    tables = []
    for block in re.findall(r"(?:^[ \t]*\|.*\n?)+", text, re.MULTILINE):
        rows = [
            line.strip().strip("|").split("|") for line in block.strip().split("\n")
        ]
        if len(rows) > 1 and re.fullmatch(r"[\s:|-]+", "|".join(rows[1])):
            tables.append(_size([rows[0], *rows[2:]], len(rows) - 2))
    return tables


def read_page(path: Path) -> Page:
    """Measure a page as it is stored."""
    page = Page(path)
    if path.suffix == ".md":
        _add_text(page, path.read_text("utf-8"))
        return page
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            _add_text(page, "".join(cell["source"]))
        elif cell["cell_type"] == "code":
            _add_code_cell(page, cell)
    return page


def _add_text(page: Page, markdown: str) -> None:
    seen = visible(markdown)
    page.prose += markdown + "\n\n"
    page.words += count_words(seen)
    page.tables += markdown_tables(seen)
    if stated := _READING.search(re.sub(r"\s+", " ", seen)):
        text = (stated[1] or stated[2]).lower()
        page.stated_minutes = int(text) if text.isdigit() else NUMBERS.get(text)


def _add_code_cell(page: Page, cell: dict[str, Any]) -> None:
    tags = set(cell["metadata"].get("tags", []))
    if not tags & HIDDEN_OUTPUT:
        about = cell["metadata"].get("mystnb", {})
        _add_text(page, about.get("figure", {}).get("caption", ""))
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                page.figures += 1
            elif "application/vnd.jupyter.widget-view+json" not in data:
                page.tables += html_tables("".join(data.get("text/html", "")))
    if not tags & HIDDEN_CODE:
        lines = "".join(cell["source"]).splitlines()
        page.code_lines += sum(bool(line.strip()) for line in lines)


def over_budget(page: Page) -> list[str]:
    """Return what of a story page exceeds a budget; empty if nothing does."""
    first = page.path.stem in ("index", "basics")
    most_words = WORDS_OF_FIRST_PAGE if first else WORDS_OF_OTHER_PAGES
    counts = (
        ("words", page.words, most_words),
        ("tables", len(page.tables), MOST_TABLES),
        ("figures", page.figures, MOST_FIGURES),
        ("lines of visible code", page.code_lines, MOST_CODE_LINES),
    )
    over = [f"{n} {what}, at most {most}" for what, n, most in counts if n > most]
    for number, table in enumerate(page.tables, start=1):
        sizes = (
            ("lines", table.lines, MOST_TABLE_LINES),
            ("columns", table.columns, MOST_TABLE_COLUMNS),
            ("pixels of width", round(table.width), WIDEST_TABLE),
        )
        over += [
            f"table {number} has {n} {what}, at most {most}"
            for what, n, most in sizes
            if n > most
        ]
    if page.stated_minutes is not None:
        counted = page.counted_minutes
        allowed = max(READING_SLACK_MINUTES, READING_SLACK * counted)
        if abs(page.stated_minutes - counted) > allowed:
            over.append(
                f"the page states a reading time of {page.stated_minutes} minutes, "
                f"counted are {counted}"
            )
    return over


def main(paths: Sequence[str]) -> None:
    """Report on these pages, by default on all story pages."""
    for path in [Path(name).resolve() for name in paths] or story_pages():
        page = read_page(path)
        print(
            f"{path.relative_to(ROOT)}: {page.words} words, {len(page.tables)} tables, "
            f"{page.figures} figures, {page.code_lines} lines of code, "
            f"{page.counted_minutes} min",
            *over_budget(page),
            sep="\n    over: ",
        )


if __name__ == "__main__":
    main(sys.argv[1:])
