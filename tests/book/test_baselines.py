"""Tolerances forgive small differences, and none as large as that of the baseline."""

import re

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tools.compare import compare_notebooks, settle
from tools.paths import ROOT, book_notebooks

NOTEBOOKS = {str(path.relative_to(ROOT)): path for path in book_notebooks()}
#: Columns that no claim is about: there methods are as good as their baseline.
FREE = re.compile(r"second|time|step|evaluation|how many|sweep", re.IGNORECASE)

#: Rows that are no better than their baseline: the page says so, or nothing of them.
AS_GOOD = {("ed-images-18", "0.1"), ("ed-images-18", "8"), ("code-16", "Gibbs-reset")}

#: A number of an output, where letters and signs do not go on.
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)")


def rows_of(html):
    """The rows of a table, each with its kind, as `ebmtut.results.tables` writes it."""
    return [
        (" ".join(row.get("class", [])), [cell.text for cell in row(["td", "th"])])
        for row in BeautifulSoup(html, "html.parser")("tr")
    ]


def number(cell):
    """The first number of a cell, if it has decimals or an error."""
    plain, sign, _ = cell.replace("\u2212", "-").partition("\u00b1")
    decimals = r"(\.\d+)?" if sign else r"\.\d+"
    found = re.fullmatch(rf"[-+]?\d+{decimals}(e[-+]?\d+)?", plain.strip())
    return float(plain) if found else None


def rows_told(html, tolerance, share):
    """Pairs of a method and a baseline that a column tells apart, and other pairs."""
    (_, heads), *rows = rows_of(html)
    columns = [k for k, head in enumerate(heads) if not FREE.search(head)]
    told: list[tuple[str, str]] = []
    blind: list[tuple[str, str]] = []
    for kind, method in rows:
        for other, baseline in rows:
            if kind or other != "null":
                continue
            pairs = [(number(method[k]), number(baseline[k])) for k in columns]
            gaps = [
                abs(v - b) - max(tolerance, share * abs(v))
                for v, b in pairs
                if v is not None and b is not None
            ]
            names = method[0], baseline[0]
            (told if max(gaps, default=0) > 0 else blind).append(names)
    return told, blind


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
            rows_told(html, tolerance, share)
            for output in cell.get("outputs", ())
            if "<table" in (html := output.get("data", {}).get("text/html", ""))
        ]
        if not tables:
            yield f"{cell.id} declares a tolerance and no baseline"
        for told, blind in tables:
            rows = [" beside ".join(p) for p in blind if (cell.id, p[0]) not in AS_GOOD]
            if rows or not told:
                yield f"{cell.id}: {'; '.join(rows) or 'no baseline is declared'}"


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
        "<tr><th>other</th><td>0.007</td></tr>"
        '<tr class="null"><th>uniform</th><td>0.51</td></tr></table>'
    )
    told, blind = rows_told(html, tolerance, 0.0)
    assert (len(told), len(blind)) == ((1, 1) if is_blind else (2, 0))


def notebook(text, tolerance):
    cell = new_code_cell("print(gap)", execution_count=1)
    cell.outputs = [new_output("stream", name="stdout", text=text)]
    if tolerance is not None:
        cell.metadata["ebmtut"] = {"tolerance": tolerance}
    return new_notebook(cells=[cell])


@pytest.mark.parametrize(
    ("new", "tolerance", "agrees"),
    [
        ("gap 0.21 in 3 runs", 0.05, True),
        ("gap 0.21 in 3 runs", None, False),
        ("gap 0.30 in 3 runs", 0.05, False),
        ("gap 0.21 in 4 runs", 0.05, False),
        ("rift 0.21 in 3 runs", 0.05, False),
        ("gap 0.21 0.21 in 3 runs", 0.05, False),
        ("gap nan in 3 runs", 0.05, False),
    ],
)
def test_only_close_decimals_are_forgiven(new, tolerance, agrees):
    stored = notebook("gap 0.20 in 3 runs", tolerance)
    differences = compare_notebooks(stored, notebook(new, None))
    assert (not differences) == agrees


def test_a_share_settles_numbers_without_a_point_too():
    assert settle("18 and 200", "17.6 and 100", 0.0, 0.1) == "17.6 and 200"
    assert settle("18", "17.6", 0.5) == "18"
    assert settle("0.3 of 7", "0.5 of 7", 0.25, 0.1) == "0.5 of 7"
