"""Gibbs-OT and feasible duals for batches of images on one pixel grid."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, Positive, check_type, checked
from ebmtut.kernels.exponentials import STREAMS, exponential_minus
from ebmtut.random import exponential
from ebmtut.transport.grid_cost import GridCost, check_images, least_sums

__all__ = ["GridDuals", "grid_dual_value", "grid_duals", "grid_gibbs_pass"]


class GridDuals(NamedTuple):
    """Statistics of the chain.

    Attributes
    ----------
    U
        The gradient of the loss in p.
    L
        Minus the gradient in q.
    """

    U: Float[Tensor, "batch height width"]
    L: Float[Tensor, "batch height width"]

    def value(
        self,
        p: Float[Tensor, "batch height width"],
        q: Float[Tensor, "batch height width"],
    ) -> Float[Tensor, " batch"]:
        """V(z) = <p, U> - <q, L>; a single sample of it bounds nothing (Remark 4)."""
        return (p * self.U).sum((1, 2)) - (q * self.L).sum((1, 2))


@checked
def grid_gibbs_pass(
    U: Float[Tensor, "batch height width"],
    p: Float[Tensor, "batch height width"],
    q: Float[Tensor, "batch height width"],
    cost: GridCost,
    temperature: Positive,
    *,
    generator: torch.Generator,
) -> GridDuals:
    """One iteration of Algorithm 1 for a batch of problems on a grid.

    The state is U: g given U, then L, then h given L, then U (Eqs. 12 and 13). Calling
    it again is a warm start, whatever p, q and the temperature have become.

    Parameters
    ----------
    U, p, q
        U of the last iteration, zeros at first, and masses, which are not checked.
    """
    check_type("generator", generator, torch.Generator)
    check_sides(U, p, q, cost)
    return gibbs_pass(U, p, q, cost, temperature, generator)


def gibbs_pass(
    U: Float[Tensor, "batch height width"],
    p: Float[Tensor, "batch height width"],
    q: Float[Tensor, "batch height width"],
    cost: GridCost,
    temperature: float,
    generator: torch.Generator,
) -> GridDuals:
    """Do what `grid_gibbs_pass` does."""
    # -g = theta T / p - U and -L = min(M - g); h mirrors g.
    minus_g = _exponential_minus(U, p, temperature, generator)
    minus_L = least_sums(minus_g, cost)
    h = _exponential_minus(minus_L, q, temperature, generator)
    return GridDuals(least_sums(h, cost), minus_L.neg_())


@checked
def grid_duals(
    start: Float[Tensor, "batch height width"],
    p: Float[Tensor, "batch height width"],
    q: Float[Tensor, "batch height width"],
    cost: GridCost,
) -> GridDuals:
    """Make a feasible pair of potentials, by two c-transforms.

    Parameters
    ----------
    start
        Any potential on the side of p, such as U.
    """
    check_sides(start, p, q, cost)
    g = start.masked_fill(p == 0, -torch.inf)
    L = least_sums(-g, cost).neg_()
    U = least_sums(L.masked_fill(q == 0, torch.inf), cost)
    return GridDuals(U, least_sums(-U, cost).neg_())


@checked
def grid_dual_value(
    start: Float[Tensor, "batch height width"],
    p: Float[Tensor, "batch height width"],
    q: Float[Tensor, "batch height width"],
    cost: GridCost,
) -> Float[Tensor, " batch"]:
    """Return a lower bound of the transport cost from any potential."""
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
    streams = torch.randint(
        1, 2**32, STREAMS, generator=generator, device=generator.device
    ).numpy()
    exponential_minus(
        streams.astype(np.uint32),
        flat_mass.numpy(),
        flat_mass.numpy().dtype.type(temperature),
        flat_base.numpy(),
        out.numpy(),
    )
    return out.reshape(height, width, n).permute(2, 0, 1)


def check_sides(
    U: Float[Tensor, "batch height width"],
    p: Float[Tensor, "batch height width"],
    q: Float[Tensor, "batch height width"],
    cost: GridCost,
) -> None:
    """Require potentials and masses that are alike: kernels read all by one index."""
    check_images("U", U, cost)
    for name, mass in (("p", p), ("q", q)):
        if mass.shape != U.shape or mass.dtype != U.dtype or mass.device != U.device:
            raise InputError(
                f"{name} must have shape {tuple(U.shape)} and {U.dtype} on {U.device}, "
                f"as U, got {tuple(mass.shape)} and {mass.dtype} on {mass.device}"
            )
