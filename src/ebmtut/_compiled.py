"""What all compiled kernels share: how they are compiled and spread over threads."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import torch

from ebmtut._compilation import tell_of_compilation
from ebmtut._digests import files_digest


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile without the GIL, keeping the machine code on disk if possible."""
    tell_of_compilation()
    try:
        kernel = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # numba found no folder to write to
        return numba.njit(nogil=True, **options)(function)
    # Numba looks at the function's own file only, and would run old code of those
    # that it calls in other files.
    if cache_of := getattr(kernel, "_cache", None):
        cache_of._cache_file._source_stamp = _digest_of_sources()
    return kernel


@cache
def _digest_of_sources() -> str:
    """Digest of all files of the package that have to do with compiled code."""
    folder = Path(__file__).parent
    words = (b"numba", b"compiled", b"inlined")
    files = {file: file.read_bytes() for file in sorted(folder.rglob("*.py"))}
    ours = [f for f, content in files.items() if any(w in content for w in words)]
    return files_digest(folder, ours, files.__getitem__)


# Loops are vectorised only where what they call stands in them.
inlined = partial(compiled, forceinline=True)
# A product and a sum may be fused, which rounds once instead of twice.
fused = partial(compiled, fastmath={"contract"})
# Sums in any order, too: the only freedom that vectors need.
reordered = partial(compiled, fastmath={"reassoc", "contract", "nsz"})
# What these call must be inlined, too. Otherwise the machine code of the caller holds
# a second copy of it, optimised anew, which rounds in another way; the process that
# compiles uses the first copy, and those that read the disk use the second.
inlined_fused = partial(fused, forceinline=True)
inlined_reordered = partial(reordered, forceinline=True)


# A turn of the kernels' innermost loops takes 0.1 to 1 ns. Starting threads and
# waiting for them takes 0.1 to 0.3 ms, and torch's own, which its last operation
# woke, hold on to their cores for some milliseconds. Measured on two cores, two
# threads are slower than one up to 6 million turns, faster from 25 million on.
_WORTHWHILE = 2**24

# At most half a second: an interrupt is heard only between two calls.
_A_PIECE = 2**29


def in_threads(work: Callable[[slice], None], n_rows: int, n_turns: int) -> None:
    """Do the rows in as many slices as torch has threads, or at once if few.

    Long work in more and shorter slices, so that Ctrl-C ends it. ``n_turns``: of the
    innermost loop, in all rows together. The work must not use torch.
    """
    n_threads = max(1, min(torch.get_num_threads(), n_rows))
    if n_turns < _WORTHWHILE:
        n_threads = 1
    n_slices = max(n_threads, min(n_rows, n_turns // _A_PIECE))
    edges = [n_rows * k // n_slices for k in range(n_slices + 1)]
    slices = [slice(a, b) for a, b in pairwise(edges)]
    if n_threads == 1:
        for rows in slices:
            work(rows)
        return
    pool = _threads(n_threads, os.getpid())
    pieces = [pool.submit(work, rows) for rows in slices]
    try:
        for piece in pieces:
            piece.result()
    finally:
        for piece in pieces:
            piece.cancel()
        wait(pieces)


@cache
def _threads(n: int, _process: int) -> ThreadPoolExecutor:
    """Return threads that stay: new ones may all begin on one core."""
    return ThreadPoolExecutor(n)


def sweep_in_threads(
    work: Callable[[int, slice], None],
    n_rows: int,
    n_sweeps: int,
    turns_a_sweep: int,
    *,
    grain: int = 1,
) -> None:
    """Let ``work(n, rows)`` sweep rows that keep their state, `in_threads`.

    ``turns_a_sweep``: of the innermost loop, in all rows together. ``grain``: sweeps
    after which a kernel sums anew, which portions keep.
    """
    portion = _A_PIECE * n_rows // max(1, turns_a_sweep * grain)
    portion = max(1, portion) * grain
    for begin in range(0, n_sweeps, portion):
        n = min(portion, n_sweeps - begin)
        in_threads(partial(work, n), n_rows, n * turns_a_sweep)
