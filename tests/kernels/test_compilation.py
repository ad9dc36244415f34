"""Every kernel compiles for an H100, and keeps what it works on in registers."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("compile_kernels.py")


def test_kernels_compile_without_spilling(tmp_path):
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, SCRIPT], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    taken = {}
    for line in done.stdout.splitlines():
        name, *numbers = line.split()
        taken[name] = [int(n) for n in numbers]
    assert taken and not any(spilt for _, spilt, _, _ in taken.values()), taken
    # A multiprocessor's 65536 registers are enough for 21 warps.
    assert max(registers for registers, *_ in taken.values()) <= 96, taken
    # Where threads read what others have stored before, they wait and look again.
    assert all(waits for name, (*_, waits, _) in taken.items() if "alone" in name)
    assert not any(ahead for *_, ahead in taken.values()), taken
