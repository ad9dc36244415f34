"""Who waits for kernels that are compiled hears of it, once, and nobody else."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from ebmtut import _compilation
from ebmtut._compilation import _is_read, _Teller

PROGRAM = """
from ebmtut import _compilation, _compiled

def kernel(n):
    return n + 1

kernel.__module__ = "ebmtut.samplers"
_compilation._PATIENCE = 0.0
assert _compiled.compiled(kernel)(1) == 2
"""


def test_the_first_process_alone_says_so_and_once(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    known = {k: v for k, v in os.environ.items() if k != "JPY_PARENT_PID"}
    said = [
        subprocess.run(
            [sys.executable, program],
            env=known | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=True,
        ).stderr.splitlines()
        for _ in range(2)
    ]
    assert len(said[0]) == 1
    assert said[0][0].startswith("ebmtut: compiling kernels for this machine")
    assert str(tmp_path / "cache") in said[0][0]
    assert said[1] == []


@pytest.mark.parametrize("asks", [False, True])
def test_a_notebook_is_told_only_if_somebody_sits_there(monkeypatch, asks):
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    shell = SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=asks))
    frontend = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", frontend)
    assert _is_read() == asks


def compiling(seconds, clock, *, module="ebmtut.samplers"):
    """Events of one compilation, and the passing of time between them."""
    kernel = SimpleNamespace(
        py_func=SimpleNamespace(__module__=module),
        stats=SimpleNamespace(cache_path=None),
    )
    yield SimpleNamespace(data={"dispatcher": kernel})
    clock[0] += seconds


def test_patience_is_for_all_kernels_together(monkeypatch):
    clock, waits = [0.0], []

    class Timer:
        def __init__(self, seconds, tell, arguments):
            waits.append(seconds)

        def start(self):
            pass

        cancel = start

    monkeypatch.setattr(_compilation, "Timer", Timer)
    monkeypatch.setattr(_compilation.time, "monotonic", lambda: clock[0])
    teller = _Teller()
    for seconds, module in ((0.25, "ebmtut.a"), (9.0, "other.b"), (0.5, "ebmtut.c")):
        for event in compiling(seconds, clock, module=module):
            teller.on_start(event)
            for inner in compiling(0, clock):  # what the kernel calls
                teller.on_start(inner)
                teller.on_end(inner)
        teller.on_end(event)
    assert waits == [1.0, 0.75]
