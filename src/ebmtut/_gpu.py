"""When a kernel for the GPU may run. Importing this imports no Triton.

A kernel stands in a module ``_*_triton.py`` beside the operation that it speeds up,
which imports it only once it is needed. Its plain reference, which is what a reader
is shown, runs wherever there is no Triton.
"""

from importlib.util import find_spec

from torch import Tensor

__all__ = ["runs_triton"]


def runs_triton(x: Tensor) -> bool:
    """Whether a tensor lies on a GPU, and Triton is there to compile for it."""
    return x.device.type == "cuda" and find_spec("triton") is not None
