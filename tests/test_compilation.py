"""Who waits for kernels that are compiled hears of it, once, and nobody else."""

import os
import subprocess
import sys
from pathlib import Path

from ebmtut import _compilation, _compiled, _digests

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


CALLER = """
from ebmtut._compiled import compiled
from ebmtut.callee import weight

@compiled
def kernel(x):
    return weight(x)

if __name__ == "__main__":
    print(kernel(1.0))
"""
CALLEE = """
from ebmtut._compiled import compiled

@compiled
def weight(x):
    return {factor} * x
"""


def test_a_change_in_another_file_is_compiled(tmp_path):
    """As after an update: the caller's own file stays, what it calls does not."""
    package = tmp_path / "ebmtut"
    package.mkdir()
    (package / "__init__.py").touch()
    for module in (_compiled, _compilation, _digests):
        source = Path(module.__file__)
        (package / source.name).write_bytes(source.read_bytes())
    (package / "caller.py").write_text(CALLER)
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(tmp_path),
    }

    def run():
        command = [sys.executable, "-m", "ebmtut.caller"]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    for factor in (2.0, 3.0):
        (package / "callee.py").write_text(CALLEE.format(factor=factor))
        assert run() == factor
    before = {f: f.stat().st_mtime_ns for f in (tmp_path / "cache").rglob("*.nbc")}
    assert run() == 3.0  # now from the disk
    after = {f: f.stat().st_mtime_ns for f in (tmp_path / "cache").rglob("*.nbc")}
    assert before == after and before
