"""Many independent computations, in parallel, none computed twice.

A table of an experiment is a set of jobs: plain functions of plain values. They
run in processes of this machine or, inside ``joblib.parallel_config("dask")``, on
a cluster. Each one's outcome is written as soon as it is there, so that a killed
run goes on where it stopped.
"""

import glob
import inspect
import math
import os
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import torch
from joblib.parallel import get_active_backend
from tqdm import tqdm

from ebmtut._digests import json_digest
from ebmtut.checks import Count, DivergenceError, InputError, checked
from ebmtut.deadlines import OutOfTime, deadline, out_of_time
from ebmtut.experiments.identity import code_digest
from ebmtut.losses.loops import LoopMaker
from ebmtut.results import git_commit, to_json
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint
from ebmtut.training import CpuClock, ResumableLoop

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# The state of a batch; no job has this name, which `_file_name` does not make.
BATCH = "all jobs"

# What a worker gives back: a job's outcome, why it failed, None if time was up.
_Back = tuple[str, "Outcome | Exception | None"]


@dataclass
class Outcome:
    """What a job returns: numbers by name, and arrays by name.

    ``commit`` and ``seconds`` are filled in by `run_jobs`: a table may be made
    of jobs that were computed on different days.
    """

    scalars: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    commit: str = "unknown"
    seconds: float = 0.0


@checked
def run_jobs(
    function: Callable[..., Outcome],
    jobs: Mapping[str, Mapping[str, Any]],
    *,
    folder: Path | None = None,
    n_workers: Count | None = None,
    batch: Callable[..., Iterable[tuple[str, Outcome]]] | None = None,
    batch_options: Mapping[str, Any] | None = None,
    progress: bool = False,
    label: str = "jobs",
    stop_at: float | None = None,
) -> dict[str, Outcome]:
    """Call ``function(**arguments)`` for every job."""
    for name in jobs:
        if Path(name).name != name or name in ("", ".."):
            raise InputError(f"a job's name must be a file's name, got {name!r}")
    maker: Callable[..., Any] = function if batch is None else batch
    options = batch_options or {}
    # To follow the code takes longer than many a job, and only a folder needs it.
    identities = {
        name: _identity(maker, name, {**args, **options})
        for name, args in ({} if folder is None else jobs).items()
    }
    outcomes = _kept(folder, identities, label)
    waiting = [name for name in jobs if name not in outcomes]
    has_state = "checkpoint" in inspect.signature(maker).parameters
    # A batch has one state, also for those of its jobs whose outcomes are there.
    whole = {} if batch is None else {BATCH: identities}
    states = {
        name: folder / "parts" / f"{name}-{json_digest(identity)[:16]}.safetensors"
        for name, identity in (whole or identities).items()
        if folder is not None and has_state and name not in outcomes
    }
    commit = git_commit() if waiting else ""
    failures: list[Exception] = []

    def results() -> Iterator[_Back]:
        if batch is None:
            return _results(calls, len(waiting), n_workers)
        made = batch(
            jobs,
            without=[*outcomes],
            checkpoint=states.get(BATCH),
            progress=progress,
            **options,
        )
        return _until(stop_at, made)

    def calls() -> Iterator[Any]:
        for name in waiting:
            if failures:
                return
            arguments = dict(jobs[name])
            if name in states:
                arguments["checkpoint"] = states[name]
            yield joblib.delayed(_call)(function, name, arguments, stop_at, os.getpid())

    bar = tqdm(total=len(jobs), initial=len(outcomes), desc=label, disable=not progress)
    with bar:
        for name, back in results() if waiting else ():
            if isinstance(back, Outcome):
                back.commit = commit
                if folder is not None:
                    _save(folder, name, identities[name], back)
                if name in states:
                    _remove(states[name])
                outcomes[name] = back
                bar.update()
            elif isinstance(back, DivergenceError):
                failures.append(DivergenceError(f"{name}: {back}", back.step))
            elif back is not None:
                failures.append(back)
    if failures:
        raise failures[0]
    if len(outcomes) < len(jobs):
        raise OutOfTime(f"{len(outcomes)} of {len(jobs)} jobs are done")
    if BATCH in states:
        _remove(states[BATCH])
    return {name: outcomes[name] for name in jobs}


def _remove(state: Path) -> None:
    """Remove a job's state, with the files that it keeps beside."""
    for file in state.parent.glob(f"{glob.escape(state.stem)}*"):
        file.unlink(missing_ok=True)


def _until(
    stop_at: float | None, made: Iterable[tuple[str, Outcome]]
) -> Iterator[_Back]:
    """Give the outcomes of a batch as they come, until time is up."""
    with deadline(stop_at), suppress(OutOfTime):
        for name, outcome in made:
            yield name, outcome
            if out_of_time():
                return


def _results(
    calls: Callable[[], Iterator[Any]], n_calls: int, n_workers: int | None
) -> Iterator[_Back]:
    """Make the calls, here or in workers, and give what comes back as it comes."""
    backend, n_asked = get_active_backend()
    on_this_machine = backend.supports_inner_max_num_threads
    if n_workers is None and on_this_machine:
        n_workers = min(n_asked or joblib.cpu_count(), max(1, n_calls))
    if n_workers == 1:
        return (function(*args) for function, args, _ in calls())
    ours = {
        "backend": "loky",
        "inner_max_num_threads": 1,
        "initializer": _leave_with,
        "initargs": (os.getpid(),),
    }
    parallel = joblib.Parallel(
        n_jobs=n_workers,
        return_as="generator_unordered",
        batch_size=1,
        # Here no more begin after a failure. A cluster gets all at once: its
        # workers may come later.
        pre_dispatch="n_jobs" if on_this_machine else "all",
        max_nbytes=None,
        **(ours if on_this_machine else {}),
    )
    return parallel(calls())


def _call(
    function: Callable[..., Outcome],
    name: str,
    arguments: Mapping[str, Any],
    stop_at: float | None,
    parent: int,
) -> _Back:
    """Compute one job, in this process or a worker."""
    if os.getpid() != parent:
        torch.set_num_threads(1)
    with deadline(stop_at):
        if out_of_time():
            return name, None
        began = time.perf_counter()
        try:
            outcome = function(**arguments)
        except OutOfTime:
            return name, None
        except Exception as error:
            return name, error if os.getpid() == parent else _portable(error)
        outcome.seconds = time.perf_counter() - began
        return name, outcome


def _portable(error: Exception) -> Exception:
    """Make an exception survive the way to another process, and say where it rose."""
    told = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # one that cannot be made again from its message alone
        return RuntimeError(told)
    error.add_note(told)
    return error


def _leave_with(parent: int) -> None:
    """End this worker when the process that started it is gone, or was before it began.

    A killed parent cannot tell its workers: they would compute on for nobody, or wait
    for five minutes for work that does not come.
    """
    if os.getppid() != parent:
        os._exit(1)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def scalars_of(runs: Sequence[Outcome]) -> dict[str, list[float]]:
    """List each number over the runs of one cell, NaN where a run lacks it."""
    names = dict.fromkeys(metric for run in runs for metric in run.scalars)
    return {m: [run.scalars.get(m, math.nan) for run in runs] for m in names}


def commits_of(outcomes: Mapping[str, Outcome]) -> list[str]:
    """List the commits of the code that computed the outcomes."""
    return sorted({outcome.commit for outcome in outcomes.values()})


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


def timed_loop(
    checkpoint: Path | None,
    config: "DataclassInstance",
    clock: CpuClock,
    *,
    generator: torch.Generator,
    **which: Any,
) -> LoopMaker:
    """Make loops that continue where a time limit stopped them; they keep the clock."""
    return partial(
        ResumableLoop,
        checkpoint,
        {"config": asdict(config), **which},
        generator=generator,
        buffers={"seconds": clock.seconds},
    )


def _identity(
    function: Callable[..., Any], name: str, arguments: Mapping[str, Any]
) -> Any:
    """Return what a job computes, as JSON gives it back: its code and its arguments."""
    return {
        "function": f"{function.__module__}.{function.__qualname__}",
        "code": code_digest(function, *arguments.values()),
        "arguments": to_json(arguments, name),
    }


def _kept(
    folder: Path | None, identities: Mapping[str, Any], label: str
) -> dict[str, Outcome]:
    """Load the outcomes that are there and still true."""
    outcomes, stale = {}, 0
    for name, identity in identities.items():
        if folder is None or not (folder / f"{name}.safetensors").is_file():
            continue
        tensors, meta = load_checkpoint(folder / f"{name}.safetensors")
        if any(meta.get(key) != value for key, value in identity.items()):
            stale += 1
            continue
        # JSON has no NaN: what is not finite was written as null.
        scalars = {k: math.nan if v is None else v for k, v in meta["scalars"].items()}
        arrays = {k: v.numpy() for k, v in tensors.items()}
        outcomes[name] = Outcome(scalars, arrays, meta["commit"], meta["seconds"])
    if stale:
        tqdm.write(
            f"{label}: {stale} kept outcomes are of other code or arguments: "
            "computed anew",
            file=sys.stderr,
        )
    return outcomes


def _save(
    folder: Path, name: str, identity: Mapping[str, Any], outcome: Outcome
) -> None:
    tensors = {k: torch.from_numpy(v) for k, v in outcome.arrays.items()}
    meta = {
        **identity,
        "scalars": outcome.scalars,
        "commit": outcome.commit,
        "seconds": outcome.seconds,
    }
    save_checkpoint(folder / f"{name}.safetensors", tensors, meta)
