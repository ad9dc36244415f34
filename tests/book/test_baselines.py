"""A tolerance of a stored output tells success from the baseline."""

import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

from tools.paths import ROOT, book_notebooks

NOTEBOOKS = {str(path.relative_to(ROOT)): path for path in book_notebooks()}
#: Columns that no claim is about: there methods are as good as their baseline.
FREE = re.compile(r"second|time|step|evaluation|how many|sweep", re.IGNORECASE)

#: Cells of tables whose methods are no better than their baseline, and that say so.
NO_GAIN = {"learning-run", "cell-22"}


class Rows(HTMLParser):
    """The rows of a table, each with its kind, as `ebmtut.results.tables` writes it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[tuple[str, list[str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append((dict(attrs).get("class") or "", []))
        elif tag in ("td", "th") and self.rows:
            self.rows[-1][1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1][1]:
            self.rows[-1][1][-1] += data


def number(cell: str) -> float | None:
    """The first number of a cell, without its error."""
    plain = cell.replace("\u2212", "-").split("\u00b1")[0].strip()
    return float(plain) if re.fullmatch(r"[-+]?\d+\.\d+(e[-+]?\d+)?", plain) else None


def columns_of(
    html: str, tolerance: float, share: float
) -> tuple[list[str], list[str]]:
    """Columns that tell a method from the baselines, and those that tell none."""
    (_, heads), *rows = Rows(html).rows
    telling: list[str] = []
    blind: list[str] = []
    for k, head in enumerate(heads):
        found = [(kind, number(cells[k])) for kind, cells in rows if k < len(cells)]
        baselines = [v for kind, v in found if kind == "null" and v is not None]
        methods = [v for kind, v in found if not kind and v is not None]
        if not baselines or not methods or FREE.search(head):
            continue
        gaps = [
            max(abs(v - b) - max(tolerance, share * abs(v)) for b in baselines)
            for v in methods
        ]
        told = f"{head}: {methods} beside {baselines}"
        (telling if max(gaps) > 0 else blind).append(told)
    return telling, blind


def blind_tables(notebook: Path) -> list[str]:
    """Tables no column of which tells a method from its baseline."""
    found = []
    for cell in nbformat.read(notebook, as_version=4).cells:
        about = cell.metadata.get("ebmtut", {})
        tolerance, share = about.get("tolerance", 0.0), about.get("share", 0.0)
        if not tolerance and not share:
            continue
        for output in cell.get("outputs", ()):
            html = output.get("data", {}).get("text/html", "")
            if "<table" not in html:
                continue
            telling, blind = columns_of(html, tolerance, share)
            if blind and not telling and cell.id not in NO_GAIN:
                found.append("; ".join(blind))
    return found


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_tolerance_lets_the_baseline_pass(name: str) -> None:
    """In each table one column at least would fail with the baseline's numbers."""
    wrong = blind_tables(NOTEBOOKS[name])
    assert not wrong, "the tolerance is wider than the gain:\n" + "\n".join(wrong)


@pytest.mark.parametrize(("tolerance", "is_blind"), [(0.1, False), (0.5, True)])
def test_a_wide_tolerance_is_seen(tolerance: float, is_blind: bool) -> None:
    html = (
        "<table><tr><th>method</th><th>KL</th></tr>"
        "<tr><th>ED</th><td>0.041 \u00b1\u00a00.002</td></tr>"
        '<tr class="null"><th>uniform</th><td>0.51</td></tr></table>'
    )
    telling, blind = columns_of(html, tolerance, 0.0)
    assert (len(telling), len(blind)) == ((0, 1) if is_blind else (1, 0))
