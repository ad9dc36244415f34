"""Send the jobs of an experiment, or the runs of a sweep, to a Dask cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib

from ebmtut.checks import InputError
from ebmtut.sweeps.supervision import supervise

__all__ = ["ended_on_cluster", "on_cluster"]

#: Seconds that `ebmtut run` waits for the first worker: a week in a queue.
_PATIENCE = 7 * 24 * 3600


@contextmanager
def on_cluster(scheduler: str) -> Iterator[Any]:
    """Let joblib use the workers of a Dask scheduler.

    Parameters
    ----------
    scheduler
        Address, such as ``tcp://host:8786``. Workers may join later.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(
            "a scheduler needs Dask: pip install 'ebmtut[cluster]' "
            "(in a checkout: pip install -e '.[cluster]')"
        ) from error
    try:
        client = Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise InputError(
            f"scheduler must be the address of a running scheduler, got {scheduler!r} "
            f"({' '.join(str(error).split())})"
        ) from error
    with (
        client,
        joblib.parallel_config(
            "dask", client=client, wait_for_workers_timeout=_PATIENCE
        ),
    ):
        if not client.ncores():
            print(f"waiting for a worker of {scheduler}", file=sys.stderr)
        yield client


def ended_on_cluster(
    specifications: list[dict[str, Any]], limit: float | None, scheduler: str
) -> Iterator[tuple[str, str]]:
    """Execute runs on the workers of a Dask scheduler, as `supervise` does."""
    from distributed import as_completed

    with on_cluster(scheduler) as client:
        # All at once, since an adaptive cluster decides on new workers by the number
        # of waiting tasks.
        names = [s["name"] for s in specifications]
        keys = [f"{s['driver']}-{s['name']}" for s in specifications]
        futures = client.map(
            supervise, specifications, limit=limit, pure=False, key=keys
        )
        names_of = dict(zip(futures, names, strict=True))
        for future in as_completed(futures):
            if future.status == "error":  # its workers died repeatedly
                complaint = " ".join(str(future.exception()).split())
                print(f"{names_of[future]}: {complaint}", file=sys.stderr)
                yield names_of[future], "killed"
            elif future.status == "finished":
                yield future.result()
            else:
                raise InputError(
                    f"the scheduler at {scheduler} has stopped: start it again; "
                    "the same command continues"
                )
