"""What all compiled kernels share: how they are compiled and spread over threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numba
import torch

__all__ = ["compiled", "in_threads"]


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile without the GIL, keeping the machine code on disk if possible."""
    try:
        return numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # numba found no folder to write to
        return numba.njit(nogil=True, **options)(function)


# A turn of the kernels' innermost loops takes 0.1 to 1 ns. Starting threads and
# waiting for them takes 0.1 to 0.3 ms, and torch's own, which its last operation
# woke, hold on to their cores for some milliseconds. Measured on two cores, two
# threads are slower than one up to 6 million turns, faster from 25 million on.
_WORTHWHILE = 2**24


def in_threads(work: Callable[[slice], None], n_rows: int, n_turns: int) -> None:
    """Do the rows in as many slices as torch has threads, or at once if few.

    ``n_turns``: of the innermost loop, in all rows together. The work must not
    use torch, which would start a team of threads in every thread.
    """
    n_threads = max(1, min(torch.get_num_threads(), n_rows))
    if n_threads == 1 or n_turns < _WORTHWHILE:
        work(slice(0, n_rows))
        return
    edges = [n_rows * k // n_threads for k in range(n_threads + 1)]
    slices = [slice(a, b) for a, b in pairwise(edges)]
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(work, slices))
