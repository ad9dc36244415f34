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

from ebmtut._compiled import inlined_reordered, reordered, sweep_in_threads
from ebmtut.energies import BoltzmannMachine
from ebmtut.kernels.xoshiro import xoshiro_next, xoshiro_states
from ebmtut.random import spawn_seed

_BLOCK = 32  # sites whose weights are summed together, to find a site faster
REFRESH = 4096  # steps between two sums of the fields from scratch
# exp(r) for |r| <= ln(2) / 2, minimax in float32; in float64 Taylor's series, whose
# rest after the power 13 is less than 5e-18. log(2) is in two parts, the first of few
# bits.
_C2, _C3, _C4, _C5 = 0.49999994, 0.16666521, 0.041668091, 0.0083693964
_LOG2, _LOG2_REST = 0.693145751953125, 1.4286068203094173e-06


@inlined_reordered
def _weigh(x, field, weight, bits, blocks):  # type: ignore[no-untyped-def]
    """Fill the weights exp((1 - 2x) field / 2) and their sums by block.

    ``bits`` is ``weight`` as integers: the exponential is a polynomial times a power of
    two.
    """
    if weight.itemsize == 8:
        for i in range(weight.size):
            z = (0.5 - x[i]) * field[i]
            z = min(max(z, -80.0), 80.0)
            k = np.floor(z * 1.4426950408889634 + 0.5)
            r = z - k * _LOG2 - k * _LOG2_REST
            p = 1 / 479001600 + r * (1 / 6227020800)
            p = 1 / 3628800 + r * (1 / 39916800 + r * p)
            p = 1 / 40320 + r * (1 / 362880 + r * p)
            p = 1 / 720 + r * (1 / 5040 + r * p)
            p = 1 / 24 + r * (1 / 120 + r * p)
            p = 1 / 2 + r * (1 / 6 + r * p)
            weight[i] = 1 + r * (1 + r * p)
            bits[i] += np.int64(k) << np.int64(52)
        return _sum_blocks(weight, blocks)
    for i in range(weight.size):
        z = (np.float32(0.5) - x[i]) * field[i]
        z = min(max(z, np.float32(-80)), np.float32(80))
        k = np.floor(z * np.float32(1.44269504) + np.float32(0.5))
        r = z - k * np.float32(0.693145752) - k * np.float32(1.42860677e-6)
        p = np.float32(_C4) + r * np.float32(_C5)
        p = np.float32(_C3) + r * p
        p = np.float32(_C2) + r * p
        weight[i] = np.float32(1) + r * (np.float32(1) + r * p)
        bits[i] += np.int32(k) << np.int32(23)
    return _sum_blocks(weight, blocks)


@inlined_reordered
def _sum_blocks(weight, blocks):  # type: ignore[no-untyped-def]
    """Sum the weights by block, and all."""
    zero = blocks.dtype.type(0)
    total = zero
    for block in range(blocks.size):
        part = zero
        for i in range(block * _BLOCK, min((block + 1) * _BLOCK, weight.size)):
            part += weight[i]
        blocks[block] = part
        total += part
    return total


@reordered
def gwg_steps(x, coupling, bias, streams, n_steps, bits):  # type: ignore[no-untyped-def]
    """Make ``n_steps`` single-site moves of every chain; return how many were taken.

    ``x`` (n_chains, n) and ``streams`` (n_chains, 4) are updated in place; P is
    proportional to exp(x'Wx/2 + b'x) with W = ``coupling``, symmetric, of zero
    diagonal. ``bits`` (2, n) is room for the weights.
    """
    n_chains, n = x.shape
    n_blocks = -(-n // _BLOCK)
    field, new_field = np.empty_like(bias), np.empty_like(bias)
    # Two sets of weights: those of the state, and of the proposed one.
    weight_bits, new_bits = bits
    weight, new_weight = weight_bits.view(bias.dtype), new_bits.view(bias.dtype)
    blocks, new_blocks = np.empty((2, n_blocks), bias.dtype)
    n_taken = 0
    for c in range(n_chains):
        state = x[c]
        s0, s1, s2, s3 = streams[c]
        total = bias.dtype.type(0)
        for step in range(n_steps):
            if step % REFRESH == 0:
                field[:] = bias
                for i in range(n):
                    if state[i] > 0:
                        field += coupling[i]
                total = _weigh(state, field, weight, weight_bits, blocks)
            draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
            rest = bias.dtype.type((draw >> np.uint64(11)) * 2.0**-53) * total
            block = 0
            while block < n_blocks - 1 and rest >= blocks[block]:
                rest -= blocks[block]
                block += 1
            site = block * _BLOCK
            end = min(site + _BLOCK, n)
            while site < end - 1 and rest >= weight[site]:
                rest -= weight[site]
                site += 1
            change = 1 - 2 * state[site]
            row = coupling[site]
            for j in range(n):
                new_field[j] = field[j] + change * row[j]
            state[site] += change
            new_total = _weigh(state, new_field, new_weight, new_bits, new_blocks)
            draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
            if (draw >> np.uint64(11)) * 2.0**-53 * new_total < total:
                field, new_field = new_field, field
                weight, new_weight = new_weight, weight
                weight_bits, new_bits = new_bits, weight_bits
                blocks, new_blocks = new_blocks, blocks
                total = new_total
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

    def move(n: int, rows: slice) -> None:
        room = np.empty((2, model.n_sites), integer)
        gwg_steps(state[rows], coupling, bias, streams[rows], n, room)

    sweep_in_threads(move, len(x), n_steps, x.numel(), grain=REFRESH)
    return torch.from_numpy(np.round(state)).to(x.device, x.dtype)
