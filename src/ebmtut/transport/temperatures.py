"""Temperatures of Algorithm 1: 2N numbers, one for each half step."""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor

from ebmtut.checks import Count, NonNegative, Positive, checked
from ebmtut.schedules import Schedule

__all__ = ["annealed_temperatures", "constant_temperatures", "temperatures_of"]


@checked
def temperatures_of(
    schedule: Schedule, n_iterations: Count
) -> Float64[Tensor, " n_half_steps"]:
    """Tabulate a schedule: both half steps of iteration n have its value at n.

    Parameters
    ----------
    schedule
        A function of the iteration 0, 1, ..., see :mod:`ebmtut.schedules`.
    """
    values = [schedule(n) for n in range(n_iterations)]
    return torch.tensor(values, dtype=torch.float64, device="cpu").repeat_interleave(2)


@checked
def constant_temperatures(
    temperature: Positive, n_iterations: int
) -> Float64[Tensor, " n_half_steps"]:
    """Keep one temperature for N iterations.

    Examples
    --------
    >>> from ebmtut.transport import constant_temperatures
    >>> constant_temperatures(0.1, 2)  # two half steps an iteration
    tensor([0.1000, 0.1000, 0.1000, 0.1000], dtype=torch.float64)
    """
    return temperatures_of(lambda n: temperature, n_iterations)


@checked
def annealed_temperatures(
    n_iterations: int,
    n_points: Count,
    *,
    start: Positive = 2.0,
    power: NonNegative = 4.0,
) -> Float64[Tensor, " n_half_steps"]:
    """Anneal geometrically as in Section 6.1, T = 2.0 (1 / l^4)^(n / l) / N.

    Parameters
    ----------
    n_iterations
        l, the budget; the n-th iteration is n = 1, ..., l.
    n_points, start, power
        N, the points of the grid, and the 2.0 and the 4 of the formula.

    Examples
    --------
    >>> from ebmtut.transport import annealed_temperatures
    >>> annealed_temperatures(2, n_points=10)  # two half steps per iteration
    tensor([0.0500, 0.0500, 0.0125, 0.0125], dtype=torch.float64)
    """
    return temperatures_of(
        lambda n: start * n_iterations ** (-power * (n + 1) / n_iterations) / n_points,
        n_iterations,
    )
