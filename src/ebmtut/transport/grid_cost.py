"""Costs on a pixel grid that separate by axis: no matrix of all pairs.

With M[(i, j), (k, l)] = R[i, k] + C[j, l] the c-transform

    min over k of (R[i, k] + min over l of (C[j, l] + h[k, l]))

takes O(m^1.5) operations and O(m) memory for an image of m pixels. Functions return
batches of shape (batch, height, width) whose instances lie innermost in memory.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, InputError, checked, shown
from ebmtut.kernels.grid_min_plus import grid_least_sums
from ebmtut.transport._problem import check_masses

__all__ = ["GridCost", "grid_cost", "min_plus", "min_plus_reference"]


class GridCost(NamedTuple):
    """A cost that separates by axis."""

    rows: Float[Tensor, "height height"]
    columns: Float[Tensor, "width width"]

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the images."""
        return len(self.rows), len(self.columns)

    def dense(self) -> Float[Tensor, "n_pixels n_pixels"]:
        """Return the matrix of all pairs of pixels, in row order."""
        m = len(self.rows) * len(self.columns)
        pairs = self.rows[:, None, :, None] + self.columns[None, :, None, :]
        return pairs.reshape(m, m)


@checked
def grid_cost(
    height: Count,
    width: Count | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> GridCost:
    """Squared Euclidean distances of pixels; the longer side has length 1.

    Examples
    --------
    >>> from ebmtut.transport import grid_cost
    >>> grid_cost(2).dense().shape
    torch.Size([4, 4])
    """
    width = height if width is None else width

    def squared(n: int) -> Tensor:
        x = torch.arange(n, dtype=dtype, device="cpu") / max(height, width)
        return ((x[:, None] - x[None, :]) ** 2).to(device)

    return GridCost(squared(height), squared(width))


def instances_innermost(
    images: Float[Tensor, "batch height width"],
) -> Float[Tensor, "batch height width"]:
    """Lay a batch out with one pixel's instances adjacent."""
    return images.permute(1, 2, 0).contiguous().permute(2, 0, 1)


@checked
def min_plus_reference(
    h: Float[Tensor, "batch height width"], cost: GridCost
) -> Float[Tensor, "batch height width"]:
    """Return what :func:`min_plus` does, in two lines of torch."""
    inner = (h[:, :, None, :] + cost.columns).amin(-1)
    return (inner[:, None, :, :] + cost.rows[:, :, None]).amin(2)


@checked
def min_plus(
    h: Float[Tensor, "batch height width"], cost: GridCost
) -> Float[Tensor, "batch height width"]:
    """U = min over pixels of M + h, for a batch of images (Eq. 6)."""
    check_images("h", h, cost)
    return least_sums(h, cost)


def least_sums(h: Float[Tensor, "batch height width"], cost: GridCost) -> Tensor:
    """Do what `min_plus` does."""
    found = grid_least_sums(h, cost.rows, cost.columns)
    return min_plus_reference(h, cost) if found is None else found


def check_images(name: str, images: Tensor, cost: GridCost) -> None:
    """Require a batch of the cost's size and dtype."""
    if not isinstance(images, Tensor):
        raise InputError(f"{name} must be a tensor, got {shown(images)}")
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


def check_measures(name: str, images: Tensor, cost: GridCost) -> None:
    """Require a batch of images of mass 1, to the digits of float32."""
    check_images(name, images, cost)
    check_masses(name, images.flatten(1).float())
