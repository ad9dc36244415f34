"""Compare a notebook's stored outputs with those of a copy that has been executed.

nbval decides what counts as equal: text is compared to the letter after the sanitize
file, pictures are not compared, cells tagged ``nbval-ignore-output`` are left out.
nbval alone would execute every notebook a second time; this reuses its comparator on
the copies that papermill has already executed.

Training amplifies the last digit of a matrix product, which differs between kinds of
processors. A cell whose numbers come from training says so in its metadata,
``{"ebmtut": {"tolerance": 0.1}}``: its decimal numbers may then differ by that much,
its words and whole numbers may not.
"""

from __future__ import annotations

import copy
import difflib
import itertools
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
from nbformat import NotebookNode
from nbval import plugin

from tools.paths import ROOT

__all__ = ["compare_notebooks", "is_fresh", "read_sanitize_file", "settle"]

SANITIZE = ROOT / "tests" / "book" / "sanitize.cfg"

# What nbval itself leaves out, and WebP, which it does not know.
SKIP = (
    "metadata",
    "traceback",
    "prompt_number",
    "output_type",
    "name",
    "execution_count",
    "application/vnd.jupyter.widget-view+json",
    "image/png",
    "image/jpeg",
    "image/webp",
)

# Digits behind a point: what a tolerance applies to.
DECIMAL = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")

MOST_LINES = 30  # of a difference; the first ones tell enough


class _Comparator:
    """The part of nbval's cell that compares outputs, without a pytest session."""

    compare_outputs = plugin.IPyNbCell.compare_outputs
    sanitize = plugin.IPyNbCell.sanitize
    colors = plugin.nocolors

    def __init__(self, patterns: dict[str, str]) -> None:
        self.parent = SimpleNamespace(skip_compare=SKIP, sanitize_patterns=patterns)
        self.comparison_traceback: list[str] = []

    def format_output_compare(self, key: str, left: object, right: object) -> None:
        """Note the lines that differ."""
        difference = difflib.unified_diff(
            _lines(left), _lines(right), "stored", "now", n=0, lineterm=""
        )
        shown = itertools.islice(difference, MOST_LINES)
        self.comparison_traceback += [f"{key} differs:", *shown]


def _lines(output: object) -> list[str]:
    """Split text into lines, and a table's HTML into its cells."""
    return re.sub(r"(</\w+>)(?=<)", r"\1\n", str(output)).splitlines()


def read_sanitize_file(path: Path = SANITIZE) -> dict[str, str]:
    """Read nbval's sanitize file: regular expression -> replacement, in order."""
    return dict(plugin.get_sanitize_patterns(path.read_text()))


def _is_ignored(cell: NotebookNode) -> bool:
    options = dict(plugin.find_metadata_tags(cell.metadata))
    options.update(plugin.find_comment_markers(cell.source))
    return options.get("check") is False


def _tolerance(cell: NotebookNode) -> float:
    return float(cell.metadata.get("ebmtut", {}).get("tolerance", 0.0))


def settle(new: str, stored: str, tolerance: float) -> str:
    """Write the stored number over every new decimal number that is close to it.

    Parameters
    ----------
    new, stored
        Two texts.
    tolerance
        Largest absolute difference that counts as close.

    Returns
    -------
    str
        ``new``, unchanged if the texts have different numbers of numbers.
    """
    old = DECIMAL.findall(stored)
    if len(DECIMAL.findall(new)) != len(old):
        return new
    numbers = iter(old)

    def choose(match: re.Match[str]) -> str:
        number = next(numbers)
        close = abs(float(match[0]) - float(number)) <= tolerance
        return number if close else match[0]

    return DECIMAL.sub(choose, new)


def _settle_outputs(
    new: list[NotebookNode], stored: list[NotebookNode], tolerance: float
) -> list[NotebookNode]:
    """Settle the texts of a cell's outputs, pairwise; other outputs stay."""
    settled = copy.deepcopy(new)
    for output, old in zip(settled, stored, strict=False):
        if "text" in output and "text" in old:
            output.text = settle(output.text, old.text, tolerance)
        for kind in ("text/plain", "text/html", "text/markdown"):
            if kind in output.get("data", {}) and kind in old.get("data", {}):
                output.data[kind] = settle(
                    str(output.data[kind]), str(old.data[kind]), tolerance
                )
    return settled


def _code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the code cells; papermill adds one that the stored notebook lacks."""
    return [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code"
        and "injected-parameters" not in cell.metadata.get("tags", [])
    ]


def compare_notebooks(
    stored: NotebookNode, executed: NotebookNode, patterns: dict[str, str]
) -> list[str]:
    """Return what differs between the stored and the executed outputs, cell by cell.

    Parameters
    ----------
    stored
        The committed notebook.
    executed
        The copy that papermill executed, with the notebook's own parameters.
    patterns
        Regular expression -> replacement, applied to both sides in this order.

    Returns
    -------
    list of str
        One message a cell; empty if all outputs agree.
    """
    stored_cells, executed_cells = _code_cells(stored), _code_cells(executed)
    sources = [
        [cell.source for cell in cells] for cells in (stored_cells, executed_cells)
    ]
    if sources[0] != sources[1]:
        return ["the executed copy has other code than the notebook: execute it again"]
    differences = []
    for number, (old, new) in enumerate(
        zip(stored_cells, executed_cells, strict=True), start=1
    ):
        if _is_ignored(old):
            continue
        comparator = _Comparator(patterns)
        outputs = plugin.coalesce_streams(new.outputs)
        expected = plugin.coalesce_streams(old.outputs)
        if tolerance := _tolerance(old):
            outputs = _settle_outputs(outputs, expected, tolerance)
        if not comparator.compare_outputs(outputs, expected):
            head = old.source.strip().split("\n")[0]
            details = "\n    ".join(comparator.comparison_traceback)
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


def main(arguments: list[str]) -> int:
    """Compare notebook files: ``python -m tools.compare STORED EXECUTED``."""
    stored, executed = (nbformat.read(path, as_version=4) for path in arguments)
    differences = compare_notebooks(stored, executed, read_sanitize_file())
    print("\n".join(differences) or "the outputs agree")
    return 1 if differences else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
