"""How much memory max-product needs, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json
import re
from pathlib import Path

import torch

from ebmtut.energies import BoltzmannMachine
from ebmtut.message_passing import max_product


def resident(name):
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(name + r":\\s*(\\d+) kB", status)[1])


def grown(n, **options):
    model = BoltzmannMachine(torch.ones(n, n) / n, torch.zeros(n))
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is used
    before = resident("VmRSS")
    max_product(model, torch.zeros(100, n), 1, **options)
    return resident("VmHWM") - before


grown(20), grown(20, return_messages=True)  # loads the kernels
print(json.dumps([grown(900), grown(900, return_messages=True)]))
"""


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="reads Linux's peak of memory"
)
def test_messages_of_one_chain_at_a_time():
    """Those of 100 chains are there only if they are asked for."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    lean, kept = json.loads(done.stdout)
    all_messages = 100 * 2 * (900 * 899 // 2) * 4
    assert kept > 0.9 * all_messages  # what is measured is there to be seen
    # The pairs, their indices and some copies: a dozen matrices in double.
    assert lean < 12 * 900**2 * 8 < all_messages / 4
