"""Execute one run of a sweep in its own process and record its numbers.

The process ends when its parent does, and stops its kernel first.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ebmtut.results.atomic import replace_file, replace_folder

__all__ = [
    "OTHER_RUNS",
    "RECORD",
    "end_with_children",
    "execute",
    "main",
    "swept",
    "write_record",
]

#: The file that describes a run that has ended, in the run's folder.
RECORD = "run.json"

#: Tag of cells that execute other runs than those of the page's own parameters.
OTHER_RUNS = "other-runs"


def swept(notebook: str | Path) -> dict[str, Any]:
    """Read a notebook without its cells of other runs, as a sweep executes it."""
    content: dict[str, Any] = json.loads(Path(notebook).read_text("utf-8"))
    content["cells"] = [
        cell
        for cell in content["cells"]
        if OTHER_RUNS not in cell["metadata"].get("tags", ())
    ]
    return content


def execute(
    notebook: str,
    folder: str,
    name: str,
    parameters: Mapping[str, Any],
    about: Mapping[str, Any],
) -> str:
    """Execute a notebook; its folder appears in one step when the run has ended.

    Parameters
    ----------
    folder, name, parameters
        Folder of all runs, name of this run, and all of its parameters.
    about
        Other entries of ``run.json``, such as the identity and the commit.

    Returns
    -------
    status
        "done", "failed" if the notebook stopped, "killed" if its kernel died.

    Raises
    ------
    RuntimeError
        If a later call of the sweep has removed the unfinished run.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError

    started = time.time()
    status, error = "done", None
    with replace_folder(Path(folder) / name) as fresh:
        results = fresh / "results"
        results.mkdir()
        known = papermill.inspect_notebook(notebook)
        told = {"results_dir": str(results)} if "results_dir" in known else {}
        executed = fresh / "notebook.ipynb"
        executed.write_text(json.dumps(swept(notebook)), "utf-8")
        try:
            _execute(
                str(executed),
                str(executed),
                parameters={**parameters, **told},
                cwd=str(Path(notebook).parent),
                kernel_name="python3",
                progress_bar=False,
                start_timeout=180,
                extra_arguments=["--IPKernelApp.log_level=ERROR"],
            )
        except DeadKernelError as death:
            status, error = "killed", _told(death)
        except Exception as failure:
            status, error = "failed", _told(failure)
        if not executed.is_file():
            raise RuntimeError(f"{fresh} was cleared away by a later call of the sweep")
        numbers = {
            path.stem: json.loads(path.read_text("utf-8"))
            for path in sorted(results.glob("*.json"))
        }
        write_record(
            fresh,
            name,
            status,
            parameters,
            about,
            error=error,
            started=started,
            numbers=numbers,
        )
    return status


def _execute(*words: Any, **options: Any) -> None:
    """Execute a notebook; try another kernel if one dies while it starts.

    A kernel is given free ports, which another process can take first.
    """
    import papermill

    for is_last in (False, False, True):
        try:
            papermill.execute_notebook(*words, **options)
            return
        except RuntimeError as death:
            if is_last or not str(death).startswith("Kernel died before replying"):
                raise


def write_record(
    fresh: Path,
    name: str,
    status: str,
    parameters: Mapping[str, Any],
    about: Mapping[str, Any],
    *,
    started: float,
    error: str | None = None,
    numbers: Mapping[str, Any] | None = None,
) -> None:
    """Write ``run.json``: parameters, status and numbers of a run."""
    record = {
        "name": name,
        "status": status,
        "parameters": dict(parameters),
        **about,
        "started": datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
        "seconds": round(time.time() - started, 3),
        "error": error,
        "numbers": dict(numbers or {}),
    }
    text = json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False)
    replace_file(fresh / RECORD, f"{text}\n".encode())


def _told(error: Exception) -> str:
    """Return a traceback without the colour codes of IPython."""
    told = str(error) or "".join(traceback.format_exception(error))
    return re.sub(r"\x1b\[[0-9;]*m", "", told).strip()


def end_with_children(pid: int | None = None) -> None:
    """End a process and all processes that it started, kernels included.

    Parameters
    ----------
    pid
        None ends all processes that this one started, but not itself.
    """
    import psutil

    try:
        parent = psutil.Process(pid)
        doomed = parent.children(recursive=True)
        if pid is not None:
            doomed.append(parent)
    except psutil.NoSuchProcess:
        return
    for process in doomed:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _leave_with(parent: int) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        end_with_children()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Execute the run whose specification is on the command line, as JSON."""
    specification = json.loads(sys.argv[1])
    _leave_with(specification.pop("parent"))
    execute(**specification)
