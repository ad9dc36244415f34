"""Min-plus products on the GPU, in Triton: the c-transforms of batches of problems.

The references are `ebmtut.transport.min_plus_reference` and `gibbs_ot_iteration`, which
sums equal to the last bit. One kernel takes the minimum over the middle axis,
out[b, m, i] = min over k of values[b, k, m] + cost[k, i]; a grid needs it twice. Where
that makes few tiles, k is split into parts, whose minima torch compares.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

# The largest tile that a program finds, of m and of i; float64 takes half as many i.
_M, _I = 32, 64
# Programs that are enough for an H200, and the least k of a part.
_PROGRAMS, _K = 1024, 64


def least_sums_over(values: Tensor, cost: Tensor) -> Tensor:
    """Return min over k of values (n, k, m) + cost (k, i), of shape (n, m, i)."""
    n, k, m = values.shape
    values, cost = values.contiguous(), cost.contiguous()
    n_i = cost.shape[1]
    # A tile of a small image is no larger than the image needs.
    tile_m = min(_M, triton.next_power_of_2(m))
    tile_i = min(_I * 4 // values.element_size(), triton.next_power_of_2(n_i))
    tiles = triton.cdiv(m, tile_m), triton.cdiv(n_i, tile_i)
    parts = min(_PROGRAMS // max(1, n * tiles[0] * tiles[1]), triton.cdiv(k, _K))
    parts = max(1, parts)
    out = values.new_empty(n, parts, m, n_i)
    sizes = (k, m, n_i, parts, triton.cdiv(k, parts))
    # Problems may be more than 65535, which a grid takes along its first axis only.
    with torch.cuda.device_of(values):
        least_sums_tile[n * parts, *tiles](
            values, cost, out, *sizes, N_M=tile_m, N_I=tile_i, num_warps=1
        )
    return out.amin(1) if parts > 1 else out[:, 0]


def iteration_over(cost: Tensor) -> Callable[..., tuple[Tensor, ...]]:
    """Return `gibbs_ot_iteration` by the kernel; nothing in it waits for the GPU."""
    cost_t = cost.T.contiguous()

    def iteration(
        g: Tensor,
        p: Tensor,
        q: Tensor,
        cost: Tensor,
        temperature: Tensor,
        theta_h: Tensor,
        theta_g: Tensor,
    ) -> tuple[Tensor, ...]:
        L = -least_sums_over(-g.T[None], cost)[0]
        h = torch.where(q > 0, L + theta_h * temperature[0] / q, torch.inf)
        U = least_sums_over(h.T[None], cost_t)[0]
        g = torch.where(p > 0, U - theta_g * temperature[1] / p, -torch.inf)
        return g, h, U, L

    return iteration


@triton.jit
def least_sums_tile(  # type: ignore[no-untyped-def]
    values, cost, out, n_k, n_m, n_i, parts, size, N_M: tl.constexpr, N_I: tl.constexpr
):
    """Find one tile by a part of k; values (n, n_k, n_m), out (n, parts, n_m, n_i)."""
    n = (tl.program_id(0) // parts).to(tl.int64)
    # The last part shares some of k with the one before it, which changes no minimum.
    first = tl.minimum(tl.program_id(0) % parts * size, n_k - size)
    m = tl.program_id(1) * N_M + tl.arange(0, N_M)
    i = tl.program_id(2) * N_I + tl.arange(0, N_I)
    values += (n * n_k + first) * n_m
    cost += first.to(tl.int64) * n_i
    # From row to row by pointers: a large matrix has more entries than 32 bits count.
    least = tl.full((N_M, N_I), float("inf"), values.dtype.element_ty)
    # Two of k in turn: the loads of one wait less while the other is added.
    for k in range(0, size, 2):
        for j in tl.static_range(2):
            v = tl.load(values + m, mask=m < n_m, other=0.0)
            c = tl.load(cost + i, mask=i < n_i, other=0.0)
            found = v[:, None] + c[None, :]
            if least.dtype == tl.float64:  # which has no instruction for a minimum
                least = tl.where(found < least, found, least)
            else:
                least = tl.minimum(least, found)
            # The last of an odd number is taken twice, which changes no minimum.
            goes_on = k + j + 1 < size
            values += tl.where(goes_on, n_m, 0)
            cost += tl.where(goes_on, n_i, 0)
    there = (m < n_m)[:, None] & (i < n_i)[None, :]
    n = tl.program_id(0).to(tl.int64)
    tl.store(out + (n * n_m + m[:, None]) * n_i + i[None, :], least, mask=there)
