"""Store the state of a notebook's widgets, so that pages show them without execution.

The state is in the notebook's own metadata, ``{"ebmtut": {"widgets": ...}}``, where
other programs ignore it. It holds the data of the widget. The renderer adds the script
and the style, which it takes from the installed package.
"""

import base64
import json
import re
from importlib import import_module
from io import BytesIO
from typing import Any

from nbformat import NotebookNode, from_dict, v4

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
# What an anywidget takes from its class.
FROM_CLASS = ("_esm", "_css")


def store_widgets(notebook: NotebookNode) -> None:
    """Move the state of an executed notebook to where it is stored, in place.

    Identifiers of models, which are random, become their number.
    """
    state = notebook.metadata.pop("widgets", {}).get(STATE)
    if not state or not state.get("state"):
        return
    names = {name: f"{k:032x}" for k, name in enumerate(state["state"])}
    pattern = re.compile("|".join(map(re.escape, names)))

    def renamed(value: Any) -> Any:
        text = pattern.sub(lambda match: names[match[0]], json.dumps(value))
        return json.loads(text)

    for model in state["state"].values():
        for key in FROM_CLASS:
            model["state"].pop(key, None)
    own = dict(notebook.metadata.get("ebmtut", {}))
    notebook.metadata["ebmtut"] = from_dict(own | {"widgets": renamed(state)})
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if VIEW in output.get("data", {}):
                output["data"] = from_dict(renamed(output["data"]))


def restore_widgets(notebook: NotebookNode) -> None:
    """Put stored states where the renderer expects them, in place."""
    stored = notebook.metadata.get("ebmtut", {}).get("widgets")
    if not stored or "widgets" in notebook.metadata:
        return
    state = json.loads(json.dumps(stored))
    for model in state["state"].values():
        if name := model["state"].get("_anywidget_id"):
            module, _, kind = name.rpartition(".")
            widget = getattr(import_module(module), kind)
            for key in FROM_CLASS:
                model["state"][key] = str(getattr(widget, key))
    notebook.metadata["widgets"] = from_dict({STATE: state})


def add_stills(notebook: NotebookNode) -> None:
    """Put a picture behind each widget, for readers without scripts, in place.

    A widget whose notebook draws its own, in a cell tagged ``still``, gets none.
    """
    models = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    cells: list[NotebookNode] = []
    for number, cell in enumerate(notebook.cells):
        cells.append(cell)
        following = notebook.cells[number + 1 : number + 3]
        drawn = any("still" in after.metadata.get("tags", []) for after in following)
        for name in [] if drawn else _views(cell):
            if name in models and (still := _still(models[name])) is not None:
                cells.append(still)
    notebook.cells = cells


def _views(cell: NotebookNode) -> list[str]:
    """Return the names of the models that a cell shows."""
    shown = [output.get("data", {}) for output in cell.get("outputs", [])]
    return [data[VIEW]["model_id"] for data in shown if VIEW in data]


def _still(model: dict[str, Any]) -> NotebookNode | None:
    """Draw a widget from its state, as an executed cell."""
    # Whoever only stores states is spared the import of all energies.
    import matplotlib.pyplot as plt

    from ebmtut.plotting import use_style
    from ebmtut.widgets.stills import draw_still

    state = dict(model["state"])
    for buffer in model.get("buffers", []):
        state[buffer["path"][0]] = base64.b64decode(buffer["data"])
    use_style()
    drawn = draw_still(state.get("_anywidget_id", "").rpartition(".")[2], state)
    if drawn is None:
        return None
    figure, alt = drawn
    file = BytesIO()
    figure.savefig(file, format="png")
    plt.close(figure)
    data = {"image/png": base64.b64encode(file.getvalue()).decode()}
    about = {"tags": ["still", "remove-input"], "mystnb": {"image": {"alt": alt}}}
    output = v4.new_output("display_data", data)
    # The renderer would drop a cell without a source.
    return v4.new_code_cell(
        "draw_still()", metadata=about, outputs=[output], execution_count=1
    )


def widgets_without_state(notebook: NotebookNode) -> int:
    """Count the widgets that the notebook shows and whose state it does not have."""
    held = notebook.metadata.get("ebmtut", {}).get("widgets", {}).get("state", {})
    held = held | notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    views = {name for cell in notebook.cells for name in _views(cell)}
    return len(views - set(held))
