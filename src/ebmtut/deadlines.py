"""A moment at which long work stops in good order, to be gone on with later."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ebmtut.checks import checked

__all__ = ["OutOfTime", "deadline", "out_of_time"]

_moment: ContextVar[float | None] = ContextVar("deadline", default=None)


class OutOfTime(Exception):
    """Work stopped at its deadline; what was done is kept, and can be gone on from."""


@contextmanager
@checked
def deadline(moment: float | None) -> Iterator[None]:
    """Give what runs inside a moment, of ``time.time()``, at which to stop."""
    before = _moment.set(moment)
    try:
        yield
    finally:
        _moment.reset(before)


def out_of_time() -> bool:
    """Whether the deadline, if there is one, has passed.

    A loop that keeps a checkpoint then saves its state and raises `OutOfTime`.
    """
    moment = _moment.get()
    return moment is not None and time.time() >= moment
