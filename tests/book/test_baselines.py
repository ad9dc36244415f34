"""A tolerance of a stored output tells success from the baseline."""

import re

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_output

from tools.paths import ROOT, book_notebooks

NOTEBOOKS = {str(path.relative_to(ROOT)): path for path in book_notebooks()}
#: Columns that no claim is about: there methods are as good as their baseline.
FREE = re.compile(r"second|time|step|evaluation|how many|sweep", re.IGNORECASE)

#: A number of an output, where letters and signs do not go on.
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)")


def rows_of(html):
    """The rows of a table, each with its kind, as `ebmtut.results.tables` writes it."""
    return [
        (" ".join(row.get("class", [])), [cell.text for cell in row(["td", "th"])])
        for row in BeautifulSoup(html, "html.parser")("tr")
    ]


def number(cell):
    """The first number of a cell, without its error."""
    plain = cell.replace("\u2212", "-").split("\u00b1")[0].strip()
    return float(plain) if re.fullmatch(r"[-+]?\d+\.\d+(e[-+]?\d+)?", plain) else None


def columns_of(html, tolerance, share):
    """Columns that tell a method from the baselines, and those that tell none."""
    (_, heads), *rows = rows_of(html)
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


def lines_of(cell):
    """Lines of what a cell printed, and of its tables, cell by cell."""
    lines = []
    for output in cell.get("outputs", ()):
        lines += output.get("text", "").splitlines()
        html = output.get("data", {}).get("text/html", "")
        if "<table" in html:
            lines += [" ".join(map(str.strip, cells)) for _, cells in rows_of(html)]
    return [line.replace("\u2212", "-") for line in lines]


def numbers_after(label, lines):
    """Numbers that stand behind a label, in the first line that has it."""
    label = re.escape(label.replace("\u2212", "-"))
    for line in lines:
        if found := re.search(rf"(?:^|[\s,]){label}(?![\w.])", line):
            return [float(number) for number in NUMBER.findall(line[found.end() :])]
    return []


def blind_labels(cell):
    """Numbers that could be those of the baseline, as a cell declares them.

    `baseline` maps a label to what the numbers behind it must not be taken for: a
    number, one for each (null where there is none), or the label of another line.
    """
    about = cell.metadata["ebmtut"]
    tolerance, share = about.get("tolerance", 0.0), about.get("share", 0.0)
    lines, blind = lines_of(cell), []
    for label, declared in about["baseline"].items():
        found = numbers_after(label, lines)
        if isinstance(declared, str):
            declared = numbers_after(declared, lines)[:1]
        baselines = declared if isinstance(declared, list) else [declared]
        told = [
            base is None or abs(number - base) > max(tolerance, share * abs(number))
            for number, base in zip(found, baselines, strict=False)
        ]
        if len(told) < len(baselines) or not all(told) or not told:
            blind.append(f"{label}: {found} beside {baselines}")
    return blind


def blind_cells(notebook):
    """Cells whose tolerance does not tell their numbers from a baseline's."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        about = cell.metadata.get("ebmtut", {})
        tolerance, share = about.get("tolerance", 0.0), about.get("share", 0.0)
        if not cell.get("outputs") or not (tolerance or share):
            continue
        if "baseline" in about:
            yield from (f"{cell.id}: {told}" for told in blind_labels(cell))
            continue
        tables = [
            columns_of(html, tolerance, share)
            for output in cell.get("outputs", ())
            if "<table" in (html := output.get("data", {}).get("text/html", ""))
        ]
        if not tables:
            yield f"{cell.id} declares a tolerance and no baseline"
        for telling, blind in tables:
            if not telling:
                yield f"{cell.id}: {'; '.join(blind) or 'no baseline is declared'}"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_tolerance_lets_the_baseline_pass(name):
    """A cell that is no better than its baseline would fail; others are exact."""
    wrong = list(blind_cells(NOTEBOOKS[name]))
    assert not wrong, "the tolerance is wider than the gain:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("baseline", "is_blind"),
    [
        ({"energy": "independent bits"}, False),
        ({"energy": 0.5}, False),
        ({"energy": 0.2}, True),
        ({"flow": [None, 3]}, False),
        ({"flow": [None, 2]}, True),
        ({"flow": [None, None, 1]}, True),
        ({"lost": 0.5}, True),
        ({"energy": "lost"}, True),
    ],
)
def test_a_declared_baseline_is_compared(baseline, is_blind):
    cell = new_code_cell("", metadata={"ebmtut": {"tolerance": 0.2}})
    cell.metadata["ebmtut"]["baseline"] = baseline
    text = "KL, independent bits: 0.8 nats\nKL, energy: 0.1 nats\nKL, flow: 1.25 of 2\n"
    cell.outputs = [new_output("stream", name="stdout", text=text)]
    assert bool(blind_labels(cell)) == is_blind


@pytest.mark.parametrize(("tolerance", "is_blind"), [(0.1, False), (0.5, True)])
def test_a_wide_tolerance_is_seen(tolerance, is_blind):
    html = (
        "<table><tr><th>method</th><th>KL</th></tr>"
        "<tr><th>ED</th><td>0.041 \u00b1\u00a00.002</td></tr>"
        '<tr class="null"><th>uniform</th><td>0.51</td></tr></table>'
    )
    telling, blind = columns_of(html, tolerance, 0.0)
    assert (len(telling), len(blind)) == ((0, 1) if is_blind else (1, 0))
