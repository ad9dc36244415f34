"""Compare a notebook's stored outputs with those of a copy that has been executed.

The conventions are nbval's: text is compared to the letter after the sanitize file,
pictures are not compared, cells tagged ``nbval-ignore-output`` are left out. nbval
itself would execute every notebook a second time; this compares the copies that
papermill has already executed.

Training amplifies the last digit of a matrix product, which differs between kinds of
processors. A cell whose numbers come from training says so in its metadata,
``{"ebmtut": {"tolerance": 0.1}}``: its decimal numbers may then differ by that much,
its words and whole numbers may not. One whose numbers are large says
``{"ebmtut": {"tolerance": 0.5, "share": 0.1}}``: numbers with and without a point may
also differ by that fraction of their value. A tolerance tells success from failure:
tables with a line of a baseline must have a column that does, and other cells declare
what their numbers must not be taken for, ``"baseline": {"energy": "independent bits"}``
or ``{"ESS": 0.02}``; `tests/book/test_baselines.py` says how they are compared.
"""

import copy
import difflib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nbformat import NotebookNode
from nbval.plugin import coalesce_streams, find_metadata_tags, get_sanitize_patterns

from tools.paths import ROOT

# Regular expressions and their replacements, in order.
SANITIZE = get_sanitize_patterns((ROOT / "tests/book/sanitize.cfg").read_text("utf-8"))

# What says nothing about a number: counts, names of views, and pictures, whose bytes
# differ from one machine to the next.
LEFT_OUT = {
    "data",  # its entries are looked at one by one
    *("execution_count", "metadata", "name", "output_type", "traceback"),
    "application/vnd.jupyter.widget-view+json",
    *("image/png", "image/jpeg", "image/webp"),
}

# Digits behind a point: what a tolerance applies to.
DECIMAL = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")
# What the relative tolerance applies to; a sign that is a letter of its own is a word.
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")

MOST_LINES = 30  # of a difference; the first ones tell enough


def _texts(cell: NotebookNode) -> dict[str, list[str]]:
    """Return what is compared: sanitized texts by kind, such as "stdout"."""
    texts = defaultdict(list)
    # Streams are merged in place, and the notebook is somebody else's.
    for output in coalesce_streams(copy.deepcopy(cell.outputs)):
        for kind, text in {**output, **output.get("data", {})}.items():
            if kind not in LEFT_OUT:
                shown = str(text)
                for pattern, replacement in SANITIZE:
                    shown = re.sub(pattern, replacement, shown)
                texts[output.name if kind == "text" else kind].append(shown)
    return texts


def settle(new: str, stored: str, tolerance: float, share: float = 0.0) -> str:
    """Write the stored number over every new decimal number that is close to it."""
    pattern = NUMBER if share else DECIMAL
    old = pattern.findall(stored)
    if len(pattern.findall(new)) != len(old):
        return new
    numbers = iter(old)

    def choose(match: re.Match[str]) -> str:
        number = next(numbers)
        near = max(tolerance, share * abs(float(number)))
        close = abs(float(match[0]) - float(number)) <= near
        return number if close else match[0]

    return pattern.sub(choose, new)


def _differences(
    old: Mapping[str, Sequence[str]],
    new: Mapping[str, Sequence[str]],
    tolerance: float,
    share: float,
) -> Iterator[str]:
    """Yield, kind by kind, another number of texts, or the lines that differ."""
    for kind in sorted({*old, *new}):
        before, now = old.get(kind, []), new.get(kind, [])
        if len(before) != len(now):
            yield f"{kind}: {len(before)} outputs stored, {len(now)} now"
            continue
        for left, right in zip(before, now, strict=True):
            settled = right
            if tolerance or share:
                # Numbers of other lengths move the columns beside them.
                left, right = (re.sub(" +", " ", text) for text in (left, right))
                settled = settle(right, left, tolerance, share)
            if settled != left:
                lines = difflib.unified_diff(
                    _lines(left), _lines(settled), "stored", "now", n=0, lineterm=""
                )
                yield f"{kind} differs:"
                yield from itertools.islice(lines, MOST_LINES)


def _lines(text: str) -> list[str]:
    """Split text into lines, and a table's HTML into its cells."""
    return re.sub(r"(</\w+>)(?=<)", r"\1\n", text).splitlines()


def _code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the code cells; papermill adds one that the stored notebook lacks."""
    return [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code"
        and "injected-parameters" not in cell.metadata.get("tags", [])
    ]


def compare_notebooks(stored: NotebookNode, executed: NotebookNode) -> list[str]:
    """Return what differs between the stored and the executed outputs, cell by cell."""
    stored_cells, executed_cells = _code_cells(stored), _code_cells(executed)
    if [cell.source for cell in stored_cells] != [c.source for c in executed_cells]:
        return ["the executed copy has other code than the notebook: execute it again"]
    differences = []
    for number, (old, new) in enumerate(
        zip(stored_cells, executed_cells, strict=True), start=1
    ):
        if dict(find_metadata_tags(old.metadata)).get("check") is False:
            continue
        told = old.metadata.get("ebmtut", {})
        allowed = float(told.get("tolerance", 0)), float(told.get("share", 0))
        if found := list(_differences(_texts(old), _texts(new), *allowed)):
            head = old.source.strip().split("\n")[0]
            details = "\n    ".join(found)
            differences.append(f"code cell {number} ({head}):\n    {details}")
    return differences


def is_fresh(made: Path, *sources: Path) -> bool:
    """Whether a file is there, and no source, or file below one, is newer."""
    if not made.is_file():
        return False
    files = [
        file
        for source in sources
        for file in (source.rglob("*") if source.is_dir() else [source])
        if file.is_file() and "__pycache__" not in file.parts
    ]
    return all(file.stat().st_mtime <= made.stat().st_mtime for file in files)
