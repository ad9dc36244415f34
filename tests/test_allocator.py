"""Memory that was freed is used again, without asking the system for its pages."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc")

COUNT = """
import resource
import torch
from ebmtut._allocator import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(10 * 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def settled():
    for _ in range(5):  # until each has found its place
        faults()
    return faults()

print(settled())
keep_freed_memory()
print(settled())
"""

# Pages of five such tensors, where pages are as large as they come: 2 MiB.
PAGES = 5 * 20


def faults_before_and_after(monkeypatch, count=COUNT, **environment):
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ran = subprocess.run(
        [sys.executable, "-c", count], capture_output=True, text=True, check=True
    )
    return map(int, ran.stdout.split())


def test_tensors_of_the_same_size_find_their_pages_again(monkeypatch):
    # Above 32 MiB glibc maps each anew, whatever it has seen before.
    mapped_anew, found = faults_before_and_after(monkeypatch)
    assert mapped_anew >= PAGES
    assert found < mapped_anew / 10


def test_what_the_environment_says_stands(monkeypatch):
    of = {"MALLOC_TRIM_THRESHOLD_": "131072"}
    # Any memory will do, without the seconds that importing torch takes.
    count = COUNT.replace("import torch", "").replace("torch.ones(10", "b'1' * (40")
    _, found = faults_before_and_after(monkeypatch, count, **of)
    assert found >= PAGES
