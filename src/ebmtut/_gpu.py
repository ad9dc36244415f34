"""When a kernel for the GPU may run. Importing this imports no Triton.

A kernel stands in a module ``kernels/*_triton.py``, which the dispatcher of its
operation imports only once it is needed. Its plain reference runs wherever there is no
Triton, or none that works.
"""

import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


def runs_triton(x: Tensor) -> bool:
    """Whether a tensor lies on a GPU, and Triton is there to compile for it."""
    return x.device.type == "cuda" and _works()


@cache
def _works() -> bool:
    """Whether Triton is there and reaches the GPU; a warning tells why not, once."""
    if find_spec("triton") is None:
        return False
    from triton.runtime import driver

    try:
        driver.active.get_current_device()
    except Exception as error:  # a missing compiler, header or driver: of any type
        message = f"Triton does not work here, plain torch runs in its place: {error}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return False
    return True


_WORTH = 4  # repetitions that are recorded: on an H200 so few already pay


def repeat(launches: Callable[[], None], n: int, device: torch.device) -> None:
    """Do the same launches n times; on a GPU most often as a recorded CUDA graph."""
    on_gpu = device.type == "cuda" and n >= _WORTH
    if not on_gpu or torch.cuda.is_current_stream_capturing():
        for _ in range(n):
            launches()
        return
    launches()  # which compiles
    graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(device)
    stream = torch.cuda.Stream(device)  # the default one records nothing
    stream.wait_stream(before)
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            launches()
        finally:
            graph.capture_end()
        for _ in range(n - 1):
            graph.replay()
    before.wait_stream(stream)
