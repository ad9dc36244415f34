"""What every notebook of the book keeps to, checked on the file, without running it.

Each rule is a function from a notebook to the list of its violations; `advice` says
what is allowed and yet better mended.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator

from nbformat import NotebookNode

from tools.install_cell import INSTALL
from tools.widget_states import widgets_without_state

PARAMETERS = {"scale": "str", "seed": "int", "device": "str", "results_dir": "str"}
MANY_CODE_LINES = 150
MOST_CODE_LINES = 200
WIDEST_CODE_LINE = 72
MOST_BYTES_OF_WIDGETS = 2_000_000
LARGEST_TOLERANCE = 0.5
SHORTEST_ALT_TEXT = 20
IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/svg+xml")
# Cells whose outputs do not reach the page.
UNSEEN = {"remove-cell", "remove-output"}

# The two that hung when executed without a browser (see the issue of nbclient, 312).
HANGING = re.compile(r"\binteract(?:ive|ive_output|_manual)?\(|\bOutput\(")


def _code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _tags(cell: NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", []))


def _code_lines(notebook: NotebookNode) -> int:
    """Count the lines of code without empty ones, comments and the installation."""
    cells = [cell for cell in _code(notebook) if INSTALL not in _tags(cell)]
    lines = [line for cell in cells for line in cell.source.splitlines()]
    return sum(bool(line.strip()) and line.lstrip()[0] != "#" for line in lines)


def one_parameters_cell(notebook: NotebookNode) -> Iterator[str]:
    """Exactly one cell is tagged ``parameters`` and annotates the common four."""
    cells = [cell for cell in _code(notebook) if "parameters" in _tags(cell)]
    if len(cells) != 1:
        yield f"{len(cells)} cells are tagged 'parameters', there must be one"
        return
    try:
        body = ast.parse(cells[0].source).body
    except SyntaxError as error:
        yield f"the parameters cell is not plain Python: {error}"
        return
    found: dict[str, str] = {}
    for statement in body:
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and statement.value is not None
        ):
            found[statement.target.id] = ast.unparse(statement.annotation)
        else:
            yield f"not a parameter `name: type = value`: {ast.unparse(statement)}"
    for name, kind in PARAMETERS.items():
        if found.get(name) != kind:
            yield f"parameter `{name}: {kind}` is missing (found {found.get(name)})"


def run_in_order(notebook: NotebookNode) -> Iterator[str]:
    """Every code cell was run, from the top, in a fresh kernel."""
    counts = [cell.execution_count for cell in _code(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield f"execution counts are {counts}, not 1 to {len(counts)}"


def no_errors(notebook: NotebookNode) -> Iterator[str]:
    """No cell stores an error."""
    for number, cell in enumerate(_code(notebook), start=1):
        for output in cell.outputs:
            if output.output_type == "error":
                yield f"code cell {number} ends in {output.ename}: {output.evalue}"


def short_code(notebook: NotebookNode) -> Iterator[str]:
    """Few enough lines to read, none so wide that the listing scrolls sideways."""
    if (n_lines := _code_lines(notebook)) > MOST_CODE_LINES:
        yield f"{n_lines} lines of code, at most {MOST_CODE_LINES}"
    lines = [line for cell in _code(notebook) for line in cell.source.splitlines()]
    for line in lines:
        if len(line) > WIDEST_CODE_LINE:
            yield f"{len(line)} characters, at most {WIDEST_CODE_LINE}: {line.strip()}"


def figures_described(notebook: NotebookNode) -> Iterator[str]:
    """Every picture has a text for who cannot see it, a caption and a label."""
    labels: list[str] = []
    for number, cell in enumerate(_code(notebook), start=1):
        if _tags(cell) & UNSEEN:
            continue
        pictures = [out for out in cell.outputs if set(out.get("data", {})) & {*IMAGES}]
        if not pictures:
            continue
        if len(pictures) > 1:
            yield f"code cell {number} shows {len(pictures)} pictures, one caption fits"
        about = cell.metadata.get("mystnb", {})
        figure = about.get("figure", {})
        alt = str(about.get("image", {}).get("alt", ""))
        if len(alt) < SHORTEST_ALT_TEXT:
            yield f"code cell {number}: mystnb.image.alt is {alt!r}: say what is seen"
        # What stands in for a widget where scripts are off takes no figure's number.
        if "still" in _tags(cell):
            continue
        for part in ("caption", "name"):
            if not figure.get(part):
                yield f"code cell {number}: mystnb.figure.{part} is missing"
        labels.append(str(figure.get("name")))
    for label in {label for label in labels if labels.count(label) > 1}:
        yield f"two figures have the label {label!r}"


def small_tolerances(notebook: NotebookNode) -> Iterator[str]:
    """A tolerance of trained numbers is small enough to catch a wrong one."""
    for number, cell in enumerate(_code(notebook), start=1):
        tolerance = cell.metadata.get("ebmtut", {}).get("tolerance", 0.0)
        if not 0 <= tolerance <= LARGEST_TOLERANCE:
            allowed = f"0 to {LARGEST_TOLERANCE}"
            yield f"code cell {number} has tolerance {tolerance}, not in {allowed}"


def plain_kernel(notebook: NotebookNode) -> Iterator[str]:
    """The kernel is the one that every installation has."""
    name = notebook.metadata.get("kernelspec", {}).get("name")
    if name != "python3":
        yield f"kernelspec is {name!r}, it must be 'python3'"


def widgets_that_last(notebook: NotebookNode) -> Iterator[str]:
    """Widget state is small, and nothing is used that hangs without a browser."""
    stored = notebook.metadata.get("ebmtut", {}).get("widgets", {})
    size = len(json.dumps([notebook.metadata.get("widgets", {}), stored]))
    if size > MOST_BYTES_OF_WIDGETS:
        yield f"{size} bytes of widget state, at most {MOST_BYTES_OF_WIDGETS}"
    for cell in _code(notebook):
        for used in HANGING.findall(cell.source):
            yield f"uses {used}...): it can hang when executed; use `observe`"


RULES: dict[str, Callable[[NotebookNode], Iterator[str]]] = {
    rule.__name__: rule
    for rule in (
        *(one_parameters_cell, run_in_order, no_errors, short_code),
        *(figures_described, small_tolerances, plain_kernel, widgets_that_last),
    )
}


def violations(notebook: NotebookNode) -> list[str]:
    """Return what a notebook breaks, ``rule: what``; empty if it keeps to all rules."""
    return [
        f"{name}: {what}" for name, rule in RULES.items() for what in rule(notebook)
    ]


def advice(notebook: NotebookNode) -> list[str]:
    """Return what a notebook may do but had better not."""
    n_lines = _code_lines(notebook)
    mended = []
    if MANY_CODE_LINES < n_lines <= MOST_CODE_LINES:
        mended.append(f"{n_lines} lines of code, better at most {MANY_CODE_LINES}")
    if missing := widgets_without_state(notebook):
        mended.append(f"the state of {missing} widgets is not stored")
    return mended
