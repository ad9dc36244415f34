"""Start kernels by forking a process that has imported what most pages need.

Imports take a kernel about as long as the cells of many a page. No cell has run in the
process that is forked, and a page still imports each name that it uses, as in Jupyter.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

from tools.paths import ROOT

# What is not installed is left out. Torch imports its _dynamo at the first optimizer.
IMPORTED = (
    *("ipykernel.kernelapp", "matplotlib.pyplot", "torch._dynamo", "pandas", "ot"),
    *("scipy.optimize", "scipy.stats", "anywidget", "sklearn.datasets", "networkx"),
    *("ebmtut.plotting", "ebmtut.widgets", "ebmtut.losses", "ebmtut.results"),
    *("ebmtut.data", "ebmtut.experiments.runs", "ebmtut.samplers", "tools.numba_ready"),
)


def can_fork() -> bool:
    """Whether a process with torch in it can be forked: not on macOS or with a GPU."""
    return sys.platform == "linux" and not Path("/proc/driver/nvidia").exists()


@contextmanager
def forked_kernels() -> Iterator[None]:
    """Let each kernel that this process starts be a fork, where that is possible."""
    if not can_fork():
        yield
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))

    def launch(
        command: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        **_: Any,
    ) -> _Forked:
        ready, tell = context.Pipe(duplex=False)
        words = (list(command), cwd or ".", dict(env or os.environ), tell)
        process = context.Process(target=_be_kernel, args=words)
        process.start()
        tell.close()
        ready.recv()  # it has its own group of processes, to which signals go
        return _Forked(process)

    # The backend is the one that a kernel sets, but before matplotlib is imported.
    inline = "module://matplotlib_inline.backend_inline"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])  # for tools
    with mock.patch.dict(os.environ, MPLBACKEND=inline, PYTHONPATH=path):
        forkserver.ensure_running()
    where = "jupyter_client.provisioning.local_provisioner.launch_kernel"
    with mock.patch(where, launch):
        yield


def _be_kernel(
    command: Sequence[str], cwd: str, env: Mapping[str, str], tell: Connection
) -> None:
    """Run in the fork what the command would run in a process of its own."""
    from ipykernel import kernelapp

    gc.freeze()  # what is imported stays, and is not looked through again
    os.setsid()
    tell.send("ready")
    tell.close()
    os.environ.clear()
    os.environ.update(env)
    # By this name a process knows that it is a kernel.
    os.environ["JPY_PARENT_PID"] = parent = str(os.getppid())
    os.chdir(cwd)
    sys.path[:] = [path for path in sys.path if path not in ("", str(ROOT))]
    sys.argv = list(command[command.index("ipykernel_launcher") :])
    words = [*sys.argv[1:], f"--IPKernelApp.parent_handle={parent}"]
    kernelapp.launch_new_instance(argv=words)


class _Forked:
    """A process of multiprocessing that answers as one of subprocess does."""

    stdin = stdout = stderr = None

    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid: int = process.pid
        self.kill: Callable[[], None] = process.kill
        self.terminate: Callable[[], None] = process.terminate

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        code: int | None = self._process.exitcode
        return code

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for its end."""
        self._process.join(timeout)
        return self.poll()

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)
