"""Memory that a process has freed and asks for again in the next step.

A tensor of megabytes is mapped by glibc when it is made and unmapped when it is freed.
A training makes the same ones in every step, and each time the system has to find and
clear their pages: a tenth to a third of the time of a step.
"""

import ctypes
import os
from functools import cache

# Of <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_GIBIBYTE = 2**30
_SAID_BY_THE_USER = (
    "GLIBC_TUNABLES",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
)


@cache
def keep_freed_memory() -> None:
    """Let glibc keep a gibibyte of freed memory, unless the environment says how."""
    if any(name in os.environ for name in _SAID_BY_THE_USER):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    for parameter in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
        mallopt(parameter, _GIBIBYTE)
