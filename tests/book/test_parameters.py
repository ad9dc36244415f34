"""papermill runs every notebook with other parameters, and refuses broken ones."""

import ast
import copy
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import papermill
import pytest
import yaml

from ebmtut.checks import InputError
from ebmtut.sweeps.one_run import swept
from tools.compare import compare_notebooks
from tools.execute import Run, run_all
from tools.install_cell import INSTALL
from tools.paths import ROOT, book_notebooks

TABLE = Path(__file__).with_name("parameters.yaml")
NOTEBOOKS = {str(path.relative_to(ROOT)): path for path in book_notebooks()}


@pytest.fixture(scope="module")
def table() -> dict[str, list[dict[str, Any]]]:
    """Return the sets of values that each notebook runs with."""
    found = yaml.safe_load(TABLE.read_text("utf-8"))
    return {name: x if isinstance(x, list) else [x] for name, x in found.items()}


def defaults(notebook: Path) -> dict[str, Any]:
    found = papermill.inspect_notebook(str(notebook))
    return {name: yaml.safe_load(about["default"]) for name, about in found.items()}


def test_table_lists_every_notebook(table: dict[str, list[dict[str, Any]]]) -> None:
    assert table.keys() == NOTEBOOKS.keys()


def test_table_has_other_values_than_the_defaults(table):
    for name, sets in table.items():
        usual = defaults(NOTEBOOKS[name])
        for parameters in sets:
            assert parameters, f"{name} has no parameters in the table"
            assert parameters.keys() <= usual.keys(), f"{name} has only {sorted(usual)}"
            same = {key for key, value in parameters.items() if usual[key] == value}
            assert not same, f"{name}: {same} are the defaults"


#: Parameters whose upper end differs from other values in nothing but time.
ONLY_TIME = {"n_steps", "longest"}
#: What other tests try: each larger scale by a run of its own, a device by its machine.
BY_SCALE = {"scale", "device"}
#: Ends whose runs take minutes: a large lattice, the steps that the scale says, and the
#: notes of Gibbs-OT on many points (its story page is tried with half as many).
TOO_LONG = {("side", 32), ("n_live", 0), ("n_points", 512)}


def ends_of_ranges(notebook: Path) -> Iterator[tuple[str, Any]]:
    """Yield each end and each choice that a page allows, from its checks."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        tree = ast.parse(cell.source) if cell.cell_type == "code" else ast.Module([])
        for call in ast.walk(tree):
            called = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            if called == "check_choice" and isinstance(call.args[2], ast.Tuple):
                name, choices = (ast.literal_eval(call.args[k]) for k in (0, 2))
                yield from ((name, c) for c in choices if name not in BY_SCALE)
            if called != "check_range":
                continue
            name, words = call.args[0], {k.arg: k.value for k in call.keywords}
            for end in {"low", "high"} & words.keys():
                value = words[end]
                names = any(isinstance(n, ast.Name | ast.Call) for n in ast.walk(value))
                is_open = f"include_{end}" in words
                if not isinstance(name, ast.Constant) or names or is_open:
                    continue
                if end == "low" or name.value not in ONLY_TIME:
                    yield name.value, eval(ast.unparse(value))


def test_the_ends_of_every_range_are_tried(table):
    missing, n_ends = [], 0
    for name, notebook in NOTEBOOKS.items():
        usual = defaults(notebook)
        for parameter, end in ends_of_ranges(notebook):
            tried = {sets.get(parameter, usual.get(parameter)) for sets in table[name]}
            n_ends += parameter in usual
            if parameter not in usual or (parameter, end) in TOO_LONG:
                continue
            tried |= {usual[parameter]}
            if end not in tried and end not in set(map(str, tried)):
                missing.append(f"{name}: {parameter} = {end}")
    assert not missing
    assert n_ends > 40


#: Cells that take long and name no parameter but the seed: with further values, which
#: leave the seed, they would do what they do with the defaults.
SAME_AGAIN = {"book/ed/index.ipynb": ["ed-use"], "book/pmp/index.ipynb": ["code-14"]}
#: Cells that take long and name nothing that the first set changes.
SAME_AT_ONCE = {"book/ed/notes.ipynb": ["notes-eb-gfn"]}
SAME_AT_ONCE["book/drl/notes.ipynb"] = ["notes-plane-7", "baa113da"]


def without(cells: list[dict[str, Any]], ids: Sequence[str]) -> list[dict[str, Any]]:
    return [cell for cell in cells if cell["id"] not in ids]


def test_what_is_not_run_again_would_be_the_same(table):
    for name, ids in (SAME_AGAIN | SAME_AT_ONCE).items():
        cells = {c["id"]: c["source"] for c in swept(NOTEBOOKS[name])["cells"]}
        tree = ast.walk(ast.parse("\n".join("".join(cells[id]) for id in ids)))
        names = {node.id for node in tree if isinstance(node, ast.Name)}
        first, *further = table[name]
        others = defaults(NOTEBOOKS[name]).keys() - {"seed"}
        assert not names & (first.keys() if name in SAME_AT_ONCE else others)
        assert all("seed" not in values for values in further)


def one_after_another(
    notebook: Path, further: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return a page's own run, and its code again with each further set of values.

    As when a reader changes the parameters and runs all cells: in one kernel, whose
    start and imports take longer than the cells of most pages here.
    """
    content, name = swept(notebook), str(notebook.relative_to(ROOT))
    content["cells"] = without(content["cells"], SAME_AT_ONCE.get(name, ()))
    code = [
        cell
        for cell in without(content["cells"], SAME_AGAIN.get(name, ()))
        if cell["cell_type"] == "code"
        and INSTALL not in cell["metadata"].get("tags", ())
    ]
    for k, values in enumerate(further):
        for cell in copy.deepcopy(code):
            if "parameters" in cell["metadata"].get("tags", ()):
                cell["metadata"] = {}
                told = [f"\n{name} = {value!r}" for name, value in values.items()]
                cell["source"] = "".join([*cell["source"], *told])
            content["cells"].append(cell | {"id": f"{cell['id'][:50]}-again-{k}"})
    return content


@pytest.mark.slow
@pytest.mark.parameters
def test_other_parameters(table, tmp_path):
    """Every notebook runs, prints other numbers with another seed, and records.

    As in a sweep, without the cells of other runs, which ask for no parameter. The
    ends of the ranges, which further sets of values hold, end in no error either. A
    page of stored numbers, which records none and has no value to try but a device, is
    executed up to its checks: the rest is what it runs with its defaults.
    """
    runs = {}
    for name, notebook in NOTEBOOKS.items():
        results = {"results_dir": str(tmp_path / "results" / name)}
        Path(results["results_dir"]).mkdir(parents=True)
        first, *further = [values | results for values in table[name]]
        content = one_after_another(notebook, further)
        if table[name][0].keys() == {"device"} and "record(" not in json.dumps(content):
            tags = [cell["metadata"].get("tags", ()) for cell in content["cells"]]
            checks = 1 + next(k for k, own in enumerate(tags) if "parameters" in own)
            del content["cells"][checks + 1 :]
        where = tmp_path / "executed" / name
        runs[name] = Run(notebook, where, first, content, drafts=True)
    run_all([*runs.values()])
    for name, run in runs.items():
        content = swept(run.source)
        content["cells"] = without(content["cells"], SAME_AT_ONCE.get(name, ()))
        stored = nbformat.reads(json.dumps(content), as_version=4)
        now = nbformat.read(run.target, as_version=4)
        # One cell more, which holds the parameters; what follows is of further sets.
        del now.cells[len(stored.cells) + 1 :]
        if "seed" in table[name][0]:
            for cell in stored.cells:  # the least difference counts
                cell.metadata.pop("ebmtut", None)
            assert compare_notebooks(stored, now), (
                f"{name} prints the same numbers with another seed"
            )
        if any(re.search(r"\brecord\(", cell.source) for cell in stored.cells):
            folder = Path(run.parameters["results_dir"])
            assert [*folder.rglob("*.json")], f"{name} recorded nothing"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_broken_parameter_is_refused_before_any_work(name, monkeypatch):
    """An unknown scale ends each notebook at once, in one line that names it.

    Papermill puts a cell behind that of the parameters; so does this, in one process,
    which imports the package once for all notebooks.
    """
    monkeypatch.chdir(NOTEBOOKS[name].parent)
    content = nbformat.read(NOTEBOOKS[name], as_version=4)
    cells = [
        cell
        for cell in content.cells
        if cell.cell_type == "code" and INSTALL not in cell.metadata.get("tags", [])
    ]
    names: dict[str, Any] = {}
    with plt.rc_context(), pytest.raises(InputError) as caught:
        # Imports, parameters, and the validating cell itself.
        for cell in cells[:3]:
            exec(cell.source, names)
            if "parameters" in cell.metadata.get("tags", []):
                names["scale"] = "huge"
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in ("scale", "huge", "quick")), message
