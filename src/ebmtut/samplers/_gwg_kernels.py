"""Compiled Gibbs-with-gradients on Boltzmann machines: plain arrays, in place.

With the square root as balancing function, site i is proposed with the weight
exp(d_i / 2), d_i = log p(x flipped at i) - log p(x), and accepted with the ratio
of the sums of all weights before and after: a step costs one pass over a row of
the weights and n exponentials.
"""

from functools import partial

import numpy as np

from ebmtut._compiled import compiled as _compiled
from ebmtut.samplers._ising_kernels import xoshiro_next

__all__ = ["REFRESH", "gwg_steps"]

_BLOCK = 32  # sites whose weights are summed together, to find a site faster
REFRESH = 4096  # steps between two sums of the fields from scratch
# exp(r) for |r| <= ln(2) / 2, minimax in float32.
_C2, _C3, _C4, _C5 = 0.49999994, 0.16666521, 0.041668091, 0.0083693964

# Sums in any order: the only freedom that vectors need.
compiled = partial(_compiled, fastmath={"reassoc", "contract", "nsz"})


@compiled
def _weigh(x, field, weight, bits, blocks):  # type: ignore[no-untyped-def]
    """Fill the weights exp((1 - 2x) field / 2) and their sums by block.

    ``bits`` is ``weight`` seen as int32: the exponential is a polynomial, and a
    power of two that is added to the exponent's bits. Vectors, not calls.
    """
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
    total = np.float32(0)
    for block in range(blocks.size):
        part = np.float32(0)
        for i in range(block * _BLOCK, min((block + 1) * _BLOCK, weight.size)):
            part += weight[i]
        blocks[block] = part
        total += part
    return total


@compiled
def gwg_steps(x, coupling, bias, streams, n_steps):  # type: ignore[no-untyped-def]
    """Make ``n_steps`` single-site moves of every chain; return how many were taken.

    ``x`` (n_chains, n) float32 of 0 and 1 and ``streams`` (n_chains, 4), the states
    of the random numbers, are updated in place; P is proportional to
    exp(x'Wx/2 + b'x) with W = ``coupling``, symmetric, of zero diagonal.
    """
    n_chains, n = x.shape
    n_blocks = -(-n // _BLOCK)
    field, new_field = np.empty_like(bias), np.empty_like(bias)
    # Two sets of weights: those of the state, and of the proposed one.
    weight, new_weight = np.empty_like(bias), np.empty_like(bias)
    blocks, new_blocks = np.empty((2, n_blocks), np.float32)
    n_taken = 0
    for c in range(n_chains):
        state = x[c]
        s0, s1, s2, s3 = streams[c]
        total = np.float32(0)
        for step in range(n_steps):
            if step % REFRESH == 0:
                field[:] = bias
                for i in range(n):
                    if state[i] > 0:
                        field += coupling[i]
                total = _weigh(state, field, weight, weight.view(np.int32), blocks)
            draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
            rest = np.float32((draw >> np.uint64(11)) * 2.0**-53) * total
            block = 0
            while block < n_blocks - 1 and rest >= blocks[block]:
                rest -= blocks[block]
                block += 1
            site = block * _BLOCK
            end = min(site + _BLOCK, n)
            while site < end - 1 and rest >= weight[site]:
                rest -= weight[site]
                site += 1
            change = np.float32(1) - 2 * state[site]
            row = coupling[site]
            for j in range(n):
                new_field[j] = field[j] + change * row[j]
            state[site] += change
            new_total = _weigh(
                state, new_field, new_weight, new_weight.view(np.int32), new_blocks
            )
            draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
            if (draw >> np.uint64(11)) * 2.0**-53 * new_total < total:
                field, new_field = new_field, field
                weight, new_weight = new_weight, weight
                blocks, new_blocks = new_blocks, blocks
                total = new_total
                n_taken += 1
            else:
                state[site] -= change
        streams[c, 0], streams[c, 1] = s0, s1
        streams[c, 2], streams[c, 3] = s2, s3
    return n_taken
