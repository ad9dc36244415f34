"""Pictures that the chapters share: landscapes, couplings, images, runs over seeds."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike
from torch import Tensor

from ebmtut.checks import (
    InputError,
    Positive,
    Range,
    check_counts,
    check_positive,
    checked,
)
from ebmtut.plotting.colors import DENSITY_CMAP, DIVERGING_CMAP, IMAGE_CMAP

__all__ = [
    "DIVERGED_GAP",
    "grid_points",
    "heatmap",
    "image_grid",
    "landscape",
    "mean_band",
    "state_cube",
]

#: If the entropy of a learned distribution is off by more nats than this, training has
#: diverged: the uniform distribution on 32 bits is off by about 2.
DIVERGED_GAP = 10.0


@checked
def grid_points(
    extent: Positive, n: Annotated[int, Range(low=2)] = 200
) -> Float64[Tensor, "n_points 2"]:
    """Centres of n x n square cells that cover [-extent, extent]^2.

    Returns
    -------
    points
        Row k * n + j has the j-th x and the k-th y.
    """
    centre = (torch.arange(n, dtype=torch.float64, device="cpu") + 0.5) * (
        2.0 * extent / n
    ) - extent
    y, x = torch.meshgrid(centre, centre, indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], dim=1)


def landscape(
    ax: Axes,
    log_density: ArrayLike | Tensor,
    extent: float,
    *,
    points: ArrayLike | Tensor | None = None,
    ticks: bool = True,
) -> AxesImage:
    """Show a density on a square, from its logarithm on a grid.

    Parameters
    ----------
    log_density
        (n, n), up to a constant, rows of growing y, on the cells of
        :func:`grid_points`.
    extent, points, ticks
        Half the side; points (k, 2) on top; whether to label ends and centre.

    Returns
    -------
    image
        Linear in the density, up to where 99.8 percent of the cells lie below.
    """
    log_density = _square("log_density", log_density)
    top = log_density.max()
    if not np.isfinite(top):
        raise InputError(f"log_density must have a finite maximum, got {top}")
    density = np.exp(log_density - top)
    image = ax.imshow(
        density,
        origin="lower",
        extent=(-extent, extent, -extent, extent),
        cmap=DENSITY_CMAP,
        vmin=0.0,
        vmax=max(float(np.quantile(density, 0.998)), 1e-12),
    )
    if points is not None:
        x, y = np.asarray(points).T
        ax.plot(x, y, ".", color="white", markersize=1.0, alpha=0.6)
    ends = [-int(extent), 0, int(extent)] if ticks else []
    ax.set(xticks=ends, yticks=ends, xlim=(-extent, extent), ylim=(-extent, extent))
    ax.spines[:].set_visible(False)
    return image


def heatmap(
    ax: Axes, matrix: ArrayLike | Tensor, *, limit: float | None = None
) -> AxesImage:
    """Show a square matrix of signed couplings, white at zero.

    Parameters
    ----------
    limit
        Value at which the colours end; give all maps of a figure the same.
    """
    matrix = _square("matrix", matrix)
    if limit is None:
        limit = float(np.abs(matrix).max()) or 1.0
    check_positive(limit=limit)
    image = ax.imshow(matrix, cmap=DIVERGING_CMAP, vmin=-limit, vmax=limit)
    ends = [0, len(matrix) - 1]
    labels = [str(end + 1) for end in ends]
    ax.set_xticks(ends, labels)
    ax.set_yticks(ends, labels)
    return image


def image_grid(
    ax: Axes, images: ArrayLike | Tensor, n_columns: int | None = None, **kwargs: Any
) -> AxesImage:
    """Show small images side by side as one picture.

    Parameters
    ----------
    images
        (n, height, width), ones drawn black, or (n, 3, height, width) in colour.
    n_columns
        Images a row; by default about as many as rows.
    """
    images = _array(images)
    in_color = images.ndim == 4 and images.shape[1] == 3
    if not (images.ndim == 3 or in_color) or not len(images):
        raise InputError(
            "images must have shape (n, height, width) or (n, 3, height, width), "
            f"got {images.shape}"
        )
    if in_color:  # and opaque
        opaque = np.pad(images, ((0, 0), (0, 1), (0, 0), (0, 0)), constant_values=1.0)
        images = np.moveaxis(opaque, 1, -1)
    n, height, width = images.shape[:3]
    columns = n_columns or int(np.ceil(np.sqrt(n)))
    check_counts(n_columns=columns)
    columns = min(columns, n)
    rows = -(-n // columns)
    # Gaps and missing images are not a number, or have no opacity: both let through.
    shape = (rows * (height + 1) - 1, columns * (width + 1) - 1, *images.shape[3:])
    sheet = np.full(shape, 0.0 if in_color else np.nan)
    for k, image in enumerate(images):
        top, left = (k // columns) * (height + 1), (k % columns) * (width + 1)
        sheet[top : top + height, left : left + width] = image
    picture = ax.imshow(sheet, **{"cmap": IMAGE_CMAP, **kwargs})
    ax.set_axis_off()
    return picture


def state_cube(
    ax: Axes,
    title: str,
    *,
    sizes: float | ArrayLike | Tensor,
    colors: str | Sequence[str],
) -> Float64[np.ndarray, "8 2"]:
    """Draw the eight states of three bits as discs at the corners of a cube.

    Parameters
    ----------
    sizes, colors
        Area in square points, and colour, of each disc, or one for all.

    Returns
    -------
    corners
        Where the states stand.
    """
    n_bits = 3
    bits = np.arange(2**n_bits)[:, None] >> np.arange(n_bits)[::-1] & 1
    corners = bits[:, :2] + bits[:, 2:] * np.array([0.42, 0.3])
    areas = np.broadcast_to(_array(sizes), (2**n_bits,))
    for k in range(2**n_bits):
        for other in (k ^ 1 << bit for bit in range(n_bits)):
            if k < other:
                edge = corners[[k, other]].T
                ax.plot(*edge, color="#CCCCCC", lw=1, zorder=0)
    ax.scatter(corners[:, 0], corners[:, 1], s=areas, c=colors)
    for k, (corner, area) in enumerate(zip(corners, areas, strict=True)):
        away = 0.36 * np.sqrt(area) + 1.5  # of the disc's centre, right and up
        ax.annotate(
            f"{k:03b}",
            corner,
            (away, away),
            textcoords="offset points",
            bbox={"fc": "white", "ec": "none", "pad": 0, "alpha": 0.8},
        )
    ax.set(title=title, aspect="equal", xlim=(-0.2, 1.7), ylim=(-0.2, 1.6))
    ax.set_axis_off()
    return corners


def mean_band(ax: Axes, x: ArrayLike, runs: ArrayLike | Tensor, **kwargs: Any) -> None:
    """Draw the mean over seeds as a line, one standard error as a band.

    Parameters
    ----------
    x, runs
        (k,), and (n_seeds, k); with one seed there is no band.
    """
    runs = _array(runs)
    x = np.asarray(x)
    if runs.ndim != 2 or runs.shape[1:] != x.shape:
        raise InputError(f"runs must have shape (any, {x.size}), got {runs.shape}")
    mean = runs.mean(axis=0)
    (line,) = ax.plot(x, mean, **kwargs)
    if len(runs) > 1:
        error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        ax.fill_between(
            x, mean - error, mean + error, color=line.get_color(), alpha=0.2, lw=0
        )


def _array(values: ArrayLike | Tensor) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=float)


def _square(name: str, values: ArrayLike | Tensor) -> np.ndarray:
    array = _array(values)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise InputError(f"{name} must be a square matrix, got shape {array.shape}")
    return array
