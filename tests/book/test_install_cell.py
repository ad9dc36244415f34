"""The cell that installs the package does so where it is missing, and only there."""

import subprocess
import sys
import tomllib

import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.install_cell import INSTALL, insert, install_source, lacks_cell
from tools.paths import ROOT

SOURCE = install_source()


def test_the_package_and_the_book_name_one_repository():
    """The ledger's links to stored results follow the metadata of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    book = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    assert project["urls"]["Source"] == book["repository"]["url"]


def test_the_cell_is_inserted_once_and_renewed():
    result = new_output("execute_result", {"text/plain": "2"}, execution_count=1)
    notebook = new_notebook(
        cells=[
            new_markdown_cell("# Title"),
            new_code_cell("1 + 1", execution_count=1, outputs=[result]),
        ]
    )
    assert lacks_cell(notebook, SOURCE)
    insert(notebook, "an older text")
    insert(notebook, SOURCE)
    assert not lacks_cell(notebook, SOURCE)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "code"]
    assert notebook.cells[1].metadata.tags == ["remove-cell", INSTALL]
    assert [cell.execution_count for cell in notebook.cells[1:]] == [1, 2]
    assert notebook.cells[2].outputs[0].execution_count == 2


@pytest.mark.parametrize("installed", [True, False])
def test_the_cell_installs_where_the_package_is_missing(tmp_path, installed):
    """With programs in place of git and pip that only write down their arguments."""
    programs = (
        "import importlib.util, subprocess\n"
        f"importlib.util.find_spec = lambda name: {installed or None}\n"
        "subprocess.run = lambda words, check: print(*words[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", programs + SOURCE + "\nprint(sys.path[0])"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    if installed:
        assert len(lines) == 1
        return
    assert "a few minutes" in lines[0]
    assert lines[1].startswith("clone") and lines[1].endswith("ebmtut-book")
    assert lines[2].startswith("-m pip install") and "ebmtut-book[book" in lines[2]
    assert lines[3] == str(tmp_path / "ebmtut-book" / "src")
