"""The code of the front page runs, and does what the sentence below it says."""

import re
from typing import Any

import pytest

from ebmtut.ledger.listing import rows
from ebmtut.ledger.page import summary_html
from tools.paths import BOOK
from tools.prose import NUMBERS, read_page, story_pages


def test_the_code_learns_and_samples(capsys):
    page = (BOOK / "index.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)

    def agreement(x):
        return float((x[:, 1:] == x[:, :-1]).float().mean())

    # Five standard errors of 7 * 2000 independent pairs are 0.0127; the fit and the
    # chains add theirs. The baseline, independent bits, would agree in half of them.
    assert abs(agreement(names["data"]) - 0.9) < 0.0127
    assert abs(agreement(names["x"]) - 0.9) < 0.03
    said = re.search(r"prints `(learned (0\.\d\d), true 0\.90)`", page)
    printed = re.fullmatch(r"learned (0\.\d\d), true 0\.90\n", capsys.readouterr().out)
    assert said and printed
    assert abs(float(said[2]) - float(printed[1])) < 0.015


def test_lines_of_the_code_fit_a_phone():
    page = (BOOK / "index.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert max(map(len, code.splitlines())) <= 44


@pytest.mark.parametrize("chapter", ["ed", "drl", "pmp", "got", "dnfs"])
def test_the_minutes_of_a_chapter_are_those_of_its_pages(chapter):
    page = (BOOK / "index.md").read_text("utf-8")
    said = re.findall(r"(\w+) pages, about (\d+) minutes", page)
    pages = [read_page(p) for p in story_pages() if p.parent.name == chapter]
    n_pages, minutes = said[["ed", "drl", "pmp", "got", "dnfs"].index(chapter)]
    assert NUMBERS[n_pages.lower()] == len(pages)
    # Rounded to five minutes.
    assert abs(int(minutes) - sum(p.counted_minutes for p in pages)) <= 2.5


def test_the_numbers_of_the_ledger_are_those_of_today():
    page = (BOOK / "index.md").read_text("utf-8")
    said = re.search(r"Of (\d+) numbers .* print, (\d+) .*, and (\d+) of these", page)
    words = re.findall(
        r"(\d+)(?: numbers</b>| of them| of these)", summary_html(rows())
    )
    assert said and list(said.groups()) == words
