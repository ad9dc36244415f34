"""Store the state of a notebook's widgets, so that pages show them without execution.

The state is in the notebook's own metadata, ``{"ebmtut": {"widgets": ...}}``, where
other programs ignore it. It holds the data of the widget. The renderer adds the script
and the style, which it takes from the installed package.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import Any

from nbformat import NotebookNode, from_dict

__all__ = ["restore_widgets", "store_widgets", "widgets_without_state"]

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


def widgets_without_state(notebook: NotebookNode) -> int:
    """Count the widgets that the notebook shows and whose state it does not have."""
    held = notebook.metadata.get("ebmtut", {}).get("widgets", {}).get("state", {})
    held = held | notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    views = [
        output["data"][VIEW]["model_id"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if VIEW in output.get("data", {})
    ]
    return len(set(views) - set(held))
