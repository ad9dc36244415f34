"""Compiled Gibbs sweeps of Ising models in which any two sites may be coupled.

A chain has a stream of random numbers of its own, so results do not depend on how the
chains are split among threads.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut._compiled import compiled, sweep_in_threads
from ebmtut.energies import Ising
from ebmtut.kernels.xoshiro import xoshiro_next, xoshiro_states

REFRESH = 32  # sweeps between two sums of the fields from scratch


@compiled
def dense_sweeps(spins, coupling, bias, streams, n_sweeps):  # type: ignore[no-untyped-def]
    """Sweep chains over all sites in turn, keeping every local field current.

    spins (n_chains, n_sites) int8 and streams (n_chains, 4) are updated in place. P(s_i
    = 1 | rest) = sigmoid(bias_i + coupling_i . s) with a symmetric coupling of zero
    diagonal.
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


def logit_parts(
    energy: Ising, x: Float[Tensor, "batch n_sites"]
) -> tuple[Float[Tensor, "n_sites n_sites"], Float[Tensor, " n_sites"]]:
    """C and c with P(s_i = 1 | rest) = sigmoid((C s + c)_i), where x lies."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    coupling = 4 * energy.symmetric_coupling.detach().to(x.device, dtype)
    if energy.bias is None:
        return coupling, coupling.new_zeros(energy.n_sites)
    return coupling, 2 * energy.bias.detach().to(coupling)


def dense_gibbs(
    energy: Ising, x: Float[Tensor, "batch n_sites"], n_sweeps: int, seed: int
) -> Float[Tensor, "batch n_sites"]:
    """Sweep copies of the chains, spread over threads."""
    coupling, bias = (part.numpy() for part in logit_parts(energy, x))
    bits = x.detach().bool().view(torch.uint8).numpy()
    spins = 2 * bits.astype(np.int8) - 1
    streams = xoshiro_states(seed, len(spins))

    def sweep(n: int, rows: slice) -> None:
        dense_sweeps(spins[rows], coupling, bias, streams[rows], n)

    # A site that flips changes the fields of all others.
    n_turns = spins.size * spins.shape[1]
    sweep_in_threads(sweep, len(spins), n_sweeps, n_turns, grain=REFRESH)
    return torch.from_numpy((spins + 1) // 2).to(x.dtype)
