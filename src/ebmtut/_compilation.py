"""One line for a user who waits while kernels are compiled for the first time.

Compiling takes some ten seconds for all of them, once on a machine: afterwards their
machine code is read from the disk, which is not worth a word.
"""

import os
import sys
import time
from functools import cache
from threading import Timer

from numba.core import event
from tqdm import tqdm

#: Seconds of compiling, in all kernels together, before a user hears of it.
_PATIENCE = 1.0


class _Teller(event.Listener):
    """Hears when numba begins to compile, and when it is done; tells once.

    Numba compiles one function at a time, with those that it calls within it.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._spent = 0.0
        self._told = False
        self._began = 0.0
        self._timer: Timer | None = None

    def on_start(self, event: event.Event) -> None:
        """Wait with the user."""
        self._depth += 1
        kernel = event.data["dispatcher"]
        ours = kernel.py_func.__module__.partition(".")[0] == "ebmtut"
        if self._told or self._depth > 1 or not ours:
            return
        self._began = time.monotonic()
        folder = kernel.stats.cache_path
        self._timer = Timer(max(0.0, _PATIENCE - self._spent), self._tell, [folder])
        self._timer.daemon = True
        self._timer.start()

    def on_end(self, event: event.Event) -> None:
        """Stop waiting."""
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._spent += time.monotonic() - self._began

    def _tell(self, folder: str | None) -> None:
        if self._told or not _is_read():
            return
        self._told = True
        after = f"kept in {folder}" if folder else "not kept: set NUMBA_CACHE_DIR"
        line = (
            f"ebmtut: compiling kernels for this machine, which takes seconds; {after}"
        )
        # A progress bar, if there is one, moves down.
        tqdm.write(line, file=sys.stderr)


def _is_read() -> bool:
    """Whether somebody reads stderr now: not where a notebook keeps it."""
    if "JPY_PARENT_PID" not in os.environ:  # what every kernel of Jupyter has
        return True
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    kernel = getattr(shell, "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))


@cache
def tell_of_compilation() -> None:
    """Tell of compilations in this process from now on."""
    event.register("numba:compile", _Teller())
