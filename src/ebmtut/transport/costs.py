"""Ground costs between two sets of points."""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, OneOf, checked, shown
from ebmtut.tensor_checks import check_finite

__all__ = ["cost_matrix"]


@checked
def cost_matrix(
    x: Float[Tensor, " m1 *shape"],
    y: Float[Tensor, " m2 *shape"],
    kind: Annotated[
        str, OneOf(("squared_euclidean", "euclidean", "coulomb"))
    ] = "squared_euclidean",
) -> Float[Tensor, "m1 m2"]:
    """Cost of every pair of points.

    Parameters
    ----------
    x, y
        Points, a row each; one-dimensional tensors are points on a line.
    kind
        ``"coulomb"`` is 1 / distance, +inf where two points coincide.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.transport import cost_matrix
    >>> cost_matrix(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 2.0]))
    tensor([[0., 4.],
            [1., 1.]])
    """
    x, y = _points("x", x), _points("y", y)
    if x.shape[1] != y.shape[1] or x.dtype != y.dtype:
        raise InputError(
            "y must have the dimension and dtype of x, "
            f"({x.shape[1]}, {x.dtype}), got ({y.shape[1]}, {y.dtype})"
        )
    # Differences, not the binomial formula: near points keep their digits.
    squared = torch.zeros(len(x), len(y), dtype=x.dtype, device=x.device)
    for a, b in zip(x.T, y.T, strict=True):
        squared += (a[:, None] - b) ** 2
    if kind == "squared_euclidean":
        return squared
    return squared.sqrt() if kind == "euclidean" else squared.rsqrt()


def _points(name: str, points: Tensor) -> Tensor:
    if not isinstance(points, Tensor) or not points.is_floating_point():
        raise InputError(
            f"{name} must be a floating tensor of points, got {shown(points)}"
        )
    if points.dim() not in (1, 2):
        raise InputError(f"{name} must have shape (m, d), got {tuple(points.shape)}")
    check_finite(name, points)
    return points[:, None] if points.dim() == 1 else points
