"""For authors: execute notebooks with their defaults and store the outputs in place.

    python -m tools.store_outputs                   # every notebook of the book
    python -m tools.store_outputs book/ledger.ipynb

What papermill notes about the run (times, paths) is left out, so that a notebook only
changes where its code or its outputs do.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat

from tools.execute import ExecutionError, execute_all
from tools.paths import ROOT, book_notebooks

__all__ = ["clean_notebook", "main", "store_outputs"]


def clean_notebook(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Remove what depends on the run or the machine from a notebook, in place.

    Parameters
    ----------
    notebook
        An executed notebook.

    Returns
    -------
    NotebookNode
        The same object.
    """
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


def store_outputs(notebooks: Sequence[Path], jobs: int | None = None) -> None:
    """Execute notebooks and write them back with the outputs of this run.

    Parameters
    ----------
    notebooks
        Files below the repository's ``book/``; none is touched if one fails.
    jobs
        Notebooks at a time.
    """
    with tempfile.TemporaryDirectory() as temporary:
        copies = execute_all(None, Path(temporary), jobs, notebooks=notebooks)
        for source, copy in zip(notebooks, copies, strict=True):
            notebook = clean_notebook(nbformat.read(copy, as_version=4))
            nbformat.write(notebook, source)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Store the notebooks' outputs.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="all by default")
    parser.add_argument("-j", "--jobs", type=int, default=None)
    options = parser.parse_args(arguments)
    chosen = [path.resolve() for path in options.notebooks] or book_notebooks()
    if strangers := [str(p) for p in chosen if not p.is_relative_to(ROOT / "book")]:
        parser.error(f"not a notebook of the book: {', '.join(strangers)}")
    try:
        store_outputs(chosen, options.jobs)
    except ExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
