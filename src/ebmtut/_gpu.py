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
    replay = _recorded(launches, device)
    for _ in range(n - 1):
        replay()


def _recorded(launches: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Record launches as a CUDA graph, without doing them; return what replays it."""
    graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(device)
    stream = torch.cuda.Stream(device)  # the default one records nothing
    stream.wait_stream(before)
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            launches()
        finally:
            graph.capture_end()
    before.wait_stream(stream)
    return graph.replay


class Recorded:
    """A function of tensors of fixed shapes that a GPU records in its second call.

    From then on a call copies its arguments to where they were recorded, all by one
    launch, and replays. Arguments and results are floating tensors on one device.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        self._function = function
        self._n_calls = 0
        self._replay: Callable[[], None] | None = None
        self._inputs: list[Tensor] = []
        self._outputs: tuple[Tensor, ...] = ()

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return what the function returns, in memory of its own."""
        self._n_calls += 1
        if self._n_calls == 1:  # which compiles
            return self._function(*inputs)
        if self._replay is None:
            self._inputs = [x.clone() for x in inputs]

            def launches() -> None:
                self._outputs = self._function(*self._inputs)

            self._replay = _recorded(launches, inputs[0].device)
        torch._foreach_copy_(self._inputs, inputs)
        self._replay()
        return tuple(x.clone() for x in self._outputs)
