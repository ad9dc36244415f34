"""Mirror descent on the simplex: the plain step and the accelerated one."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ebmtut.checks import check_range

__all__ = [
    "AcceleratedDescent",
    "accelerated_start",
    "accelerated_step",
    "mirror_step",
]


def mirror_step(x: Tensor, gradient: Tensor, step_size: float | Tensor) -> Tensor:
    """Entropic mirror descent: x exp(-s gradient), normalised.

    Parameters
    ----------
    x
        Points of the simplex, (..., n); an entry at zero stays there.
    gradient
        Gradients there, (..., n).
    step_size
        s, one number or one a row, (..., 1).

    Returns
    -------
    Tensor
        Shape (..., n).

    References
    ----------
    Beck and Teboulle, Mirror descent and nonlinear projected subgradient
    methods for convex optimization, 2003.
    """
    return torch.softmax(x.log() - step_size * gradient, dim=-1)


class AcceleratedDescent(NamedTuple):
    """State of accelerated mirror descent, one row a problem.

    Attributes
    ----------
    x : Tensor
        Where the next gradient is taken, (n_problems, n).
    z : Tensor
        The averaged dual trajectory's point, (n_problems, n).
    count : Tensor
        Steps since the last restart, (n_problems, 1).
    """

    x: Tensor
    z: Tensor
    count: Tensor  # type: ignore[assignment]  # hides tuple.count


def accelerated_start(x: Tensor) -> AcceleratedDescent:
    """Begin at points of the simplex.

    Parameters
    ----------
    x
        Shape (n_problems, n).

    Returns
    -------
    AcceleratedDescent
    """
    return AcceleratedDescent(x.clone(), x.clone(), torch.zeros_like(x[:, :1]))


def accelerated_step(
    state: AcceleratedDescent,
    gradient: Tensor,
    step_size: float,
    *,
    averaging: float = 3.0,
) -> AcceleratedDescent:
    """One step of accelerated mirror descent with gradient restarts.

    With k steps since the restart and r the averaging parameter,

        z <- mirror step from z of size (k / r) s,
        y <- mirror step from x of size s,
        x <- lambda z + (1 - lambda) y,   lambda = r / (r + k).

    A row restarts (k = 0, z = x) where the new point lies uphill of the
    gradient, which is how momentum shows that it overshoots.

    Parameters
    ----------
    state
        Where the descent is.
    gradient
        At ``state.x``, (n_problems, n).
    step_size
        s > 0.
    averaging
        r >= 3.

    Returns
    -------
    AcceleratedDescent

    References
    ----------
    Krichene, Bayen and Bartlett, Accelerated mirror descent in continuous
    and discrete time, 2015, Algorithm 1 and Section 5.
    """
    check_range("step_size", step_size, low=0, include_low=False)
    check_range("averaging", averaging, low=3)
    count = state.count + 1
    z = mirror_step(state.z, gradient, step_size * count / averaging)
    y = mirror_step(state.x, gradient, step_size)
    weight = averaging / (averaging + count)
    x = weight * z + (1 - weight) * y
    uphill = (gradient * (x - state.x)).sum(-1, keepdim=True) > 0
    return AcceleratedDescent(
        x, torch.where(uphill, x, z), torch.where(uphill, 0.0, count)
    )
