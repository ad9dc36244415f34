"""Every notebook keeps to the contract, and its stored outputs are what runs print."""

import os
import warnings

import nbformat
import pytest

from tools.compare import compare_notebooks
from tools.contract import advice, violations, widgets_that_last
from tools.paths import ROOT, book_notebooks

NOTEBOOKS = book_notebooks()
each_notebook = pytest.mark.parametrize(
    "notebook", NOTEBOOKS, ids=[str(path.relative_to(ROOT)) for path in NOTEBOOKS]
)


def test_there_are_notebooks():
    assert NOTEBOOKS, "no notebook under book/: nothing would be tested"


@each_notebook
def test_contract(notebook):
    content = nbformat.read(notebook, as_version=4)
    for what in advice(content):
        warnings.warn(f"{notebook.name}: {what}", stacklevel=1)
    broken = violations(content)
    assert not broken, "\n".join(broken)


@pytest.mark.executed
@each_notebook
def test_stored_outputs_are_what_the_code_prints(notebook, executed):
    stored = nbformat.read(notebook, as_version=4)
    copy = nbformat.read(executed(notebook), as_version=4)
    differences = compare_notebooks(stored, copy)
    assert not differences, "\n".join(differences)


@pytest.mark.executed
@each_notebook
def test_executed_copy_carries_light_widgets(notebook, executed):
    """The committed notebook holds no widget state; the page gets the copy's."""
    copy = nbformat.read(executed(notebook), as_version=4)
    assert not list(widgets_that_last(copy))


@pytest.mark.executed
def test_every_executed_copy_is_there():
    """`make test` says where the copies are: then none may be missing."""
    given = os.environ.get("EBMTUT_EXECUTED")
    if not given:
        pytest.skip("EBMTUT_EXECUTED is not set: copies are made on demand")
    names = [path.relative_to(ROOT) for path in NOTEBOOKS]
    missing = [str(name) for name in names if not (ROOT / given / name).is_file()]
    assert not missing
