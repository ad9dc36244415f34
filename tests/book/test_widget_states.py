"""Widgets are stored with a notebook and shown without executing it."""

import copy

import nbformat
import pytest
from ipywidgets import Widget
from nbformat.v4 import new_code_cell, new_notebook, new_output

from ebmtut.widgets.two_starts_explorer import TwoStartsExplorer, two_starts_explorer
from tools.contract import advice
from tools.execute import clean_notebook
from tools.paths import book_notebooks
from tools.widget_states import (
    STATE,
    VIEW,
    add_stills,
    restore_widgets,
    widgets_without_state,
)


@pytest.fixture
def executed():
    """Return a notebook with a widget, as papermill leaves it."""
    widget = two_starts_explorer(0.25)
    state = Widget.get_manager_state(widgets=[widget, widget.layout])
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    output = new_output("display_data", {VIEW: view, "text/plain": "a widget"})
    notebook = new_notebook(cells=[new_code_cell("widget", outputs=[output])])
    notebook.metadata["widgets"] = {STATE: state}
    return notebook


def model_of(notebook):
    """Return the state that the view of the notebook refers to."""
    name = notebook.cells[0].outputs[0].data[VIEW]["model_id"]
    return notebook.metadata["widgets"][STATE]["state"][name]["state"]


def test_a_stored_widget_is_restored(executed):
    before = copy.deepcopy(dict(model_of(executed)))
    stored = clean_notebook(executed)
    assert "widgets" not in stored.metadata
    assert widgets_without_state(stored) == 0
    restore_widgets(stored)
    after = dict(model_of(stored))
    assert after.pop("layout").removeprefix("IPY_MODEL_").isdigit()
    before.pop("layout")
    assert after == before
    assert after["theta"] == 0.25


def test_scripts_are_those_of_the_package(executed, monkeypatch):
    stored = clean_notebook(executed)
    assert "_esm" not in str(stored.metadata)
    monkeypatch.setattr(TwoStartsExplorer, "_esm", "export default {}")
    restore_widgets(stored)
    assert model_of(stored)["_esm"] == "export default {}"


def test_a_widget_without_state_is_reported(executed):
    del executed.metadata["widgets"]
    assert widgets_without_state(clean_notebook(executed)) == 1
    assert advice(executed) == ["the state of 1 widgets is not stored"]
    assert widgets_without_state(new_notebook()) == 0


def test_a_still_follows_every_widget_of_the_book():
    """The notebook's, or a picture of the widget's state; with a text."""
    n_drawn = 0
    for path in book_notebooks():
        notebook = nbformat.read(path, as_version=4)
        restore_widgets(notebook)
        n_cells = len(notebook.cells)
        add_stills(notebook)
        n_drawn += len(notebook.cells) - n_cells
        for number, cell in enumerate(notebook.cells):
            if any(
                VIEW in output.get("data", {}) for output in cell.get("outputs", [])
            ):
                after = notebook.cells[number + 1 : number + 3]
                (still,) = [c for c in after if "still" in c.metadata.get("tags", [])]
                assert len(still.metadata.mystnb.image.alt) > 40
                assert "image/png" in still.outputs[0].data and still.source
    assert n_drawn >= 9
