"""Max-product sweeps of models of pairs by the fastest kernel on a tensor's device."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ebmtut._gpu import runs_triton
from ebmtut.kernels.pairwise_messages import compiled_sweeps


def sweeps_for(unaries: Tensor) -> Callable[..., tuple[Tensor, Tensor | None]] | None:
    """Return the function that sweeps on the device of the unaries, None for none.

    It takes a model, what `plain_sweeps`, the plain reference, takes, and whether
    messages are kept.
    """
    if runs_triton(unaries):
        from ebmtut.kernels.pairwise_triton import triton_sweeps

        return triton_sweeps
    return compiled_sweeps if unaries.device.type == "cpu" else None
