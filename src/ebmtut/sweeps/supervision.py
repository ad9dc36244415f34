"""Start a run of a sweep in its own process, and stop it when its time is over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ebmtut.results.atomic import replace_folder
from ebmtut.sweeps.one_run import RECORD, end_with_children, write_record

__all__ = ["DRIVER", "supervise"]

# Holds a token of the call that is running the sweep. Runs of an earlier call, which
# a cluster continued after that call was killed, end when they see another token.
DRIVER = ".driver"

# A run has one thread, and one process in addition to its kernel.
_ALONE = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")},
    "LOKY_MAX_CPU_COUNT": "1",
}

_CHILD = "from ebmtut.sweeps.one_run import main; main()"


def supervise(
    specification: dict[str, Any],
    limit: float | None,
    *,
    stop: threading.Event | None = None,
    gpu: str | None = None,
) -> tuple[str, str]:
    """Start a run in its own process and wait until it has ended.

    Parameters
    ----------
    specification, limit
        Arguments of `ebmtut.sweeps.one_run.execute` and the driver's token; seconds.
    stop
        Set when all runs have to end.
    """
    specification = dict(specification)
    driver = specification.pop("driver")
    name, runs = specification["name"], Path(specification["folder"])
    started = looked = time.time()
    environment = {**os.environ, **_ALONE}
    if gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpu
    words = json.dumps({**specification, "parent": os.getpid()})
    late = orphaned = False

    def is_orphan() -> bool:
        return (runs.parent / DRIVER).read_text("utf-8") != driver

    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
        )
        while process.poll() is None:
            late = limit is not None and time.time() - started > limit
            if time.time() - looked > 1:
                looked = time.time()
                orphaned = is_orphan()
            if late or orphaned or (stop is not None and stop.is_set()):
                end_with_children(process.pid)
                process.wait()
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        complaints.seek(0)
        told = complaints.read().decode(errors="replace")[-4000:]
    if process.returncode == 0 and not late:
        record = json.loads((runs / name / RECORD).read_text("utf-8"))
        return name, record["status"]
    if orphaned or is_orphan() or (stop is not None and stop.is_set()):
        return name, "killed"
    status = "timeout" if late else "killed"
    end = f"ended after {limit:g} s" if late else f"exit code {process.returncode}"
    error = f"{end}\n{told}".strip()
    with replace_folder(runs / name) as fresh:
        for left in runs.glob(f".tmp-{name}-*/notebook.ipynb"):
            if left.parent != fresh:
                shutil.copy(left, fresh / "notebook.ipynb")
                shutil.rmtree(left.parent, ignore_errors=True)
        write_record(
            fresh,
            name,
            status,
            specification["parameters"],
            specification["about"],
            started=started,
            error=error,
        )
    return name, status
