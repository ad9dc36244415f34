"""Work on a Dask cluster: jobs by joblib, and runs of a sweep."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib

from ebmtut.checks import InputError
from ebmtut.sweeps.supervision import supervise

__all__ = ["ended_on_cluster", "on_cluster"]

#: Seconds that `ebmtut run` waits for a cluster's first worker: a week in a queue.
_PATIENCE = 7 * 24 * 3600


@contextmanager
def on_cluster(scheduler: str) -> Iterator[Any]:
    """Let joblib use the workers of a Dask scheduler.

    Parameters
    ----------
    scheduler
        Its address, such as ``tcp://host:8786``. Workers may come later.

    Yields
    ------
    client
        Of that scheduler.

    Raises
    ------
    InputError
        If Dask is missing, or nobody answers there.
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
            f"scheduler must be the address of one that answers, got {scheduler!r} "
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
    """Make runs by the workers of a Dask scheduler, and tell of each that has ended.

    Parameters
    ----------
    specifications, limit
        Of each run, and its seconds, as for `supervise`.
    scheduler
        As for `on_cluster`.

    Yields
    ------
    ended
        What `supervise` returns; "killed" where a run's workers died, time after time.

    Raises
    ------
    InputError
        As `on_cluster`, or if the scheduler has gone.
    """
    from distributed import as_completed

    with on_cluster(scheduler) as client:
        # All at once: workers may come later, and a cluster that grows by need
        # counts what waits.
        names = [s["name"] for s in specifications]
        keys = [f"{s['driver']}-{s['name']}" for s in specifications]
        futures = client.map(
            supervise, specifications, limit=limit, pure=False, key=keys
        )
        names_of = dict(zip(futures, names, strict=True))
        for future in as_completed(futures):
            if future.status == "error":  # its workers died, time after time
                complaint = " ".join(str(future.exception()).split())
                print(f"{names_of[future]}: {complaint}", file=sys.stderr)
                yield names_of[future], "killed"
            elif future.status == "finished":
                yield future.result()
            else:
                raise InputError(
                    f"the scheduler at {scheduler} is gone: start it again, and the "
                    "same command goes on"
                )
