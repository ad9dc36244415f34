"""Compiled Gibbs-with-gradients on Boltzmann machines: plain arrays, in place.

Site i is proposed with the weight exp(d_i / 2), d_i = log p(x flipped at i) - log p(x),
and accepted with the ratio of the sums of all weights before and after: a step costs
one pass over a row of the couplings and n exponentials, here powers of two. In single
precision a rounding, which depends on the processor, decides now and then which site
is proposed.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut._compiled import (
    inlined_fused,
    inlined_reordered,
    reordered,
    sweep_in_threads,
)
from ebmtut.energies import BoltzmannMachine
from ebmtut.kernels.tiles import larger, smaller
from ebmtut.kernels.xoshiro import xoshiro_next, xoshiro_states
from ebmtut.random import spawn_seed

_LANES = 16  # site i is of lane i % 16; lanes are summed side by side
REFRESH = 4096  # steps between two sums of the fields from scratch
# 2^r for |r| <= 1/2 as a polynomial: in float32 minimax, in float64 the series of
# exp(r log 2), whose rest after the power 13 is less than 5e-18.
_C1, _C2, _C3, _C4, _C5 = 0.693147, 0.24022242, 0.05550734, 0.009671518, 0.001326473
# (log 2)^k / k!
_D = tuple(math.log(2) ** k / math.factorial(k) for k in range(14))


# No sums in any order here: the integer that is added must not be taken off at once.
@inlined_fused
def _weigh(side, field, row, change, new_field, power, weight, double):  # type: ignore[no-untyped-def]
    """new_field = field + change row; weight = 2^(side new_field), unscaled.

    For an exponent rounded to an integer `_scale_and_sum` multiplies by the power of
    two: the lowest bits of ``power`` hold it. For the rest it is a polynomial, which is
    written. ``double`` is None in single precision.
    """
    real = weight.dtype.type
    # So large that the last bit counts units.
    units = real(1.5 * 2.0**23 if double is None else 1.5 * 2.0**52)
    for i in range(side.size):
        new = field[i] + change * row[i]
        new_field[i] = new
        z = smaller(larger(side[i] * new, real(-115)), real(115))
        shifted = z + units
        power[i] = shifted
        r = z - (shifted - units)
        if double is None:
            p = real(_C4) + r * real(_C5)
            p = real(_C1) + r * (real(_C2) + r * (real(_C3) + r * p))
        else:
            p = _D[10] + r * (_D[11] + r * (_D[12] + r * _D[13]))
            p = _D[7] + r * (_D[8] + r * (_D[9] + r * p))
            p = _D[4] + r * (_D[5] + r * (_D[6] + r * p))
            p = _D[1] + r * (_D[2] + r * (_D[3] + r * p))
        weight[i] = real(1) + r * p


@inlined_reordered
def _scale_and_sum(bits, power_bits, weight, lanes, double):  # type: ignore[no-untyped-def]
    """Multiply the weights, whose bits these are, and sum them by lane, and all.

    They are folded in halves, so that no sum waits for another.
    """
    integer, zero = bits.dtype.type, lanes.dtype.type(0)
    shift = integer(23 if double is None else 52)
    for i in range(bits.size):
        bits[i] += power_bits[i] << shift
    width = weight.size // 2
    for i in range(width):
        lanes[i] = weight[i] + weight[width + i]
    while width > _LANES:
        width //= 2
        for i in range(width):
            lanes[i] += lanes[width + i]
    total = zero
    for lane in range(_LANES):
        total += lanes[lane]
    return total


@reordered
def gwg_steps(x, coupling, bias, streams, n_steps, bits, double):  # type: ignore[no-untyped-def]
    """Make ``n_steps`` single-site moves of every chain; return how many were taken.

    ``x`` (n_chains, n) and ``streams`` (n_chains, 4) are updated in place; P is
    proportional to 2^(x'Wx/2 + b'x) with W = ``coupling``, symmetric, of zero
    diagonal. ``bits`` (3, a power of two) is room for the weights, all zero.
    """
    n_chains, n = x.shape
    zero, half = bias.dtype.type(0), bias.dtype.type(0.5)
    side = np.empty(n, bias.dtype)  # 1/2 where a site is 0, -1/2 where it is 1
    # Of the state and of the proposed one, which take turns. Two arrays that change
    # names would do, but loops over them are not vectorised.
    field = np.empty((2, n), bias.dtype)
    weights = bits.view(bias.dtype)
    power, power_bits = weights[2], bits[2]
    sums = np.empty((2, bits.shape[1] // 2), bias.dtype)
    last = min(n, _LANES) - 1
    n_taken = 0
    for k in range(n_chains):
        side[:] = half - x[k]
        s0, s1, s2, s3 = streams[k]
        now, total = 0, zero
        for step in range(n_steps):
            old, weight, lanes = field[now], weights[now], sums[now]
            if step % REFRESH == 0:
                old[:] = bias
                for i in range(n):
                    if side[i] < 0:
                        old += coupling[i]
                _weigh(side, old, bias, zero, old, power, weight, double)
                total = _scale_and_sum(bits[now], power_bits, weight, lanes, double)
            draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
            rest = bias.dtype.type((draw >> np.uint64(11)) * 2.0**-53) * total
            site = 0
            while site < last and rest >= lanes[site]:
                rest -= lanes[site]
                site += 1
            while site + _LANES < n and rest >= weight[site]:
                rest -= weight[site]
                site += _LANES
            change, new = side[site] + side[site], 1 - now
            side[site] = -side[site]
            row, weight, lanes = coupling[site], weights[new], sums[new]
            _weigh(side, old, row, change, field[new], power, weight, double)
            new_total = _scale_and_sum(bits[new], power_bits, weight, lanes, double)
            draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
            if (draw >> np.uint64(11)) * 2.0**-53 * new_total < total:
                now, total = new, new_total
                n_taken += 1
            else:
                side[site] = -side[site]
        x[k] = half - side
        streams[k, 0], streams[k, 1] = s0, s1
        streams[k, 2], streams[k, 3] = s2, s3
    return n_taken


def gwg_by_kernel(
    model: BoltzmannMachine,
    x: Float[Tensor, "n_chains n_sites"],
    n_steps: int,
    generator: torch.Generator,
    dtype: torch.dtype,
) -> Float[Tensor, "n_chains n_sites"]:
    """Make the moves of `ebmtut.samplers.gwg`, the plain reference, on the CPU.

    On a GPU its 58 launches per move would take longer than a copy there and back.
    """
    log2 = [t.detach() / math.log(2) for t in (model.symmetric_weight, model.bias)]
    coupling, bias = (t.to("cpu", dtype).numpy() for t in log2)
    streams = xoshiro_states(spawn_seed(generator), len(x))
    state = x.detach().to("cpu", dtype).numpy().copy()
    integer = np.int32 if dtype == torch.float32 else np.int64
    double = None if dtype == torch.float32 else True
    width = max(2 * _LANES, 1 << (model.n_sites - 1).bit_length())

    def move(n: int, rows: slice) -> None:
        room = np.zeros((3, width), integer)
        gwg_steps(state[rows], coupling, bias, streams[rows], n, room, double)

    sweep_in_threads(move, len(x), n_steps, x.numel(), grain=REFRESH)
    return torch.from_numpy(np.round(state)).to(x.device, x.dtype)
