"""Compiled steps of Gibbs-OT on a grid: min-plus products and exponential noise.

The references are :func:`ebmtut.transport.min_plus_reference`, which is what
a reader is shown, and ``-log(1 - u)``.

Noise comes from 128 streams of xoshiro128+ (Blackman and Vigna, 2018) side by
side and a polynomial for the logarithm: plain loops that the compiler turns
into vector instructions. It has 24 random bits, as float32 draws have.
"""

from functools import partial

import numpy as np

from ebmtut._compiled import compiled as _compiled

__all__ = ["STREAMS", "axis_min_plus", "exponential_minus"]

# Lanes of one tile: a line of 64 pixels and its lanes fill the level-1 cache.
_LANES = 128
#: Shape of the random streams' state.
STREAMS = (4, _LANES)

# log(x) on [1, 2) as a polynomial in x - 3/2; its error is below 3e-7.
_FIT = np.polynomial.Chebyshev.interpolate(np.log, 7, domain=[1, 2])
_LOG = tuple(
    np.float32(c)
    for c in _FIT.convert(kind=np.polynomial.Polynomial)(
        np.polynomial.Polynomial([1.5, 1])
    ).coef
)
_LOG_2 = np.float32(np.log(2))
_TINY = np.float32(2.0**-25)

compiled = partial(_compiled, error_model="numpy")


@compiled
def smaller(a, b):  # type: ignore[no-untyped-def]
    """One minimum instruction; the builtin's care for NaN is several."""
    return a if a < b else b


@compiled
def tile(l0, l1, l2, l3, c0, c1, out0, out1):  # type: ignore[no-untyped-def]
    """Four source pixels against two targets: six loads for eight terms."""
    a0, a1, a2, a3 = c0[0], c0[1], c0[2], c0[3]
    b0, b1, b2, b3 = c1[0], c1[1], c1[2], c1[3]
    for lane in range(_LANES):
        w, x, y, z = l0[lane], l1[lane], l2[lane], l3[lane]
        best = smaller(smaller(w + a0, x + a1), smaller(y + a2, z + a3))
        out0[lane] = smaller(best, out0[lane])
        best = smaller(smaller(w + b0, x + b1), smaller(y + b2, z + b3))
        out1[lane] = smaller(best, out1[lane])


@compiled
def axis_min_plus(values, cost, out):  # type: ignore[no-untyped-def]
    """out[a, i, b] = min over k of values[a, k, b] + cost[i, k].

    values (n_outer, n, n_inner) and out of the same shape are contiguous;
    cost is padded with infinities to an even number of rows and a multiple
    of four columns.
    """
    n_outer, n, n_inner = values.shape
    n_rows, n_columns = cost.shape
    line = np.zeros((n_columns, _LANES), values.dtype)
    best = np.empty((2, _LANES), values.dtype)
    for a in range(n_outer):
        for start in range(0, n_inner, _LANES):
            width = min(_LANES, n_inner - start)
            for k in range(n):
                line[k, :width] = values[a, k, start : start + width]
            for i in range(0, n_rows, 2):
                best[:] = np.inf
                for k in range(0, n_columns, 4):
                    tile(
                        line[k],
                        line[k + 1],
                        line[k + 2],
                        line[k + 3],
                        cost[i, k : k + 4],
                        cost[i + 1, k : k + 4],
                        best[0],
                        best[1],
                    )
                out[a, i, start : start + width] = best[0, :width]
                if i + 1 < n:
                    out[a, i + 1, start : start + width] = best[1, :width]


@compiled
def exponential_minus(streams, mass, temperature, base, out):  # type: ignore[no-untyped-def]
    """out = theta T / mass - base with theta exponential of mean 1.

    mass, base and out are flat; no mass gives +inf. streams, uint32 of shape
    STREAMS and nowhere all zero, is advanced.
    """
    uniform = np.empty(_LANES, np.float32)
    bits = uniform.view(np.int32)
    theta = np.empty(_LANES, np.float32)
    mantissa = theta.view(np.int32)
    # Taken one by one: unpacked, they would keep the loop from vectorising.
    s0 = streams[0]
    s1 = streams[1]
    s2 = streams[2]
    s3 = streams[3]
    for start in range(0, len(mass), _LANES):
        for lane in range(_LANES):
            a, b, c, d = s0[lane], s1[lane], s2[lane], s3[lane]
            draw = np.uint32(a + d)
            t = np.uint32(b << np.uint32(9))
            c = np.uint32(c ^ a)
            d = np.uint32(d ^ b)
            s1[lane] = np.uint32(b ^ c)
            s0[lane] = np.uint32(a ^ d)
            s2[lane] = np.uint32(c ^ t)
            s3[lane] = np.uint32((d << np.uint32(11)) | (d >> np.uint32(21)))
            # 1, ..., 2^24: the uniform number times 2^24.
            uniform[lane] = np.float32(np.int32(draw >> np.uint32(8)) + np.int32(1))
        for lane in range(_LANES):
            mantissa[lane] = (bits[lane] & np.int32(0x7FFFFF)) | np.int32(0x3F800000)
        for lane in range(_LANES):
            exponent = np.float32((bits[lane] >> np.int32(23)) - np.int32(127 + 24))
            x = theta[lane] - np.float32(1.5)
            log = x * (_LOG[4] + x * (_LOG[5] + x * (_LOG[6] + x * _LOG[7])))
            log = x * (_LOG[1] + x * (_LOG[2] + x * (_LOG[3] + log)))
            theta[lane] = max(-(exponent * _LOG_2 + (_LOG[0] + log)), _TINY)
        for lane in range(min(_LANES, len(mass) - start)):
            k = start + lane
            out[k] = theta[lane] * temperature / mass[k] - base[k]
