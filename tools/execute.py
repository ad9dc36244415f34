"""Execute the book's notebooks with papermill, several at a time.

Each runs in a kernel of its own, with one thread, so that its numbers do not depend on
the number of cores.

    python -m tools.execute                    # into _build/executed
    python -m tools.execute --store book/ledger/index.ipynb   # for authors
    python -m tools.execute --store-executed   # store _build/executed, run nothing

Outputs are stored in the notebooks with the state of the widgets, without what
papermill notes about the run (times, paths).
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import papermill
from click import unstyle
from tqdm import tqdm

from tools.kernels import forked_kernels
from tools.paths import BOOK, EXECUTED, ROOT, book_notebooks
from tools.widget_states import store_widgets

# Notebooks that take longest come first, so that no core waits for the last one.
LONG = [
    BOOK / f"{name}.ipynb"
    for name in (
        *("pmp/notes", "own-data/bits", "got/notes", "pmp/index", "pmp/rbm"),
        *("pmp/ising", "pmp/deconvolution", "own-data/histograms", "drl/index"),
    )
]
CELL_TIMEOUT = 900  # seconds; a cell that hangs fails instead of waiting for ever
DRAFTS = ("--InlineBackend.print_figure_kwargs={'bbox_inches': None, 'dpi': 40}",)
ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")
}


class ExecutionError(RuntimeError):
    """One or more notebooks did not run to their end."""


@dataclass(frozen=True)
class Run:
    """A notebook, where its copy goes, and what is executed in place of its content."""

    source: Path
    target: Path
    parameters: Mapping[str, Any] = field(default_factory=dict)
    content: Mapping[str, Any] | None = None
    drafts: bool = False  # figures that nobody sees are drawn once, in few pixels


def run_notebook(run: Run) -> float:
    """Execute one notebook, write the copy and return how many seconds it took.

    The kernel starts in the notebook's own folder, as it does in Jupyter. Papermill's
    argument for that changes the folder of all threads.
    """
    run.target.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    if run.content is not None:
        run.target.write_text(json.dumps(run.content), "utf-8")
    papermill.execute_notebook(
        str((run.source if run.content is None else run.target).resolve()),
        str(run.target.resolve()),
        parameters=dict(run.parameters),
        resources={"metadata": {"path": str(run.source.resolve().parent)}},
        kernel_name="python3",
        progress_bar=False,
        request_save_on_cell_execute=False,  # an error is saved all the same
        execution_timeout=CELL_TIMEOUT,
        start_timeout=180,
        extra_arguments=["--IPKernelApp.log_level=ERROR", *DRAFTS * run.drafts],
    )
    return time.perf_counter() - started


def execute_all(
    out_dir: Path = EXECUTED,
    notebooks: Sequence[Path] = (),
    jobs: int | None = None,
    root: Path = ROOT,
) -> list[Path]:
    """Execute notebooks, by default all, and write their copies below `out_dir`."""
    sources = [path.resolve() for path in notebooks or book_notebooks(root)]
    runs = [Run(s, out_dir / s.relative_to(root.resolve())) for s in sources]
    run_all(runs, jobs)
    return [run.target for run in runs]


def run_all(runs: Sequence[Run], jobs: int | None = None) -> None:
    """Execute notebooks, the longest first; whichever thread is free takes the next.

    The kernels of several are forks of one process that has imported what pages need.
    """
    failures: list[str] = []
    n_cores = os.cpu_count() or 1
    workers = max(1, min(jobs or n_cores, len(runs)))
    # A notebook starts processes for its runs only on cores that no other one has.
    own_cores = {"LOKY_MAX_CPU_COUNT": str(max(1, n_cores // workers))}
    with (
        mock.patch.dict(os.environ, ONE_THREAD | own_cores),
        forked_kernels() if len(runs) > 1 else nullcontext(),
        ThreadPoolExecutor(workers) as pool,
        tqdm(total=len(runs), desc="notebooks", unit="nb") as bar,
    ):
        pending = {
            pool.submit(run_notebook, run): "/".join(run.source.parts[-2:])
            for run in sorted(runs, key=lambda run: run.source not in LONG)
        }
        try:
            for future in as_completed(pending):
                name = pending[future]
                error = future.exception()
                if error is None:
                    tqdm.write(f"  {future.result():6.1f} s  {name}")
                else:
                    why = unstyle(str(error)).strip() or type(error).__name__
                    failures.append(f"{name} failed:\n{why}")
                    tqdm.write(f"  FAILED    {name}")
                bar.update()
        except BaseException:  # Ctrl-C, which threads do not hear
            pool.shutdown(wait=False, cancel_futures=True)
            for kernel in multiprocessing.active_children():
                kernel.kill()
            raise
    if failures:
        raise ExecutionError("\n\n".join(failures))


def clean_notebook(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Remove what depends on the run or the machine, and keep the widgets, in place."""
    store_widgets(notebook)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    kept = {k: v for k, v in notebook.metadata.items() if k == "ebmtut"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook.metadata = nbformat.from_dict(about | kept)
    for cell in notebook.cells:
        for key in ("papermill", "execution", "ExecuteTime", "collapsed"):
            cell.metadata.pop(key, None)
        if not cell.metadata.get("tags", True):
            del cell.metadata["tags"]  # papermill adds an empty list
    return notebook


def store_outputs(notebooks: Sequence[Path]) -> None:
    """Write executed copies back to their notebooks; change none if one is wrong."""
    made = []
    for source in notebooks:
        copy = EXECUTED / source.relative_to(ROOT)
        if not copy.is_file() or _cells(copy) != _cells(source):
            raise ExecutionError(f"{copy} is not an executed copy of {source}")
        made.append(clean_notebook(nbformat.read(copy, as_version=4)))
    for source, notebook in zip(notebooks, made, strict=True):
        nbformat.write(notebook, source)


def _cells(notebook: Path) -> list[tuple[str, str]]:
    cells = nbformat.read(notebook, as_version=4).cells
    return [(cell.cell_type, cell.source) for cell in cells]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Execute the book's notebooks.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="all by default")
    parser.add_argument("-j", "--jobs", type=int, default=None)
    parser.add_argument(
        "--store", action="store_true", help="store the outputs in the notebooks"
    )
    parser.add_argument(
        "--store-executed",
        action="store_true",
        help="execute nothing and store the copies that lie in _build/executed",
    )
    options = parser.parse_args()
    chosen = [path.resolve() for path in options.notebooks] or book_notebooks()
    try:
        if not options.store_executed:
            execute_all(EXECUTED, chosen, options.jobs)
        if options.store or options.store_executed:
            store_outputs(chosen)
    except ExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
