"""Costs on a pixel grid that separate by axis: no matrix of all pairs.

The squared Euclidean distance of two pixels is a cost of their rows plus a
cost of their columns, M[(i, j), (k, l)] = R[i, k] + C[j, l], so that

    min over (k, l) of h[k, l] + M[(i, j), (k, l)]
        = min over k of (R[i, k] + min over l of (C[j, l] + h[k, l])),

the step of Gibbs-OT and of the c-transform, in O(m^1.5) instead of O(m^2)
operations and O(m) memory for an image of m pixels.

A batch is fastest where the instances lie innermost in memory, as
:func:`instances_innermost` lays them out; every function here returns such
tensors, and their logical shape is (batch, height, width) all the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ebmtut.checks import InputError, check_range
from ebmtut.random import exponential
from ebmtut.transport._grid_kernels import axis_min_plus
from ebmtut.transport._noise_kernels import STREAMS, exponential_minus

__all__ = [
    "GridCost",
    "GridDuals",
    "grid_cost",
    "grid_dual_value",
    "grid_duals",
    "grid_gibbs_pass",
    "instances_innermost",
    "max_plus",
    "min_plus",
    "min_plus_reference",
]


class GridCost(NamedTuple):
    """A cost that separates by axis.

    Attributes
    ----------
    rows, columns : Tensor
        Costs between rows, (height, height), and columns, (width, width).
    """

    rows: Tensor
    columns: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the images."""
        return len(self.rows), len(self.columns)

    def dense(self) -> Tensor:
        """Return the matrix of all pairs of pixels, (m, m), pixels in row order."""
        m = len(self.rows) * len(self.columns)
        pairs = self.rows[:, None, :, None] + self.columns[None, :, None, :]
        return pairs.reshape(m, m)


class GridDuals(NamedTuple):
    """Statistics of the chain, each (batch, height, width).

    Attributes
    ----------
    U : Tensor
        The gradient of the loss in p.
    L : Tensor
        Minus the gradient in q.
    """

    U: Tensor
    L: Tensor

    def value(self, p: Tensor, q: Tensor) -> Tensor:
        """V(z) = <p, U> - <q, L>, (batch,); no bound on the loss: see Remark 4."""
        return (p * self.U).sum((1, 2)) - (q * self.L).sum((1, 2))


def grid_cost(
    height: int, width: int | None = None, *, dtype: torch.dtype = torch.float32
) -> GridCost:
    """Squared Euclidean distances of pixels; the longer side has length 1.

    Parameters
    ----------
    height, width
        Pixels; a square by default.
    dtype
        Of the costs.
    """
    width = height if width is None else width
    check_range("height", height, low=1, integer=True)
    check_range("width", width, low=1, integer=True)

    def squared(n: int) -> Tensor:
        x = torch.arange(n, dtype=dtype) / max(height, width)
        return (x[:, None] - x[None, :]) ** 2

    return GridCost(squared(height), squared(width))


def instances_innermost(images: Tensor) -> Tensor:
    """Lay a batch (batch, height, width) out with one pixel's instances adjacent."""
    return images.permute(1, 2, 0).contiguous().permute(2, 0, 1)


def min_plus_reference(h: Tensor, cost: GridCost) -> Tensor:
    """What :func:`min_plus` computes, in two lines of torch."""
    inner = (h[:, :, None, :] + cost.columns).amin(-1)
    return (inner[:, None, :, :] + cost.rows[:, :, None]).amin(2)


def min_plus(h: Tensor, cost: GridCost) -> Tensor:
    """U = min over pixels of M + h, for a batch of images (Eq. 6).

    Parameters
    ----------
    h
        Shape (batch, height, width), float32 or float64; +inf leaves a pixel out.
    cost
        The cost, of the same dtype and size.

    Returns
    -------
    Tensor
        Shape (batch, height, width).
    """
    check_images("h", h, cost)
    if h.device.type != "cpu":
        return min_plus_reference(h, cost)
    n, height, width = h.shape
    values = h.detach().permute(1, 2, 0).contiguous().numpy()
    inner, out = torch.empty((2, height, width, n), dtype=h.dtype).numpy()
    shape = (1, height, width * n)
    rows, columns = _padded(cost.rows), _padded(cost.columns)
    axis_min_plus(values, columns, inner)
    axis_min_plus(inner.reshape(shape), rows, out.reshape(shape))
    return torch.from_numpy(out).permute(2, 0, 1)


def max_plus(g: Tensor, cost: GridCost) -> Tensor:
    """L = max over pixels of g - M, for a batch of images (Eq. 7).

    Parameters
    ----------
    g
        Shape (batch, height, width); -inf leaves a pixel out.
    cost
        The cost, of the same dtype and size.
    """
    return min_plus(-g, cost).neg_()


def grid_gibbs_pass(
    U: Tensor,
    p: Tensor,
    q: Tensor,
    cost: GridCost,
    temperature: float,
    *,
    generator: torch.Generator,
) -> GridDuals:
    """One iteration of Algorithm 1 for a batch of problems on a grid.

    The chain's state is U: g given U, then L, then h given L, then U
    (Eqs. 12 and 13). Calling it again is a warm start, whatever p, q and the
    temperature have become.

    Parameters
    ----------
    U
        That of the last iteration, zeros at the start; (batch, height, width).
    p, q
        Masses, (batch, height, width); pixels without mass are left out. Their
        values are not checked, since this is the learning's innermost line.
    cost
        The cost.
    temperature
        T > 0.
    generator
        Source of randomness.

    Raises
    ------
    InputError
        If T is not positive, or U, p and q are not alike.
    """
    check_range("temperature", temperature, low=0, include_low=False)
    _check_sides(U, p, q, cost)
    # -g = theta T / p - U and -L = min(M - g); h mirrors g.
    minus_g = _exponential_minus(U, p, temperature, generator)
    minus_L = min_plus(minus_g, cost)
    h = _exponential_minus(minus_L, q, temperature, generator)
    return GridDuals(min_plus(h, cost), minus_L.neg_())


def grid_duals(start: Tensor, p: Tensor, q: Tensor, cost: GridCost) -> GridDuals:
    """Make a feasible pair of potentials, by two c-transforms.

    Parameters
    ----------
    start
        Any potential on the side of p, such as U; (batch, height, width).
    p, q
        Masses; what carries none constrains nothing.
    cost
        The cost.

    Returns
    -------
    GridDuals
        U_i - L_j <= M_ij for all pixels.

    Raises
    ------
    InputError
        If potential and masses differ in shape, dtype or device.
    """
    _check_sides(start, p, q, cost)
    g = start.masked_fill(p == 0, -torch.inf)
    L = max_plus(g, cost)
    U = min_plus(L.masked_fill(q == 0, torch.inf), cost)
    return GridDuals(U, max_plus(U, cost))


def grid_dual_value(start: Tensor, p: Tensor, q: Tensor, cost: GridCost) -> Tensor:
    """Return a lower bound of the transport cost from any potential, (batch,).

    Takes what :func:`grid_duals` does.
    """
    return grid_duals(start, p, q, cost).value(p, q)


def _exponential_minus(
    base: Tensor, mass: Tensor, temperature: float, generator: torch.Generator
) -> Tensor:
    """Return theta T / mass - base, theta exponential; +inf without mass."""
    if base.device.type != "cpu":
        device = str(base.device)
        shape = tuple(base.shape)
        theta = exponential(shape, generator=generator, dtype=base.dtype, device=device)
        return theta * temperature / mass - base
    n, height, width = base.shape
    flat_base, flat_mass = (x.permute(1, 2, 0).reshape(-1) for x in (base, mass))
    out = torch.empty_like(flat_base)
    streams = torch.randint(1, 2**32, STREAMS, generator=generator).numpy()
    exponential_minus(
        streams.astype(np.uint32),
        flat_mass.numpy(),
        flat_mass.numpy().dtype.type(temperature),
        flat_base.numpy(),
        out.numpy(),
    )
    return out.reshape(height, width, n).permute(2, 0, 1)


def check_images(name: str, images: Tensor, cost: GridCost) -> None:
    """Require a batch of the cost's size and dtype."""
    if images.dim() != 3 or tuple(images.shape[1:]) != cost.shape:
        height, width = cost.shape
        raise InputError(
            f"{name} must have shape (batch, {height}, {width}), "
            f"got {tuple(images.shape)}"
        )
    if images.dtype != cost.rows.dtype:
        raise InputError(
            f"{name} must have the cost's dtype {cost.rows.dtype}, got {images.dtype}"
        )


def _check_sides(U: Tensor, p: Tensor, q: Tensor, cost: GridCost) -> None:
    """Require potentials and masses that are alike: kernels read all by one index."""
    check_images("U", U, cost)
    for name, mass in (("p", p), ("q", q)):
        if mass.shape != U.shape or mass.dtype != U.dtype or mass.device != U.device:
            raise InputError(
                f"{name} must have shape {tuple(U.shape)} and {U.dtype} on {U.device}, "
                f"as U, got {tuple(mass.shape)} and {mass.dtype} on {mass.device}"
            )


def _padded(cost: Tensor) -> NDArray[np.floating]:
    """Pad with infinities, as the kernel wants."""
    n = len(cost)
    pad = (0, -n % 4, 0, n % 2)
    padded: NDArray[np.floating] = torch.nn.functional.pad(
        cost, pad, value=torch.inf
    ).numpy()
    return padded
