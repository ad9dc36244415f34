r"""Densities of the plane on a grid, where integrals can be computed.

A `PlaneGrid` integrates by the midpoint rule. A density is a tensor (n, n) of log
densities at its points.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, Positive, Range, checked
from ebmtut.energies import EnergyFunction, energies_of
from ebmtut.tensor_checks import check_shape

__all__ = ["PlaneGrid"]


@checked
@dataclass(frozen=True)
class PlaneGrid:
    """The midpoints of n x n square cells around the origin.

    Parameters
    ----------
    extent, n
        Half the side of the square, and cells a side.
    """

    extent: Positive
    n: Annotated[int, Range(low=2)] = 200

    @property
    def log_cell(self) -> float:
        """Log of the area of a cell."""
        return 2 * math.log(2 * self.extent / self.n)

    @cached_property
    def points(self) -> Float[Tensor, "n_points 2"]:
        """The midpoints, float64, row by row from the lowest."""
        line = (torch.arange(self.n, dtype=torch.float64, device="cpu") + 0.5) / self.n
        line = self.extent * (2 * line - 1)
        y, x = torch.meshgrid(line, line, indexing="ij")
        return torch.stack([x.flatten(), y.flatten()], dim=1)

    @torch.no_grad()
    def energies(
        self, energy: EnergyFunction, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "n n"]:
        """Energies at the points, in float64."""
        parts = self.points.to(dtype).split(16384)
        values = torch.cat([energies_of(energy, part) for part in parts])
        return values.double().reshape(self.n, self.n)

    def log_partition(self, energies: Float[Tensor, "n n"]) -> float:
        """Log of the integral of exp(-energy) over the square."""
        check_shape("energies", energies, (self.n, self.n))
        return float((-energies.double()).flatten().logsumexp(0)) + self.log_cell

    def log_density(self, energies: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
        """Normalised log density, on the square, of a model with these energies."""
        return -energies.double() - self.log_partition(energies)

    def kl(self, log_p: Float[Tensor, "n n"], log_q: Float[Tensor, "n n"]) -> float:
        """Kullback-Leibler divergence of q from p, both normalised on the square."""
        p = self._normed("log_p", log_p)
        q = self._normed("log_q", log_q)
        inside = p > -math.inf
        return float((p.exp() * (p - q))[inside].sum()) * math.exp(self.log_cell)

    def total_variation(
        self, log_p: Float[Tensor, "n n"], log_q: Float[Tensor, "n n"]
    ) -> float:
        """Half the integral of |p - q|, both normalised on the square."""
        p, q = self._normed("log_p", log_p), self._normed("log_q", log_q)
        return float((p.exp() - q.exp()).abs().sum()) / 2 * math.exp(self.log_cell)

    def mass(self, log_q: Float[Tensor, "n n"], where: Tensor) -> float:
        """Fraction of the mass of q in cells, given as a boolean (n, n)."""
        check_shape("where", where, (self.n, self.n))
        q = self._normed("log_q", log_q)
        return float(q.exp()[where].sum()) * math.exp(self.log_cell)

    def histogram(self, samples: Float[Tensor, "batch 2"]) -> Float[Tensor, "n n"]:
        """Log density of samples, from their number in every cell."""
        check_shape("samples", samples, (None, 2))
        cells = ((samples.double() / self.extent + 1) / 2 * self.n).floor().long()
        cells = cells[((cells >= 0) & (cells < self.n)).all(1)]
        index = cells[:, 1] * self.n + cells[:, 0]
        counts = torch.bincount(index, minlength=self.n * self.n).double()
        density = counts.log() - math.log(max(len(samples), 1)) - self.log_cell
        return density.reshape(self.n, self.n)

    def _normed(self, name: str, log_density: Tensor) -> Tensor:
        check_shape(name, log_density, (self.n, self.n))
        total = float(log_density.double().flatten().logsumexp(0)) + self.log_cell
        if not math.isfinite(total):
            raise InputError(f"{name} must have finite mass on the grid, got {total}")
        return log_density.double() - total
