"""Mirror descent on the simplex: the plain step and the accelerated one."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Positive, Range, checked

__all__ = ["AcceleratedDescent", "accelerated_start", "accelerated_step", "mirror_step"]


def mirror_step(
    x: Float[Tensor, "*batch n_entries"],
    gradient: Float[Tensor, "*batch n_entries"],
    step_size: float | Float[Tensor, "*#batch 1"],
) -> Float[Tensor, "*batch n_entries"]:
    """Entropic mirror descent, x exp(-s gradient) normalised (Beck and Teboulle, 2003).

    Examples
    --------
    >>> import torch
    >>> from ebmtut.transport import mirror_step
    >>> mirror_step(torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]), 1.0)
    tensor([0.7311, 0.2689])
    """
    return torch.softmax(x.log() - step_size * gradient, dim=-1)


class AcceleratedDescent(NamedTuple):
    """State of accelerated mirror descent, one row per problem.

    Attributes
    ----------
    x
        Where the next gradient is taken.
    z
        The averaged dual trajectory's point.
    count
        Steps since the last restart.
    """

    x: Float[Tensor, "batch n_entries"]
    z: Float[Tensor, "batch n_entries"]
    count: Float[Tensor, "batch 1"]  # type: ignore[assignment]  # hides tuple.count


def accelerated_start(x: Float[Tensor, "batch n_entries"]) -> AcceleratedDescent:
    """Begin at points of the simplex."""
    return AcceleratedDescent(x.clone(), x.clone(), torch.zeros_like(x[:, :1]))


@checked
def accelerated_step(
    state: AcceleratedDescent,
    gradient: Float[Tensor, "batch n_entries"],
    step_size: Positive,
    *,
    averaging: Annotated[float, Range(low=3)] = 3.0,
) -> AcceleratedDescent:
    """One step of accelerated mirror descent with gradient restarts.

    With k steps since the restart and r the averaging parameter,

        z <- mirror step from z of size (k / r) s,
        y <- mirror step from x of size s,
        x <- lambda z + (1 - lambda) y,   lambda = r / (r + k).

    A row restarts (k = 0, z = x) where the new point lies uphill of the gradient, which
    shows that the momentum overshoots.

    References
    ----------
    Krichene, Bayen and Bartlett, Accelerated mirror descent in continuous
    and discrete time, 2015, Algorithm 1 and Section 5.
    """
    count = state.count + 1
    z = mirror_step(state.z, gradient, step_size * count / averaging)
    y = mirror_step(state.x, gradient, step_size)
    weight = averaging / (averaging + count)
    x = weight * z + (1 - weight) * y
    uphill = (gradient * (x - state.x)).sum(-1, keepdim=True) > 0
    return AcceleratedDescent(
        x, torch.where(uphill, x, z), torch.where(uphill, 0.0, count)
    )
