"""Exact energy distribution and correlations of the periodic Ising lattice, no field.

The energy distribution is the Fourier transform of Kaufman's closed form at complex
couplings; correlations follow from the spectrum of the transfer matrix.
"""

from typing import Annotated

import numpy as np
import torch
from jaxtyping import Complex, Float64
from torch import Tensor

from ebmtut.checks import InputError, Range, checked
from ebmtut.exact.lattice import torus_log_partition
from ebmtut.states import bits_to_spins, enumerate_states

__all__ = ["torus_correlations", "torus_energy_distribution"]

_MAX_COLS = 11
_MAX_SIDE = 64


@checked
def torus_energy_distribution(
    rows: Annotated[int, Range(4, _MAX_SIDE)],
    cols: Annotated[int, Range(4, _MAX_SIDE)],
    edge_coupling: Annotated[float, Range(0, 1, include_low=False)],
) -> tuple[Float64[Tensor, " n_levels"], Float64[Tensor, " n_levels"]]:
    """Energy distribution of a torus without field.

    An even number 2u of its 2 n_sites edges is unsatisfied, and Z(K + i theta) / Z(K)
    is the mean of exp(2 i theta (n_sites - 2u)): `torus_log_partition` at n_sites + 1
    theta gives the probability of every u.

    Parameters
    ----------
    rows, cols
        Even, 4 to 64.
    edge_coupling
        K in exp(K s s') for every edge, counted once; at most 1.

    Returns
    -------
    energies
        Every level -2 K (n_sites - 2u), from the lowest on, in nats.
    probabilities
        Of each level, with an error of about 1e-12.
    """
    if rows % 2 or cols % 2:
        raise InputError(f"rows and cols must be even, got {rows} and {cols}")
    n = rows * cols
    k = np.arange(n + 1)
    theta = np.pi * k / (2 * (n + 1))
    # A smaller coupling has the same probabilities, but its inverse would overflow.
    relative = _relative_partition(rows, cols, max(edge_coupling, 1e-300), theta)
    phases = np.exp(1j * np.outer(4 * k, theta)) * np.exp(-2j * n * theta)
    distribution = (phases @ relative).real / (n + 1)
    energies = -2 * edge_coupling * (n - 2 * k)
    return torch.from_numpy(energies), torch.from_numpy(distribution.clip(min=0))


def _relative_partition(
    rows: int, cols: int, edge_coupling: float, theta: Float64[np.ndarray, " n"]
) -> Complex[np.ndarray, " n"]:
    """Z(K + i theta) / Z(K)."""
    k = (edge_coupling + 1j * theta)[:, None]
    angle = np.pi * np.arange(2 * cols) / cols
    g = np.arccosh(np.cosh(2 * k) / np.tanh(2 * k) - np.cos(angle))
    # Only these two stand alone: of all others there are pairs, whose signs cancel.
    g[:, [0]] = 2 * k + np.log(np.tanh(k))
    g[:, [cols]] = 2 * k - np.log(np.tanh(k))
    # Both functions of a positive angle, written so that neither overflows.
    sign = np.where(g.real < 0, -1, 1)
    half = rows * sign * g / 2
    with np.errstate(divide="ignore"):  # sinh(g_0) is 0 at criticality
        log_sinh = half + np.log(-np.expm1(-2 * half)) + np.log(sign + 0j)
    factors = half + np.log1p(np.exp(-2 * half)), log_sinh
    known = torus_log_partition(rows, cols, edge_coupling) + np.log(2)
    scale = rows * cols / 2 * np.log(2 * np.sinh(2 * k[:, 0])) - known
    total = np.zeros(len(theta), complex)
    for first in (0, 1):
        for logs in factors:
            total += np.exp(logs[:, first::2].sum(1) + scale)
    return total


@checked
def torus_correlations(
    rows: Annotated[int, Range(low=3)],
    cols: Annotated[int, Range(3, _MAX_COLS)],
    edge_coupling: Annotated[float, Range(-1, 1)],
) -> Float64[Tensor, " n"]:
    """Correlation of two spins of a torus without field, by their distance.

    E[s_0 s_r] = sum_ab l_a^r l_b^(rows - r) <a|s|b>^2 / sum_a l_a^rows, with the
    eigenvalues l and eigenvectors of the transfer matrix between rows, and s one of its
    spins.

    Parameters
    ----------
    rows, cols
        At least 3, the direction of the distance; 3 to 11.
    edge_coupling
        K in exp(K s s') for every edge, counted once.

    Returns
    -------
    correlations
        At distances 0 to rows // 2 along a column.
    """
    s = bits_to_spins(enumerate_states(cols)).double()
    within = edge_coupling * (s * s.roll(1, dims=1)).sum(1)
    log_transfer = edge_coupling * s @ s.T + (within[:, None] + within) / 2
    values, vectors = torch.linalg.eigh((log_transfer - log_transfer.max()).exp())
    values = values / values.abs().max()
    squared = (vectors.T @ (s[:, [0]] * vectors)) ** 2
    total = (values**rows).sum()
    return torch.stack(
        [
            values**r @ squared @ values ** (rows - r) / total
            for r in range(rows // 2 + 1)
        ]
    )
