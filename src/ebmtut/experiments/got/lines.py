"""Masses on a line: the small problems of Section 6.1."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from ebmtut.checks import NonNegative, Range, checked
from ebmtut.plotting import OKABE_ITO
from ebmtut.transport import cost_matrix

# Weight, mean and width of each mode. The paper does not print its own.
_FROM = ((0.6, 0.2, 0.05), (0.4, 0.6, 0.08))
_TO = ((0.35, 0.35, 0.06), (0.65, 0.8, 0.05))


#: The two sides of a transport problem, on all pages and in the widgets.
SIDES = {"p": OKABE_ITO["blue"], "q": OKABE_ITO["vermillion"]}


class Method(NamedTuple):
    """A solver with its parameter: its name in the result, and on the pages."""

    key: str
    label: str
    solver: str
    parameter: float


class LineProblem(NamedTuple):
    """Two distributions on the same points of [0, 1], and the cost."""

    x: Tensor
    p: Tensor
    q: Tensor
    cost: Tensor

    def to(self, device: str) -> "LineProblem":
        """Return the problem on a device."""
        return LineProblem(*(part.to(device) for part in self))


@checked
def points(n: Annotated[int, Range(low=2)]) -> Tensor:
    """Centres of n equal cells of [0, 1], float64."""
    return (torch.arange(n, dtype=torch.float64) + 0.5) / n


@checked
def bumps(
    x: Tensor, modes: Sequence[tuple[float, float, float]], *, floor: NonNegative = 0.02
) -> Tensor:
    """Masses of Gaussian bumps (weight, mean, width) over a low floor.

    The floor is spread evenly. Without it the temperature T / p_i of a point far from
    all bumps has no end.
    """
    mass = torch.zeros_like(x)
    for weight, mean, width in modes:
        bump = torch.exp(-(((x - mean) / width) ** 2) / 2)
        mass += weight * bump / bump.sum()
    mass = mass / mass.sum() + floor / len(x)
    return mass / mass.sum()


def two_modes(n: int, kind: str = "squared_euclidean") -> LineProblem:
    """Two distributions of two modes each (Figure 2); `kind` is that of the cost."""
    x = points(n)
    return LineProblem(x, bumps(x, _FROM), bumps(x, _TO), cost_matrix(x, x, kind))


def uniform_coulomb(n: int) -> LineProblem:
    """Two uniform distributions that repel (Figure 3), on an even number of points.

    The best coupling joins x with x + 1/2 or x - 1/2, at a cost of 2.
    """
    x = points(n)
    mass = torch.full_like(x, 1 / n)
    return LineProblem(x, mass, mass, cost_matrix(x, x, "coulomb"))
