"""Execute the runs of a sweep in parallel, resume them, and enforce time limits."""

from __future__ import annotations

import json
import os
import queue
import shutil
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import joblib
from filelock import FileLock, Timeout
from tqdm import tqdm

from ebmtut.checks import Count, InputError, Positive, checked
from ebmtut.results import check_writable, git_commit
from ebmtut.results.atomic import replace_file
from ebmtut.results.provenance import versions
from ebmtut.sweeps.cluster import ended_on_cluster
from ebmtut.sweeps.identity import files_named, run_identity
from ebmtut.sweeps.one_run import RECORD
from ebmtut.sweeps.plan import Plan
from ebmtut.sweeps.supervision import DRIVER, supervise

__all__ = ["load_runs", "run_sweep"]

#: Runs with this status are not repeated unless the caller asks for it.
ENDED = ("done", "failed", "timeout")


@checked
def run_sweep(
    plan: Plan,
    folder: str | Path,
    *,
    n_jobs: Count | None = None,
    timeout: Positive | None = None,
    retry: bool = False,
    keep_old: bool = False,
    scheduler: str | None = None,
    progress: bool = True,
) -> dict[str, int]:
    """Execute all runs of a plan that are not finished.

    Each run is a process with its own kernel. When it has ended, its folder
    ``runs/NAME`` appears in one step, with the executed notebook, its numbers, and
    ``run.json``.

    Parameters
    ----------
    folder
        Folder of the sweep. A second call with the same folder runs what is left.
    n_jobs
        Number of parallel runs; by default the number of cores, or of GPUs.
    timeout, retry
        Minutes of a run at most; whether to repeat runs that failed or timed out.
    keep_old
        Whether to keep runs that were made with other code, versions or data.
    scheduler
        Address of a Dask scheduler whose workers see the same folder and notebook.

    Returns
    -------
    counts
        Number of runs by status.
    """
    folder = check_writable(folder).resolve()
    runs = check_writable(folder / "runs")
    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(folder / ".lock", timeout=0))
        except Timeout:
            raise InputError(f"another sweep is running in {folder}") from None
        # Before anything else, so that runs which a cluster continues see it and end.
        driver = uuid.uuid4().hex
        replace_file(folder / DRIVER, driver.encode())
        for left in runs.glob(".tmp-*"):  # of runs that were killed
            shutil.rmtree(left, ignore_errors=True)
        _refuse_other_notebook(folder, plan)
        same = run_identity(plan.notebook)
        files = {n: files_named(plan.notebook, v) for n, v in plan.runs.items()}
        identities = {n: {**same, "files": json.dumps(files[n])} for n in plan.runs}
        waiting = _waiting(plan, runs, identities, retry=retry, keep_old=keep_old)
        _write_plan(folder, plan)
        about = {
            "notebook": shown_path(plan.notebook),
            "commit": git_commit(),
            "versions": versions(),
        }
        specifications = [
            {
                "notebook": str(plan.notebook.resolve()),
                "folder": str(runs),
                "name": name,
                "parameters": dict(plan.runs[name]),
                "about": {**about, "identity": identities[name]},
                "driver": driver,
            }
            for name in waiting
        ]
        limit = None if timeout is None else 60 * timeout
        bar = tqdm(
            total=len(plan.runs),
            initial=len(plan.runs) - len(waiting),
            desc=plan.notebook.stem,
            unit="run",
            disable=not progress,
        )
        with bar:
            for name, status in _ended(specifications, limit, n_jobs, scheduler):
                if status != "done":
                    tqdm.write(f"{status}: {name}{_why(runs / name)}", file=sys.stderr)
                bar.update()
    found = load_runs(folder)
    ends = (found[n]["status"] if n in found else "missing" for n in plan.runs)
    return dict(Counter(ends))


def load_runs(folder: Path) -> dict[str, dict[str, Any]]:
    """Read ``run.json`` of all runs that have ended, by name."""
    if not (folder / "runs").is_dir():
        raise InputError(f"{folder} holds no sweep")
    found = {}
    for path in sorted((folder / "runs").glob(f"[!.]*/{RECORD}")):
        try:
            record = json.loads(path.read_text("utf-8"))
            found[record["name"]] = record
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} is damaged ({error}): delete its folder to repeat the run"
            ) from error
    return found


def _why(run: Path) -> str:
    """Return a colon and the last line of a run's error, or nothing."""
    try:
        error = json.loads((run / RECORD).read_text("utf-8"))["error"] or ""
    except (OSError, ValueError, KeyError):
        return ""
    lines = error.split("\n")
    return next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")


def _waiting(
    plan: Plan,
    runs: Path,
    identities: Mapping[str, Mapping[str, str]],
    *,
    retry: bool,
    keep_old: bool,
) -> list[str]:
    """List the runs to execute; report how many are repeated and why."""
    kept = load_runs(runs.parent)
    waiting, old = [], []
    for name in plan.runs:
        record = kept.get(name)
        if record is None or record["status"] not in ENDED:
            waiting.append(name)
        elif record["identity"] != identities[name] and not keep_old:
            old.append(name)
        elif record["status"] != "done" and retry:
            waiting.append(name)
    if old:
        what = {
            key
            for name in old
            for key, now in identities[name].items()
            if kept[name]["identity"].get(key) != now
        }
        print(
            f"repeating {len(old)} runs that were made with other "
            f"{', '.join(sorted(what))} (--keep-old keeps them)",
            file=sys.stderr,
        )
    return waiting + old


def shown_path(notebook: Path) -> str:
    """Path of a notebook from the working folder, or its name: no machine's folders."""
    path, here = notebook.resolve(), Path.cwd().resolve()
    return path.relative_to(here).as_posix() if here in path.parents else path.name


def _path_from(folder: Path, notebook: Path) -> str:
    """Path of a notebook from the sweep's folder, which stays where both move."""
    return Path(os.path.relpath(notebook.resolve(), folder)).as_posix()


def _refuse_other_notebook(folder: Path, plan: Plan) -> None:
    """Runs of two notebooks of one name would be mixed in one table."""
    try:
        kept = json.loads((folder / "sweep.json").read_text("utf-8"))
    except FileNotFoundError:
        return
    if kept.get("path", "") != (now := _path_from(folder, plan.notebook)):
        raise InputError(
            f"{folder} holds the sweep of {kept.get('path', kept['notebook'])}, not of "
            f"{now} (both seen from that folder): give another by --out"
        )


def _write_plan(folder: Path, plan: Plan) -> None:
    # The command without the folders of this machine.
    words = [Path(w).name if Path(w).is_absolute() else w for w in sys.argv[1:]]
    told = {
        "notebook": shown_path(plan.notebook),
        "path": _path_from(folder, plan.notebook),
        "command": " ".join(["ebmtut", *words]),
        "varied": list(plan.varied),
        "runs": list(plan.runs),
        "help": {name: p.help for name, p in plan.parameters.items()},
    }
    text = json.dumps(told, indent=2, ensure_ascii=False)
    replace_file(folder / "sweep.json", f"{text}\n".encode())


def _ended(
    specifications: list[dict[str, Any]],
    limit: float | None,
    n_jobs: int | None,
    scheduler: str | None,
) -> Iterator[tuple[str, str]]:
    """Execute the runs here or on a cluster; yield each when it has ended."""
    if not specifications:
        return
    if scheduler is not None:
        yield from ended_on_cluster(specifications, limit, scheduler)
        return
    gpus = _gpus(specifications)
    places: queue.Queue[str | None] = queue.Queue()
    for k in range(n_jobs or len(gpus) or joblib.cpu_count()):
        places.put(gpus[k % len(gpus)] if gpus else None)
    stop = threading.Event()

    def here(specification: dict[str, Any]) -> tuple[str, str]:
        gpu = places.get()
        try:
            return supervise(specification, limit, stop=stop, gpu=gpu)
        finally:
            places.put(gpu)

    # Threads suffice: they only wait for the processes of their runs.
    pool = ThreadPoolExecutor(places.qsize())
    try:
        futures = [pool.submit(here, s) for s in specifications]
        for future in as_completed(futures):
            yield future.result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _gpus(specifications: list[dict[str, Any]]) -> list[str]:
    """List the GPUs if a run would use one."""
    devices = {s["parameters"].get("device", "cpu") for s in specifications}
    if devices <= {"cpu"}:
        return []
    import torch

    return [str(k) for k in range(torch.cuda.device_count())]
