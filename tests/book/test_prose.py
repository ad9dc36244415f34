"""Story pages keep to the budgets of words, tables, figures and code."""

import json
from pathlib import Path

import pytest

from tools.paths import BOOK
from tools.prose import CHAPTERS, over_budget, read_page, story_pages

PAGES = story_pages()
SILENT = {Path("basics.ipynb"), Path("dnfs/index.ipynb")}
PLAIN = "A sentence of six words here.\n\n"


def page_of(folder, *cells, name="ising.ipynb"):
    common = {"metadata": {}, "outputs": []}
    file = folder / name
    file.write_text(json.dumps({"cells": [common | cell for cell in cells]}), "utf-8")
    return read_page(file)


def markdown(text):
    return {"cell_type": "markdown", "source": [text]}


def code(source="", *tags, caption="", **data):
    outputs = [
        {"output_type": "display_data", "data": {k: [v]}} for k, v in data.items()
    ]
    about = {"tags": list(tags), "mystnb": {"figure": {"caption": caption}}}
    return {
        "cell_type": "code",
        "source": [source],
        "metadata": about,
        "outputs": outputs,
    }


def table(n_lines, n_columns, text="1.2"):
    row = f"<tr><th>a</th>{f'<td>{text}</td>' * (n_columns - 1)}</tr>"
    head = f"<tr>{'<th>a</th>' * n_columns}</tr>"
    return f"<table><thead>{head}</thead><tbody>{row * n_lines}</tbody></table>"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(BOOK)))
def test_page_keeps_to_its_budgets(path):
    over = over_budget(read_page(path))
    assert not over, "\n".join(over)


def test_pages_state_a_reading_time():
    missing = [path for path in PAGES if read_page(path).stated_minutes is None]
    # Chapter 0 has it in its title.
    assert {path.relative_to(BOOK) for path in missing} <= SILENT


def test_every_chapter_has_story_pages():
    found = {path.relative_to(BOOK).parts[0] for path in PAGES}
    assert set(CHAPTERS) <= found
    assert not [path for path in PAGES if path.stem in ("record", "notes")]


def test_only_what_is_visible_counts(tmp_path):
    folded = "```{solution} ex\n:class: dropdown\nA long proof of many words.\n```\n"
    note = ":::{note}\nThese four words count.\n:::\n"
    listing = "```python\nx = 1\n```\n"
    formulas = "$$\na + b\n$$\n\n$p(x) < q(x)$ and $E > 0$\n"
    page = page_of(
        tmp_path,
        markdown(PLAIN + folded + note + listing + formulas),
        code("x = 1\n\ny = 2", caption="Three more words."),
        code("hidden = 1", "hide-input"),
        code("seed: int = 0", "parameters"),
        code("gone = 1", "hide-cell", caption="Words that are folded."),
    )
    assert page.words == 6 + 4 + 1 + 3  # "and" stands between the formulas
    assert page.code_lines == 2


def test_tables_and_figures_count_where_they_are_shown(tmp_path):
    html = {"text/html": table(3, 2)}
    page = page_of(
        tmp_path,
        markdown("| a | b |\n|---|--:|\n| 1 | 2 |\n| 3 | 4 |\n"),
        code(**html),
        code("", "hide-output", **html),
        code(**{"image/png": "..."}),
        code("", "remove-cell", **{"image/png": "..."}),
    )
    assert [(t.lines, t.columns) for t in page.tables] == [(2, 2), (3, 2)]
    assert page.figures == 1
    assert page.words == 0
    assert page.counted_minutes == 3


HUGE = {
    "words": [markdown("word " * 1451)],
    "tables": [code(**{"text/html": table(2, 2)})] * 4,
    "figures": [code(**{"image/png": "..."})] * 6,
    "lines of visible code": [code("x = 1\n" * 81)],
    "lines": [code(**{"text/html": table(8, 2)})],
    "columns": [code(**{"text/html": table(2, 6)})],
    "pixels of width": [code(**{"text/html": table(2, 5, "1.23456789012345678901")})],
    "reading time": [markdown("Reading takes thirty minutes.")],
    "counted are 1": [markdown("*12 minutes; the code runs in half a minute.*")],
}


@pytest.mark.parametrize("what", HUGE)
def test_excess_is_caught(tmp_path, what):
    (over,) = over_budget(page_of(tmp_path, *HUGE[what]))
    assert what in over
