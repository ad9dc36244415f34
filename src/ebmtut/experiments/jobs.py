"""Many independent computations, in parallel, none computed twice.

A table of an experiment is a set of jobs: plain functions of plain values.
Each one's outcome is written as soon as it is there, so that a killed run
goes on where it stopped.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from ebmtut.checks import check_range
from ebmtut.results import git_commit, to_json
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint

__all__ = [
    "Outcome",
    "commits_of",
    "job_seconds",
    "one_thread",
    "run_jobs",
    "runs_of",
    "scalars_of",
    "seeded_jobs",
]


@dataclass
class Outcome:
    """What a job returns: numbers by name, and arrays by name.

    ``commit`` and ``seconds`` are filled in by `run_jobs`: a table may be made
    of jobs that were computed on different days.
    """

    scalars: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    commit: str = "unknown"
    seconds: float = 0.0


def run_jobs(
    function: Callable[..., Outcome],
    jobs: Mapping[str, Mapping[str, Any]],
    *,
    folder: Path | None = None,
    n_workers: int | None = None,
    progress: bool = False,
    label: str = "jobs",
) -> dict[str, Outcome]:
    """Call ``function(**arguments)`` for every job.

    Parameters
    ----------
    function
        Importable by name (a worker process imports it).
    jobs
        Keyword arguments by job name; a name is a file's name, too. An
        argument named ``checkpoint`` says where a job keeps its state, not
        what it computes.
    folder
        Where outcomes are kept. An outcome there is used again if it was
        computed with the same arguments, and computed anew otherwise.
    n_workers
        Processes; None: one a core. With one, or a single job, the jobs run
        in this process.
    progress
        Whether to show a progress bar over jobs, named ``label``.

    Returns
    -------
    dict of str to Outcome
        In the order of ``jobs``.

    Raises
    ------
    InputError
        If ``n_workers`` is less than 1.
    Exception
        What a job raised. Outcomes that were there by then are kept.
    """
    if n_workers is not None:
        check_range("n_workers", n_workers, low=1, integer=True)
    outcomes: dict[str, Outcome] = {}
    waiting: dict[str, Mapping[str, Any]] = {}
    for name, arguments in jobs.items():
        kept = _load(folder, name, arguments)
        if kept is None:
            waiting[name] = arguments
        else:
            outcomes[name] = kept
    n_workers = min(n_workers or os.cpu_count() or 1, max(1, len(waiting)))
    bar = tqdm(total=len(jobs), initial=len(outcomes), desc=label, disable=not progress)
    with bar:
        commit = git_commit()

        def done(name: str, outcome: Outcome) -> None:
            outcome.commit = commit
            _save(folder, name, jobs[name], outcome)
            outcomes[name] = outcome
            bar.update()

        if n_workers == 1:
            for name, arguments in waiting.items():
                done(name, _timed(function, arguments))
        else:
            spawn = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(
                n_workers,
                mp_context=spawn,
                initializer=_start_worker,
            ) as pool:
                futures = {
                    pool.submit(_timed, function, arguments): name
                    for name, arguments in waiting.items()
                }
                try:
                    for future in as_completed(futures):
                        done(futures[future], future.result())
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    # Jobs that were running when another failed are kept, too.
                    for future, name in futures.items():
                        if name not in outcomes and _succeeded(future):
                            done(name, future.result())
                    raise
    return {name: outcomes[name] for name in jobs}


def seeded_jobs(
    cells: Mapping[str, Mapping[str, Any]], seeds: Iterable[int]
) -> dict[str, Mapping[str, Any]]:
    """Make a job of every cell of a table and every seed, for `run_jobs`.

    Parameters
    ----------
    cells
        Keyword arguments by cell, all but ``seed``.
    seeds
        What ``seed`` is, in turn.
    """
    return {
        _job_name(cell, seed): {**arguments, "seed": seed}
        for seed in seeds
        for cell, arguments in cells.items()
    }


def runs_of(
    outcomes: Mapping[str, Outcome], cell: str, seeds: Iterable[int]
) -> list[Outcome]:
    """Pick one cell's outcomes from those of `seeded_jobs`, in the seeds' order."""
    return [outcomes[_job_name(cell, seed)] for seed in seeds]


def _job_name(cell: str, seed: int) -> str:
    return f"{cell.replace(', ', '-').replace(' ', '-')}-{seed}"


def scalars_of(
    runs: Sequence[Outcome], metrics: Iterable[str] = ()
) -> dict[str, list[float]]:
    """List each number over the runs of one cell, NaN where a run lacks it.

    Parameters
    ----------
    runs
        Of one cell.
    metrics
        Numbers that are listed even if none of these runs has them.
    """
    found = dict.fromkeys(metric for run in runs for metric in run.scalars)
    names = found | dict.fromkeys(metrics)
    return {m: [run.scalars.get(m, math.nan) for run in runs] for m in names}


def commits_of(outcomes: Mapping[str, Outcome]) -> list[str]:
    """List the commits of the code that computed the outcomes."""
    return sorted({outcome.commit for outcome in outcomes.values()})


def job_seconds(folder: Path) -> float:
    """Sum what the jobs took whose outcomes are kept in a folder of `run_jobs`."""
    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    return sum(float(load_checkpoint(file)[1].get("seconds", 0.0)) for file in files)


def _timed(function: Callable[..., Outcome], arguments: Mapping[str, Any]) -> Outcome:
    began = time.perf_counter()
    outcome = function(**arguments)
    outcome.seconds = time.perf_counter() - began
    return outcome


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread, and afterwards as many as before.

    As a decorator of a job: what it computes, and how much time of the CPU that
    takes, do not depend on where it runs.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _start_worker() -> None:
    torch.set_num_threads(1)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End this worker when the process that started it is gone.

    A killed parent cannot tell its workers; they would compute on for nobody.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _succeeded(future: Future[Outcome]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _identity(name: str, arguments: Mapping[str, Any]) -> Any:
    """Return what a job computes, as JSON gives it back."""
    what = {k: v for k, v in arguments.items() if k != "checkpoint"}
    return to_json(what, name)


def _load(
    folder: Path | None, name: str, arguments: Mapping[str, Any]
) -> Outcome | None:
    if folder is None or not (folder / f"{name}.safetensors").is_file():
        return None
    tensors, meta = load_checkpoint(folder / f"{name}.safetensors")
    if meta["arguments"] != _identity(name, arguments):
        return None
    # JSON has no NaN: what is not finite was written as null.
    scalars = {k: math.nan if v is None else v for k, v in meta["scalars"].items()}
    arrays = {k: v.numpy() for k, v in tensors.items()}
    return Outcome(
        scalars, arrays, meta.get("commit", "unknown"), meta.get("seconds", 0.0)
    )


def _save(
    folder: Path | None, name: str, arguments: Mapping[str, Any], outcome: Outcome
) -> None:
    if folder is not None:
        tensors = {k: torch.from_numpy(v) for k, v in outcome.arrays.items()}
        meta = {
            "arguments": _identity(name, arguments),
            "scalars": outcome.scalars,
            "commit": outcome.commit,
            "seconds": outcome.seconds,
        }
        save_checkpoint(folder / f"{name}.safetensors", tensors, meta)
