"""Compiled Gibbs sweeps of Ising models in which any two sites may be coupled.

A chain has a stream of random numbers of its own, so results do not depend on how the
chains are split among threads.
"""

import numpy as np

from ebmtut._compiled import compiled
from ebmtut.samplers._xoshiro import xoshiro_next

__all__ = ["REFRESH", "dense_sweeps"]

REFRESH = 32  # sweeps between two sums of the fields from scratch


@compiled
def dense_sweeps(spins, coupling, bias, streams, n_sweeps):  # type: ignore[no-untyped-def]
    """Sweep chains over all sites in turn, keeping every local field current.

    spins (n_chains, n_sites) int8, -1 or 1, and streams (n_chains, 4), the states
    of the random numbers, are updated in place. P(s_i = 1 | rest) =
    sigmoid(bias_i + coupling_i . s) with a symmetric coupling of zero
    diagonal. Fields have its dtype.
    """
    n_chains, n_sites = spins.shape
    field = np.empty_like(bias)
    for chain in range(n_chains):
        s = spins[chain]
        s0, s1, s2, s3 = streams[chain]
        for sweep in range(n_sweeps):
            if sweep % REFRESH == 0:
                field[:] = bias
                for i in range(n_sites):
                    for j in range(n_sites):
                        field[j] += coupling[i, j] * s[i]
            for i in range(n_sites):
                draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
                uniform = (draw >> np.uint64(11)) * 2.0**-53
                # u < 1 / (1 + exp(-f)), without a division by infinity.
                new = 1 if uniform * (1 + np.exp(-field[i])) < 1 else -1
                if new != s[i]:
                    s[i] = new
                    change = coupling.dtype.type(2 * new)
                    for j in range(n_sites):
                        field[j] += change * coupling[i, j]
        streams[chain, 0], streams[chain, 1] = s0, s1
        streams[chain, 2], streams[chain, 3] = s2, s3
