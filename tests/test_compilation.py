"""Who waits for kernels that are compiled hears of it, once, and nobody else."""

import os
import subprocess
import sys

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
