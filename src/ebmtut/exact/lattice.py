"""Log partition functions of the periodic Ising lattice.

Powers of the transfer matrix, with a field, for narrow lattices; Kaufman's closed form,
without one, for every size. An edge's coupling K counts it once, so that K = 2 sigma.
"""

import math
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from ebmtut.checks import InputError, Number, Range, checked
from ebmtut.states import bits_to_spins, enumerate_states, states_to_index

__all__ = ["lattice_log_partition", "torus_log_partition", "transfer_log_partition"]

_MAX_TRANSFER_COLS = 16
# Largest log-ratio of two entries of T, so that none is lost to underflow.
_MAX_STRENGTH = 600.0
# Beyond it cosh^2 would soon overflow, and every spin is aligned anyway.
_MAX_K = 100.0


@checked
def lattice_log_partition(side: int, sigma: Number, bias: float = 0.0) -> float:
    """Log partition function of `LatticeIsing(side, sigma, bias)`, side at most 16.

    Examples
    --------
    >>> from ebmtut.exact import lattice_log_partition
    >>> round(lattice_log_partition(10, 0.22), 3)
    93.509
    """
    return transfer_log_partition(side, side, 2 * sigma, bias)


@checked
def transfer_log_partition(
    rows: Annotated[int, Range(low=3)],
    cols: Annotated[int, Range(3, _MAX_TRANSFER_COLS)],
    edge_coupling: Number,
    field: Number = 0.0,
) -> float:
    """Log partition function of a torus by powers of its transfer matrix.

    Z = tr T^rows with T(s, s') = exp(V(s)/2 + K s.s' + V(s')/2) between neighbouring
    rows. T is a Kronecker power between two diagonal matrices, with positive entries,
    so that nothing cancels.

    Parameters
    ----------
    rows, cols
        At least 3, and 3 to 16: the time grows as 4**cols / cols.
    edge_coupling, field
        K in exp(K s s') for every edge, counted once, and b in exp(b s).
    """
    strength = cols * (4 * abs(edge_coupling) + 2 * abs(field))
    if strength > _MAX_STRENGTH:
        raise InputError(
            "cols * (4 |edge_coupling| + 2 |field|) must be <= "
            f"{_MAX_STRENGTH:g}, got {strength:g}"
        )
    bits = enumerate_states(cols)
    s = bits_to_spins(bits)
    within = edge_coupling * (s * s.roll(1, dims=1)).sum(1) + field * s.sum(1)
    # Rotating the lattice changes no trace: one row of each orbit is enough.
    rotated = [states_to_index(bits.roll(k, dims=1)) for k in range(cols)]
    orbits, sizes = torch.stack(rotated).amin(dim=0).unique(return_counts=True)
    total = []
    for block in torch.split(torch.arange(len(orbits), device="cpu"), 64):
        unit = torch.zeros(len(block), len(s), dtype=s.dtype, device="cpu")
        unit[torch.arange(len(block), device="cpu"), orbits[block]] = 1.0
        left, log_scale = unit, torch.log(sizes[block].double())
        for _ in range(rows // 2):
            left, grown = _apply_transfer(left, within, edge_coupling)
            log_scale = log_scale + 2 * grown
        right = left
        if rows % 2:
            right, grown = _apply_transfer(left, within, edge_coupling)
            log_scale = log_scale + grown
        # T is symmetric: (T^rows)_ss is the product of two half powers.
        total.append(torch.log((left * right).sum(dim=1)) + log_scale)
    return float(torch.logsumexp(torch.cat(total), dim=0))


def _apply_transfer(
    rows: Float64[Tensor, "batch n_all"],
    within: Float64[Tensor, " n_all"],
    edge_coupling: float,
) -> tuple[Float64[Tensor, "batch n_all"], Float64[Tensor, " batch"]]:
    # rows @ T for non-negative row vectors, rescaled to a largest entry of 1.
    n_vectors, n_states = rows.shape
    half = torch.exp((within - within.max()) / 2)
    rows = rows * half
    n_sites = n_states.bit_length() - 1
    for group in range(0, n_sites, 4):
        spins = bits_to_spins(enumerate_states(min(4, n_sites - group)))
        # Only spins of one group meet in a factor of the Kronecker power.
        bond = edge_coupling * (spins @ spins.T)
        factor = torch.exp(bond - abs(edge_coupling) * spins.shape[1])
        # Contract the leading sites and put them last: after all groups every
        # site is back in its place.
        rows = rows.reshape(n_vectors, len(factor), -1).transpose(1, 2) @ factor
        rows = rows.reshape(n_vectors, n_states)
    rows = rows * half
    peak = rows.amax(dim=1, keepdim=True)
    log_growth = peak.log().squeeze(1) + within.max() + abs(edge_coupling) * n_sites
    return rows / peak, log_growth


@checked
def torus_log_partition(
    rows: Annotated[int, Range(low=3)],
    cols: Annotated[int, Range(low=3)],
    edge_coupling: Annotated[float, Range(-_MAX_K, _MAX_K)],
) -> float:
    """Log partition function of a torus without field, in closed form.

    Kaufman (1949), "Crystal statistics II": with cosh g_l = cosh 2K coth 2K - cos(pi l
    / cols), Z = (2 sinh 2K)^(rows cols / 2) / 2 times the sum of four products over r
    of 2 cosh(rows g_l / 2) and 2 sinh(rows g_l / 2), each for l = 2r + 1 and for l =
    2r. The root g_0 is 2K + ln tanh K.

    Parameters
    ----------
    rows, cols
        At least 3; both even where the coupling is negative.
    edge_coupling
        K in exp(K s s') for every edge, counted once.
    """
    if edge_coupling < 0 and (rows % 2 or cols % 2):
        raise InputError(
            "edge_coupling must be >= 0 where a side is odd, got "
            f"{edge_coupling} on {rows} x {cols}: use transfer_log_partition"
        )
    n_sites = rows * cols
    if abs(edge_coupling) < np.finfo(float).tiny:  # whose reciprocal overflows
        return n_sites * math.log(2)
    # Flipping every other spin of an even torus reverses the coupling.
    k = abs(edge_coupling)
    angle = np.pi * np.arange(2 * cols) / cols
    g = np.arccosh(math.cosh(2 * k) / math.tanh(2 * k) - np.cos(angle))
    g[0] = 2 * k + math.log(math.tanh(k))
    half = rows * np.abs(g) / 2
    with np.errstate(divide="ignore"):  # sinh(g_0) is 0 at criticality
        log_cosh = half + np.log1p(np.exp(-2 * half))
        log_sinh = half + np.log(-np.expm1(-2 * half))
    logs = np.array(
        [f[first::2].sum() for first in (1, 0) for f in (log_cosh, log_sinh)]
    )
    terms = np.array([1.0, 1.0, 1.0, np.sign(g[0])]) * np.exp(logs - logs.max())
    log_sum = logs.max() + math.log(terms.sum() / 2)
    return float(n_sites / 2 * math.log(2 * math.sinh(2 * k)) + log_sum)
