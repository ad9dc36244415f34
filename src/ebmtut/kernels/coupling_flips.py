"""Sums of a quadratic energy over the spins that flipped, compiled for the CPU.

The plain references are `_differences` and `_moments` of
`ebmtut.losses.coupling_discrepancy` without flips, which sum over all spins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ebmtut._compiled import reordered


class Flips(NamedTuple):
    """Which spins of other states differ: ``sites[b, m, :counts[b, m]]``."""

    sites: NDArray[np.uint16]
    counts: NDArray[np.uint16]

    def differences(
        self,
        symmetric: Float[Tensor, "n_models n_sites n_sites"],
        field: Float[Tensor, "n_models batch n_sites"],
        s: Float[Tensor, "batch n_sites"],
    ) -> Float[Tensor, "n_models batch n_negatives"]:
        """U(s) - U(s') of all models; ``field`` is Js."""
        found = s.new_empty(len(symmetric), *self.counts.shape)
        arrays = (array.contiguous().numpy() for array in (symmetric, field, s, found))
        _sum_over_flips(*self, *arrays)
        return found

    def moments(
        self,
        s: Float[Tensor, "batch n_sites"],
        drawn: Int[Tensor, "n_models batch n_draws"],
        share: Float[Tensor, "n_models batch n_draws"],
    ) -> Float[Tensor, "n_models n_sites n_sites"]:
        """Sum of share times t (s + t/2)' over the sampled states, t = s' - s."""
        found = s.new_zeros(len(drawn), s.shape[1], s.shape[1])
        arrays = (array.contiguous().numpy() for array in (s, drawn, share, found))
        _add_flipped_rows(*self, *arrays)
        return found


def find_flips(
    x: Float[Tensor, "batch n_sites"], other: Float[Tensor, "batch n_negatives n_sites"]
) -> Flips | None:
    """List the flipped spins for the kernels; None where torch does their work."""
    if x.device.type != "cpu" or x.dtype != torch.float32 or x.shape[1] >= 2**16:
        return None
    flips = Flips(
        np.empty(other.shape, np.uint16), np.empty(other.shape[:2], np.uint16)
    )
    _list_flips(x.contiguous().numpy(), other.contiguous().numpy(), *flips)
    return flips


@reordered
def _list_flips(x, other, sites, counts):  # type: ignore[no-untyped-def]
    """Fill ``sites`` and ``counts``; without branches, as most bits are noise."""
    batch, n_negatives, n_sites = other.shape
    for b in range(batch):
        for m in range(n_negatives):
            n = 0
            for i in range(n_sites):
                sites[b, m, n] = i
                n += other[b, m, i] != x[b, i]
            counts[b, m] = n


@reordered
def _sum_over_flips(sites, counts, symmetric, field, s, found):  # type: ignore[no-untyped-def]
    """Fill ``found`` with sum_i t_i (2 field_i + (Jt)_i) over the flipped i."""
    n_models, batch, n_negatives = found.shape
    n_sites = s.shape[1]
    t = np.zeros(n_sites, s.dtype)
    for b in range(batch):
        for m in range(n_negatives):
            flipped = sites[b, m, : counts[b, m]]
            for i in flipped:
                t[i] = -2 * s[b, i]
            for k in range(n_models):
                total = s.dtype.type(0)
                for i in flipped:
                    row, heard = symmetric[k, i], s.dtype.type(0)
                    for j in range(n_sites):
                        heard += row[j] * t[j]
                    total += t[i] * (heard + 2 * field[k, b, i])
                found[k, b, m] = total
            for i in flipped:
                t[i] = 0


@reordered
def _add_flipped_rows(sites, counts, s, drawn, share, found):  # type: ignore[no-untyped-def]
    """Add share t_i (s + t/2)' to row i for the flipped i; of them, s + t/2 is 0."""
    n_models, batch, n_draws = drawn.shape
    n_sites = s.shape[1]
    middle = np.empty(n_sites, s.dtype)
    minus_two = np.float32(-2)  # an integer would make the products float64
    for k in range(n_models):
        for b in range(batch):
            for d in range(n_draws):
                m = drawn[k, b, d]
                flipped = sites[b, m, : counts[b, m]]
                middle[:] = s[b]
                for i in flipped:
                    middle[i] = 0
                for i in flipped:
                    row, weight = found[k, i], minus_two * s[b, i] * share[k, b, d]
                    for j in range(n_sites):
                        row[j] += weight * middle[j]
