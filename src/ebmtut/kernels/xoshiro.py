"""Streams of xoshiro256++ for compiled kernels.

Source: Blackman and Vigna (2021), "Scrambled Linear Pseudorandom Number Generators";
streams are started by SplitMix64.
"""

import numpy as np
from numpy.typing import NDArray

from ebmtut._compiled import inlined


def xoshiro_states(seed: int, n_streams: int) -> NDArray[np.uint64]:
    """Start ``n_streams`` generators, ``(n_streams, 4)``, by SplitMix64."""
    counter = np.arange(1, 4 * n_streams + 1, dtype=np.uint64)
    # Unsigned array arithmetic wraps around, as the algorithm wants.
    z = np.array([seed], dtype=np.uint64) + counter * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).reshape(n_streams, 4)


@inlined
def xoshiro_next(s0, s1, s2, s3):  # type: ignore[no-untyped-def]
    """One draw of xoshiro256++ and its next state."""
    draw = s0 + s3
    draw = ((draw << np.uint64(23)) | (draw >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return draw, s0, s1, s2, s3
