"""Compiled exponential noise: ``-log(u)`` of uniform numbers of 24 bits.

The logarithm is a polynomial, and random bits come, where there are none, from 128
streams of xoshiro128+ (Blackman and Vigna, 2018) side by side, as vector instructions.
"""

from functools import partial

import numpy as np

from ebmtut._compiled import compiled as _compiled

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
def minus_log(uniform, theta):  # type: ignore[no-untyped-def]
    """theta = -log(uniform / 2^24), not below 2^-25, for 0 < uniform <= 2^24.

    Both are float32, (128,); the error is below 5e-7 (1 + theta).
    """
    bits, mantissa = uniform.view(np.int32), theta.view(np.int32)
    for lane in range(_LANES):
        mantissa[lane] = (bits[lane] & np.int32(0x7FFFFF)) | np.int32(0x3F800000)
    for lane in range(_LANES):
        exponent = np.float32((bits[lane] >> np.int32(23)) - np.int32(127 + 24))
        x = theta[lane] - np.float32(1.5)
        log = x * (_LOG[4] + x * (_LOG[5] + x * (_LOG[6] + x * _LOG[7])))
        log = x * (_LOG[1] + x * (_LOG[2] + x * (_LOG[3] + log)))
        theta[lane] = max(-(exponent * _LOG_2 + (_LOG[0] + log)), _TINY)


@compiled
def exponentials(bits, out):  # type: ignore[no-untyped-def]
    """Fill out with exponentials of mean 1, made from the low 24 bits of bits.

    Both are flat, int32 and float32; 0 counts as a half.
    """
    uniform = np.ones(_LANES, np.float32)
    theta = np.empty(_LANES, np.float32)
    for start in range(0, len(out), _LANES):
        some, made = bits[start : start + _LANES], out[start : start + _LANES]
        for lane in range(len(made)):
            draw = np.float32(some[lane] & np.int32(0xFFFFFF))
            uniform[lane] = max(draw, np.float32(0.5))
        minus_log(uniform, theta)
        for lane in range(len(made)):
            made[lane] = theta[lane]


@compiled
def exponential_minus(streams, mass, temperature, base, out):  # type: ignore[no-untyped-def]
    """out = theta T / mass - base with theta exponential of mean 1.

    mass, base and out are flat; no mass gives +inf. streams, uint32 of shape
    STREAMS and nowhere all zero, is advanced.
    """
    uniform = np.empty(_LANES, np.float32)
    theta = np.empty(_LANES, np.float32)
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
        minus_log(uniform, theta)
        some, lower = mass[start : start + _LANES], base[start : start + _LANES]
        made = out[start : start + _LANES]
        for lane in range(len(made)):
            made[lane] = theta[lane] * temperature / some[lane] - lower[lane]
