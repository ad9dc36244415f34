"""Proposal distributions of bits: independent bits, and a histogram of the plane."""

import math
from typing import Annotated, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from ebmtut.checks import Count, InputError, Range, check_range, check_type, checked
from ebmtut.energies import EnergyFunction, dtype_of_states, energies_of
from ebmtut.random import bernoulli, check_generator
from ebmtut.tensor_checks import (
    check_bits,
    check_device,
    check_finite,
    check_floating,
    check_floats,
)

__all__ = ["BernoulliProposal", "HistogramProposal", "Proposal"]


@runtime_checkable
class Proposal(Protocol):
    """A normalised distribution of bits that can be sampled and evaluated."""

    n_sites: int

    def sample(
        self, n: int, *, generator: torch.Generator
    ) -> Float64[Tensor, "n n_sites"]:
        """Draw n states."""

    def log_prob(self, x: Float[Tensor, "batch n_sites"]) -> Float64[Tensor, " batch"]:
        """Log probabilities of states."""


class BernoulliProposal:
    """Independent bits.

    Parameters
    ----------
    probs
        Probability of a one at each site, strictly inside (0, 1).

    Examples
    --------
    >>> import torch
    >>> from ebmtut.metrics import BernoulliProposal
    >>> from ebmtut.random import make_generator
    >>> proposal = BernoulliProposal(torch.tensor([0.1, 0.5, 0.9]))
    >>> proposal.sample(4, generator=make_generator(0)).shape
    torch.Size([4, 3])
    """

    def __init__(self, probs: Float[Tensor, " n_sites"]) -> None:
        self.probs = probs.double()
        if not bool(((self.probs > 0.0) & (self.probs < 1.0)).all()):
            low, high = float(probs.min()), float(probs.max())
            raise InputError(f"probs must lie in (0, 1), got [{low}, {high}]")
        self.n_sites = len(probs)

    @classmethod
    @checked
    def uniform(
        cls, n_sites: Count, device: str | torch.device = "cpu"
    ) -> "BernoulliProposal":
        """All states alike."""
        check_device(device)
        return cls(torch.full((n_sites,), 0.5, dtype=torch.float64, device=device))

    @classmethod
    def fit(cls, x: Float[Tensor, "batch n_sites"]) -> "BernoulliProposal":
        """Frequencies of ones in states, one pseudo-count a side."""
        check_bits("x", x)
        return cls((x.double().sum(dim=0) + 1.0) / (len(x) + 2.0))

    def sample(
        self, n: int, *, generator: torch.Generator
    ) -> Float64[Tensor, "n n_sites"]:
        """Draw n states."""
        return bernoulli(self.probs.expand(n, -1), generator=generator)

    def log_prob(self, x: Float[Tensor, "batch n_sites"]) -> Float64[Tensor, " batch"]:
        """Log probabilities of states."""
        check_bits("x", x, self.n_sites)
        x = x.double()
        return x @ self.probs.log() + (1.0 - x) @ (-self.probs).log1p()


@checked
class HistogramProposal:
    """A histogram over coarse cells of the plane, uniform inside each cell.

    The states are Gray codes of two coordinates. The leading bits of a coordinate's
    code (sign first) are the same for all states of a coarse interval: a categorical
    distribution, times independent uniform bits.

    Parameters
    ----------
    masses
        Of the cells, up to a factor; indexed by the leading bits as binary numbers.
    bits_per_coordinate
        At least the ``coarse_bits`` of ``masses``.
    """

    def __init__(
        self, masses: Float[Tensor, "n_cells n_cells"], bits_per_coordinate: int = 16
    ) -> None:
        side = len(masses)
        coarse_bits = side.bit_length() - 1
        if masses.shape != (side, side) or side != 2**coarse_bits or coarse_bits < 1:
            raise InputError(
                f"masses must be square with a power of 2 a side, "
                f"got shape {tuple(masses.shape)}"
            )
        check_floats("masses", masses, (side, side))
        if not (float(masses.min()) >= 0 and float(masses.sum()) > 0):
            raise InputError(
                "masses must be >= 0 and not all 0, got a smallest of "
                f"{float(masses.min()):g} and a sum of {float(masses.sum()):g}"
            )
        check_range(
            "bits_per_coordinate", bits_per_coordinate, low=coarse_bits, integer=True
        )
        self.masses = (masses / masses.sum()).double()
        self.coarse_bits = coarse_bits
        self.n_sites = 2 * bits_per_coordinate
        self._place = 2 ** torch.arange(coarse_bits - 1, -1, -1, device=masses.device)

    @classmethod
    @torch.no_grad()
    @checked
    def fit(
        cls,
        energy: EnergyFunction,
        *,
        generator: torch.Generator,
        bits_per_coordinate: int = 16,
        coarse_bits: Annotated[int, Range(1, 12)] = 8,
        draws_per_cell: Count = 4,
        uniform: Annotated[float, Range(0, 1, include_low=False)] = 0.05,
        dtype: torch.dtype | None = None,
    ) -> "HistogramProposal":
        """Fit the cells' masses to an energy.

        Parameters
        ----------
        bits_per_coordinate, coarse_bits
            Bits of one coordinate, and those that name a coarse interval.
        draws_per_cell
            States in each cell whose mean exp(-E) is its mass.
        uniform
            Mass that is spread over all states alike, which bounds the weights.
        """
        check_type("generator", generator, torch.Generator)
        dtype = dtype_of_states(energy) if dtype is None else dtype
        check_floating("dtype", dtype)
        side = 2**coarse_bits
        cells = torch.ones(side, side, dtype=torch.float64, device=generator.device)
        flat = cls(cells, bits_per_coordinate)
        every_cell = torch.arange(side * side, device=generator.device)
        log_mass = torch.full_like(cells.flatten(), -math.inf)
        for _ in range(draws_per_cell):
            for cell in every_cell.split(16384):
                z = flat._fill(cell, generator=generator).to(dtype)
                energies = energies_of(energy, z).double()
                check_finite("energy(x)", energies)
                log_mass[cell] = torch.logaddexp(log_mass[cell], -energies)
        fitted = log_mass.softmax(dim=0).view(side, side)
        masses = (1.0 - uniform) * fitted + uniform * flat.masses
        return cls(masses, bits_per_coordinate)

    def sample(
        self, n: int, *, generator: torch.Generator
    ) -> Float64[Tensor, "n n_sites"]:
        """Draw n states."""
        check_generator(generator, self.masses.device)
        cell = torch.multinomial(
            self.masses.flatten(), n, replacement=True, generator=generator
        )
        return self._fill(cell, generator=generator)

    def log_prob(self, x: Float[Tensor, "batch n_sites"]) -> Float64[Tensor, " batch"]:
        """Log probabilities of states."""
        check_bits("x", x, self.n_sites)
        halves = x.view(len(x), 2, -1)[:, :, : self.coarse_bits]
        row, column = (halves.long() * self._place).sum(dim=2).unbind(1)
        n_fair = self.n_sites - 2 * self.coarse_bits
        return self.masses[row, column].log() - n_fair * math.log(2.0)

    def _fill(
        self, cell: Int[Tensor, " batch"], *, generator: torch.Generator
    ) -> Float64[Tensor, "batch n_sites"]:
        """Uniform samples from given cells, each named by its flat index."""
        side = len(self.masses)
        coordinate = torch.stack([cell // side, cell % side], dim=1)
        leading = (coordinate[:, :, None] // self._place) % 2
        n_fair = self.n_sites // 2 - self.coarse_bits
        fair = torch.randint(
            2, (len(cell), 2, n_fair), generator=generator, device=cell.device
        )
        return torch.cat([leading, fair], dim=2).view(len(cell), -1).double()
