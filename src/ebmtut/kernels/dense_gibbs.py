"""Compiled Gibbs sweeps of Ising models in which any two sites may be coupled.

A chain has a stream of random numbers of its own, so results do not depend on how the
chains are split among threads.
"""

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from ebmtut._compiled import compiled, sweep_in_threads
from ebmtut.energies import Ising
from ebmtut.kernels.xoshiro import xoshiro_next, xoshiro_states

REFRESH = 32  # sweeps between two sums of the fields from scratch


@compiled
def dense_sweeps(  # type: ignore[no-untyped-def]
    spins, fields, coupling, bias, streams, n_before, n_sweeps, strength
):
    """Sweep chains over all sites in turn, keeping every local field current.

    spins (n_chains, n_sites) int8, fields (n_chains, n_sites) and streams (n_chains, 4)
    are updated in place; n_before counts the sweeps of earlier calls. P(s_i = 1 | rest)
    = sigmoid(strength * field_i) with field = bias + coupling s and a symmetric
    coupling of zero diagonal.
    """
    n_chains, n_sites = spins.shape
    sharpness = coupling.dtype.type(strength)
    field = np.empty_like(bias)
    for chain in range(n_chains):
        s = spins[chain]
        field[:] = fields[chain]
        s0, s1, s2, s3 = streams[chain]
        for sweep in range(n_before, n_before + n_sweeps):
            if sweep % REFRESH == 0:
                field[:] = bias
                for i in range(n_sites):
                    for j in range(n_sites):
                        field[j] += coupling[i, j] * s[i]
            for i in range(n_sites):
                draw, s0, s1, s2, s3 = xoshiro_next(s0, s1, s2, s3)
                uniform = (draw >> np.uint64(11)) * 2.0**-53
                # u < 1 / (1 + exp(-f)), without a division by infinity.
                new = 1 if uniform * (1 + np.exp(-sharpness * field[i])) < 1 else -1
                if new != s[i]:
                    s[i] = new
                    change = coupling.dtype.type(2 * new)
                    for j in range(n_sites):
                        field[j] += change * coupling[i, j]
        fields[chain] = field
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


class DenseChains:
    """Chains of a dense model, with their fields and streams of random numbers."""

    def __init__(
        self, energy: Ising, x: Float[Tensor, "batch n_sites"], seed: int
    ) -> None:
        self.coupling, self.bias = (part.numpy() for part in logit_parts(energy, x))
        bits = x.detach().bool().view(torch.uint8).numpy()
        self.spins = 2 * bits.astype(np.int8) - 1
        self.fields = np.empty(bits.shape, dtype=self.bias.dtype)
        self.streams = xoshiro_states(seed, len(bits))
        self.n_done = 0

    def sweep(self, n_sweeps: int, strength: float = 1.0) -> None:
        """Sweep at a factor of the energy, spread over threads."""

        def work(n: int, rows: slice) -> None:
            chains = self.spins[rows], self.fields[rows]
            model = self.coupling, self.bias, self.streams[rows]
            dense_sweeps(*chains, *model, self.n_done, n, strength)

        # A site that flips changes the fields of all others.
        n_turns = self.spins.size * self.spins.shape[1]
        sweep_in_threads(work, len(self.spins), n_sweeps, n_turns, grain=REFRESH)
        self.n_done += n_sweeps

    def energies(self) -> Float64[Tensor, " batch"]:
        """Energies of the present states."""
        if not self.n_done:
            self.fields = self.bias + self.spins @ self.coupling
        # s (C s + 2c), where E = -(s C s / 4 + s c / 2).
        doubled = (self.spins * (self.fields + self.bias)).sum(1)
        return torch.from_numpy(doubled).double() / -4

    def choose(self, rows: Int64[Tensor, " batch"]) -> None:
        """Replace the chains by copies of these."""
        self.spins, self.fields = self.spins[rows], self.fields[rows]

    def states(self, dtype: torch.dtype) -> Float[Tensor, "batch n_sites"]:
        """Return the chains' states as bits."""
        return torch.from_numpy((self.spins + 1) // 2).to(dtype)


def dense_gibbs(
    energy: Ising, x: Float[Tensor, "batch n_sites"], n_sweeps: int, seed: int
) -> Float[Tensor, "batch n_sites"]:
    """Sweep copies of the chains, spread over threads."""
    chains = DenseChains(energy, x, seed)
    chains.sweep(n_sweeps)
    return chains.states(x.dtype)
