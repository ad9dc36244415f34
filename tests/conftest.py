"""What all tests share: one thread each, so that workers do not fight for cores."""

import os

import pytest

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")


@pytest.fixture
def threads_for_little_work(monkeypatch):
    """Spread the work of compiled kernels over threads even if it is little."""
    monkeypatch.setattr("ebmtut._compiled._WORTHWHILE", 0)
