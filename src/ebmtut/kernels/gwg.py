"""Compiled Gibbs-with-gradients on Boltzmann machines: plain arrays, in place.

Site i is proposed with the weight exp(d_i / 2), d_i = log p(x flipped at i) - log p(x),
and accepted with the ratio of the sums of all weights before and after: a step costs
one pass over a row of the weights and n exponentials. In single precision a rounding,
which depends on the processor, decides now and then which site is proposed.
"""

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

_BLOCK = 32  # sites whose weights are summed together, to find a site faster
REFRESH = 4096  # steps between two sums of the fields from scratch
# exp(r) for |r| <= ln(2) / 2, minimax in float32; in float64 Taylor's series, whose
# rest after the power 13 is less than 5e-18. log(2) is in two parts, the first of few
# bits.
_C2, _C3, _C4, _C5 = 0.49999994, 0.16666521, 0.041668091, 0.0083693964
_LOG2, _LOG2_REST = 0.693145751953125, 1.4286068203094173e-06


# No sums in any order here: the integer that is added must not be taken off at once.
@inlined_fused
def _weigh(x, field, row, change, new_field, power, weight, double):  # type: ignore[no-untyped-def]
    """new_field = field + change row; weight = exp((1 - 2x) new_field / 2), unscaled.

    The exponential is a polynomial, which is written, times a power of two, for
    `_scale_and_sum`: the lowest bits of ``power`` hold its exponent. ``double`` is None
    in single precision.
    """
    real = weight.dtype.type
    # So large that the last bit counts units.
    units = real(1.5 * 2.0**23 if double is None else 1.5 * 2.0**52)
    for i in range(x.size):
        new_field[i] = field[i] + change * row[i]
        z = (real(0.5) - x[i]) * new_field[i]
        z = smaller(larger(z, real(-80)), real(80))
        power[i] = z * real(1.4426950408889634) + units
        k = power[i] - units
        r = z - k * real(_LOG2) - k * real(_LOG2_REST)
        if double is None:
            p = real(_C4) + r * real(_C5)
            p = real(_C2) + r * (real(_C3) + r * p)
        else:
            p = 1 / 479001600 + r * (1 / 6227020800)
            p = 1 / 3628800 + r * (1 / 39916800 + r * p)
            p = 1 / 40320 + r * (1 / 362880 + r * p)
            p = 1 / 720 + r * (1 / 5040 + r * p)
            p = 1 / 24 + r * (1 / 120 + r * p)
            p = 1 / 2 + r * (1 / 6 + r * p)
        weight[i] = real(1) + r * (real(1) + r * p)


@inlined_reordered
def _scale_and_sum(bits, power_bits, weight, blocks):  # type: ignore[no-untyped-def]
    """Multiply the weights, whose bits these are, and sum them by block, and all."""
    integer, total = bits.dtype.type, blocks.dtype.type(0)
    shift = integer(52 if bits.itemsize == 8 else 23)
    for i in range(bits.size):
        bits[i] += power_bits[i] << shift
    for block in range(blocks.size):
        part = blocks.dtype.type(0)
        for i in range(_BLOCK):
            part += weight[block * _BLOCK + i]
        blocks[block] = part
        total += part
    return total


@reordered
def gwg_steps(x, coupling, bias, streams, n_steps, bits, double):  # type: ignore[no-untyped-def]
    """Make ``n_steps`` single-site moves of every chain; return how many were taken.

    ``x`` (n_chains, n) and ``streams`` (n_chains, 4) are updated in place; P is
    proportional to exp(x'Wx/2 + b'x) with W = ``coupling``, symmetric, of zero
    diagonal. ``bits`` (3, whole blocks of sites) is room for the weights, all zero.
    """
    n_chains, n = x.shape
    zero, one = bias.dtype.type(0), bias.dtype.type(1)
    # Of the state and of the proposed one, which take turns. Two arrays that change
    # names would do, but loops over them are not vectorised.
    field = np.empty((2, n), bias.dtype)
    weights = bits.view(bias.dtype)
    power, power_bits = weights[2], bits[2]
    n_blocks = bits.shape[1] // _BLOCK
    blocks = np.empty((2, n_blocks), bias.dtype)
    n_taken = 0
    for c in range(n_chains):
        state = x[c]
        s0, s1, s2, s3 = streams[c]
        now, total = 0, zero
        for step in range(n_steps):
            old, weight, block_sums = field[now], weights[now], blocks[now]
            if step % REFRESH == 0:
                old[:] = bias
                for i in range(n):
                    if state[i] > 0:
                        old += coupling[i]
                _weigh(state, old, bias, zero, old, power, weight, double)
                total = _scale_and_sum(bits[now], power_bits, weight, block_sums)
            draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
            rest = bias.dtype.type((draw >> np.uint64(11)) * 2.0**-53) * total
            block = 0
            while block < n_blocks - 1 and rest >= block_sums[block]:
                rest -= block_sums[block]
                block += 1
            site = block * _BLOCK
            end = min(site + _BLOCK, n)
            while site < end - 1 and rest >= weight[site]:
                rest -= weight[site]
                site += 1
            change = one - state[site] - state[site]
            state[site] += change
            row, new = coupling[site], 1 - now
            _weigh(state, old, row, change, field[new], power, weights[new], double)
            new_total = _scale_and_sum(bits[new], power_bits, weights[new], blocks[new])
            draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
            if (draw >> np.uint64(11)) * 2.0**-53 * new_total < total:
                now, total = new, new_total
                n_taken += 1
            else:
                state[site] -= change
        streams[c, 0], streams[c, 1] = s0, s1
        streams[c, 2], streams[c, 3] = s2, s3
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
    coupling = model.symmetric_weight.detach().to("cpu", dtype).numpy()
    bias = model.bias.detach().to("cpu", dtype).numpy()
    streams = xoshiro_states(spawn_seed(generator), len(x))
    state = x.detach().to("cpu", dtype).numpy().copy()
    integer = np.int32 if dtype == torch.float32 else np.int64
    double = None if dtype == torch.float32 else True

    def move(n: int, rows: slice) -> None:
        room = np.zeros((3, -(-model.n_sites // _BLOCK) * _BLOCK), integer)
        gwg_steps(state[rows], coupling, bias, streams[rows], n, room, double)

    sweep_in_threads(move, len(x), n_steps, x.numel(), grain=REFRESH)
    return torch.from_numpy(np.round(state)).to(x.device, x.dtype)
