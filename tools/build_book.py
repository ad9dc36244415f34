"""Build the book: execute every notebook at quick scale, then render the HTML.

python -m tools.build_book
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.api_pages import ApiError, undocumented
from tools.execute import ExecutionError, execute_all
from tools.paths import EXECUTED, HTML, ROOT
from tools.render import RenderError, render

__all__ = ["build_book", "main"]


def build_book(jobs: int | None = None) -> Path:
    """Execute and render.

    Parameters
    ----------
    jobs
        Notebooks at a time; the number of cores by default.

    Returns
    -------
    Path
        The book's ``index.html``.

    Raises
    ------
    ExecutionError, RenderError, ApiError
        If a notebook fails, a page warns or is missing, a public name has no entry.
    """
    started = time.perf_counter()
    print("Executing the notebooks at quick scale")
    execute_all(jobs=jobs)
    print(f"Rendering ({time.perf_counter() - started:.0f} s so far)")
    index = render(EXECUTED, HTML)
    if absent := undocumented(HTML):
        raise ApiError("public names without an API entry: " + ", ".join(absent))
    return index


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Execute and render the book.")
    parser.add_argument("-j", "--jobs", type=int, default=None)
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    try:
        index = build_book(options.jobs)
    except (ExecutionError, RenderError, ApiError) as error:
        print(f"\n{error}\n\nThe book was not built.", file=sys.stderr)
        return 1
    print(f"\nThe book took {time.perf_counter() - started:.0f} s. Open")
    print(f"  {index.relative_to(ROOT)}\n  {index.as_uri()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
