"""Execute the book's notebooks with papermill, several at a time.

Each notebook runs in a kernel of its own, with one thread, so that its numbers do not
depend on the number of cores.

    python -m tools.execute                    # defaults, into _build/executed
    python -m tools.execute -p seed=3 book/ledger/index.ipynb
    python -m tools.execute --store book/ledger/index.ipynb      # for authors
    python -m tools.execute --store-executed   # store _build/executed, run nothing

Outputs are stored in the notebooks with the state of the widgets, without what
papermill notes about the run (times, paths).
"""

import argparse
import ast
import json
import math
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
from tqdm import tqdm

from tools.kernels import forked_kernels
from tools.paths import BOOK, EXECUTED, ROOT, book_notebooks
from tools.widget_states import store_widgets

# Notebooks that take longest, by which a checkout begins that has executed none yet.
LONG = [
    BOOK / f"{name}.ipynb"
    for name in (
        *("pmp/notes", "own-data/bits", "got/notes", "pmp/index", "pmp/rbm"),
        *("pmp/ising", "pmp/deconvolution", "own-data/histograms", "drl/index"),
    )
]
CELL_TIMEOUT = 900  # seconds; a cell that hangs fails instead of waiting for ever
ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")
}


class ExecutionError(RuntimeError):
    """One or more notebooks did not run to their end."""


def notebook_parameters(notebook: Path) -> set[str]:
    """Names in the cell tagged ``parameters``; empty where there is none."""
    import papermill

    return set(papermill.inspect_notebook(str(notebook)))


@dataclass(frozen=True)
class Run:
    """A notebook, where its copy goes, and what is executed in place of its content."""

    source: Path
    target: Path
    parameters: Mapping[str, Any] = field(default_factory=dict)
    content: Mapping[str, Any] | None = None


def run_notebook(run: Run, timeout: int = CELL_TIMEOUT) -> float:
    """Execute one notebook, write the copy and return how many seconds it took.

    The kernel starts in the notebook's own folder, as it does in Jupyter. Papermill
    changes the working directory of the whole process for that long, which is why
    `run_all` computes in processes, not in threads.
    """
    import papermill

    run.target.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    if run.content is not None:
        run.target.write_text(json.dumps(run.content), "utf-8")
    with forked_kernels():
        papermill.execute_notebook(
            str((run.source if run.content is None else run.target).resolve()),
            str(run.target.resolve()),
            parameters=dict(run.parameters),
            cwd=str(run.source.resolve().parent),
            kernel_name="python3",
            progress_bar=False,
            request_save_on_cell_execute=False,  # an error is saved all the same
            execution_timeout=timeout,
            start_timeout=180,
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
        )
    return time.perf_counter() - started


def execute_all(
    parameters: Mapping[str, Any] | None = None,
    out_dir: Path = EXECUTED,
    jobs: int | None = None,
    *,
    notebooks: Sequence[Path] | None = None,
    root: Path = ROOT,
    timeout: int = CELL_TIMEOUT,
) -> list[Path]:
    """Execute notebooks in parallel and write their copies below `out_dir`."""
    root, out_dir = root.resolve(), out_dir.resolve()
    sources = [p.resolve() for p in (notebooks or book_notebooks(root))]
    if not sources:
        raise ExecutionError(f"no notebook under {root / 'book'}")
    chosen = _choose_parameters(sources, parameters or {})
    runs = [Run(s, out_dir / s.relative_to(root), chosen[s]) for s in sources]
    run_all(runs, jobs, root=root, timeout=timeout)
    return [run.target for run in runs]


def run_all(
    runs: Sequence[Run],
    jobs: int | None = None,
    *,
    root: Path = ROOT,
    timeout: int = CELL_TIMEOUT,
) -> None:
    """Execute notebooks, the longest first; whichever process is free takes the next.

    A process executes several: to start one and to import what it needs takes seconds.
    """
    failures: list[str] = []
    spawn = multiprocessing.get_context("spawn")
    workers = max(1, min(jobs or os.cpu_count() or 1, len(runs)))
    with (
        mock.patch.dict(os.environ, ONE_THREAD),
        ProcessPoolExecutor(workers, spawn) as pool,
        tqdm(total=len(runs), desc="notebooks", unit="nb") as bar,
    ):
        pending = {
            pool.submit(run_notebook, run, timeout): run.source.relative_to(root)
            for run in sorted(runs, key=_usual_duration, reverse=True)
        }
        for future in as_completed(pending):
            name = pending[future]
            error = future.exception()
            if error is None:
                tqdm.write(f"  {future.result():6.1f} s  {name}")
            else:
                why = _plain(str(error) or type(error).__name__)
                failures.append(f"{name} failed:\n{why}")
                tqdm.write(f"  FAILED    {name}")
            bar.update()
    if failures:
        raise ExecutionError("\n\n".join(failures))


def _usual_duration(run: Run) -> float:
    """Seconds that an earlier run took, if only with defaults.

    Without one the notebooks known to take long come first, and no core waits for
    the last one.
    """
    copies = [run.target]
    if run.source.is_relative_to(ROOT):
        copies.append(EXECUTED / run.source.relative_to(ROOT))
    for copy in filter(Path.is_file, copies):
        about = json.loads(copy.read_text("utf-8"))["metadata"].get("papermill", {})
        if duration := about.get("duration"):
            return float(duration)
    return math.inf if run.source in LONG else 0.0


def _choose_parameters(
    sources: Sequence[Path], parameters: Mapping[str, Any]
) -> dict[Path, dict[str, Any]]:
    """Give each notebook the parameters that it has; refuse one that none has.

    Papermill itself only warns of an unknown parameter, so a typing error would run
    the defaults and look like success.
    """
    known = {source: notebook_parameters(source) for source in sources}
    if unknown := set(parameters) - set().union(*known.values()):
        raise ExecutionError(f"no notebook has a parameter {sorted(unknown)}")
    return {
        source: {k: v for k, v in parameters.items() if k in names}
        for source, names in known.items()
    }


def _plain(text: str) -> str:
    """Strip the colour codes that IPython puts into tracebacks."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).strip()


def _parse_value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


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


def store_outputs(notebooks: Sequence[Path], folder: Path) -> None:
    """Write executed copies back to their notebooks; change none if one is wrong."""
    made = []
    for source in notebooks:
        copy = folder / source.relative_to(ROOT)
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
    parser = argparse.ArgumentParser(description="Execute the book's notebooks.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="all by default")
    parser.add_argument("-p", "--parameter", action="append", default=[])
    parser.add_argument("-j", "--jobs", type=int, default=None)
    parser.add_argument("-o", "--out", type=Path, default=EXECUTED)
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--store", action="store_true", help="store the outputs in the notebooks"
    )
    how.add_argument(
        "--store-executed",
        action="store_true",
        help="execute nothing and store the copies that lie in the folder --out",
    )
    options = parser.parse_args(arguments)
    pairs = [item.partition("=") for item in options.parameter]
    parameters = {name: _parse_value(value) for name, _, value in pairs}
    if parameters and (options.store or options.store_executed):
        parser.error("stored outputs are those of the defaults: --store without -p")
    chosen = [path.resolve() for path in options.notebooks] or book_notebooks()
    try:
        if options.store_executed:
            store_outputs(chosen, options.out)
        elif options.store:
            with tempfile.TemporaryDirectory() as temporary:
                execute_all(None, Path(temporary), options.jobs, notebooks=chosen)
                store_outputs(chosen, Path(temporary))
        else:
            execute_all(parameters, options.out, options.jobs, notebooks=chosen)
    except ExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
