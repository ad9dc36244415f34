"""Min-plus products on the GPU, in Triton: the c-transforms of batches of problems.

The references are `ebmtut.transport.min_plus_reference` and `gibbs_ot_iteration`, which
are what a reader is shown. One kernel takes the minimum over the middle one of three
axes and writes what it finds last::

    out[b, m, i] = min over k of values[b, k, m] + cost[k, i],

so that a product along both axes of a grid is the kernel twice, with no transposition
between, and a dense cost is a batch of one whose m are the problems.

What bounds it is arithmetic: an addition and a minimum for each b, k, m and i, with no
fused instruction for both. If an H100 adds 128 and compares 64 numbers a clock on each
of 132 multiprocessors, that is 132 x 1.7 GHz x 128 / 3 = 9.6 T a second; a tile of 32 x
64 reads 4 (32 + 64) / (32 64) = 0.2 bytes for each, from the level-1 cache. A single
problem of a dense cost has one m, and leaves most of the GPU idle.

Sums are of the inputs' dtype, float32 or float64, and equal the reference's to the last
bit; in bf16 other places would be the least, and no tensor core takes minima.

Run under Triton's interpreter only, and compiled for an H100: no rate on a GPU is
claimed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["least_sums_over"]

# The tile that a program finds, of m and of i.
_M, _I = 32, 64


def least_sums_over(values: Tensor, cost: Tensor) -> Tensor:
    """Return min over k of values (n, k, m) + cost (k, i), of shape (n, m, i)."""
    n, k, m = values.shape
    values, cost = values.contiguous(), cost.contiguous()
    out = values.new_empty(n, m, cost.shape[1])
    # Problems may be more than 65535, which a grid takes along its first axis only.
    grid = (n, triton.cdiv(m, _M), triton.cdiv(cost.shape[1], _I))
    with torch.cuda.device_of(values):
        least_sums_tile[grid](values, cost, out, k, m, cost.shape[1], N_M=_M, N_I=_I)
    return out


@triton.jit
def least_sums_tile(  # type: ignore[no-untyped-def]
    values, cost, out, n_k, n_m, n_i, N_M: tl.constexpr, N_I: tl.constexpr
):
    """Find one tile of one matrix; values (n, n_k, n_m), cost (n_k, n_i)."""
    n = tl.program_id(0).to(tl.int64)
    m = tl.program_id(1) * N_M + tl.arange(0, N_M)
    i = tl.program_id(2) * N_I + tl.arange(0, N_I)
    values += n * n_k * n_m
    # From row to row by pointers: a large matrix has more entries than 32 bits count.
    least = tl.full((N_M, N_I), float("inf"), values.dtype.element_ty)
    for _ in range(n_k):
        v = tl.load(values + m, mask=m < n_m, other=0.0)
        c = tl.load(cost + i, mask=i < n_i, other=0.0)
        least = tl.minimum(least, v[:, None] + c[None, :])
        values += n_m
        cost += n_i
    there = (m < n_m)[:, None] & (i < n_i)[None, :]
    tl.store(out + (n * n_m + m[:, None]) * n_i + i[None, :], least, mask=there)
