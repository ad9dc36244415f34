"""For authors: execute notebooks with their defaults and store the outputs in place.

    python -m tools.store_outputs                   # every notebook of the book
    python -m tools.store_outputs book/ed/index.ipynb
    python -m tools.store_outputs --executed        # take _build/executed, run nothing

The outputs are stored with the state of the widgets. What papermill notes about the run
(times, paths) is left out, so that a notebook changes only with its code or outputs.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat

from tools.execute import ExecutionError, execute_all
from tools.paths import EXECUTED, ROOT, book_notebooks
from tools.widget_states import store_widgets

__all__ = ["clean_notebook", "main", "store_outputs"]


def clean_notebook(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Remove what depends on the run or the machine, and keep the widgets, in place.

    Parameters
    ----------
    notebook
        An executed notebook.

    Returns
    -------
    NotebookNode
        The same object.
    """
    store_widgets(notebook)
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        }
        | {k: v for k, v in notebook.metadata.items() if k == "ebmtut"}
    )
    for cell in notebook.cells:
        for key in ("papermill", "execution", "ExecuteTime", "collapsed"):
            cell.metadata.pop(key, None)
        if not cell.metadata.get("tags", True):
            del cell.metadata["tags"]  # papermill adds an empty list
    return notebook


def store_outputs(
    notebooks: Sequence[Path], jobs: int | None = None, executed: Path | None = None
) -> None:
    """Execute notebooks and write them back with the outputs of this run.

    Parameters
    ----------
    notebooks
        Files below the repository's ``book/``; none is changed if one fails.
    jobs
        Notebooks at a time.
    executed
        A folder with executed copies; nothing is executed then.

    Raises
    ------
    ExecutionError
        If a notebook fails, or its copy in `executed` is missing or has other cells.
    """
    with tempfile.TemporaryDirectory() as temporary:
        if executed is None:
            copies = execute_all(None, Path(temporary), jobs, notebooks=notebooks)
        else:
            copies = [executed / path.relative_to(ROOT) for path in notebooks]
        made = []
        for source, copy in zip(notebooks, copies, strict=True):
            if not copy.is_file() or _cells(copy) != _cells(source):
                raise ExecutionError(f"{copy} is not an executed copy of {source}")
            made.append(clean_notebook(nbformat.read(copy, as_version=4)))
        for source, notebook in zip(notebooks, made, strict=True):
            nbformat.write(notebook, source)


def _cells(notebook: Path) -> list[tuple[str, str]]:
    cells = nbformat.read(notebook, as_version=4).cells
    return [(cell.cell_type, cell.source) for cell in cells]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Store the notebooks' outputs.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="all by default")
    parser.add_argument("-j", "--jobs", type=int, help="notebooks at a time")
    parser.add_argument(
        "--executed",
        action="store_true",
        help="execute nothing and store the copies in _build/executed",
    )
    options = parser.parse_args(arguments)
    chosen = [path.resolve() for path in options.notebooks] or book_notebooks()
    if strangers := [str(p) for p in chosen if not p.is_relative_to(ROOT / "book")]:
        parser.error(f"not a notebook of the book: {', '.join(strangers)}")
    try:
        store_outputs(chosen, options.jobs, EXECUTED if options.executed else None)
    except ExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
