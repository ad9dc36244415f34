"""The Ising model on a periodic square lattice, and the lattice itself."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.checks import Count, Number, check_range, checked
from ebmtut.energies.base import Energy
from ebmtut.energies.ising import Ising
from ebmtut.states import bits_to_spins
from ebmtut.tensor_checks import check_states

__all__ = ["LatticeIsing", "lattice_adjacency", "lattice_coloring"]


class LatticeIsing(Energy):
    """Ising model on a periodic side x side square lattice.

    With s = 2x - 1 and the adjacency matrix A, p(x) is proportional to exp(sigma s'As +
    bias sum(s)). Each edge counts twice; the infinite lattice is critical at sigma =
    ln(1 + sqrt(2)) / 4. Sites are numbered row by row.

    Parameters
    ----------
    side
        Sites a side, at least 3: on shorter loops an edge would join two sites twice.
    sigma
        Coupling; positive favours equal neighbours.
    bias
        Field on every site.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing
    >>> energy = LatticeIsing(side=4, sigma=0.2)
    >>> energy(torch.ones(1, 16))  # all spins agree on 32 edges
    tensor([-12.8000])
    """

    @checked
    def __init__(self, side: int, sigma: Number, bias: Number = 0.0) -> None:
        super().__init__()
        _check_periodic_side(side)
        self.side = side
        self.sigma = float(sigma)
        self.bias = float(bias)
        self.n_sites = side * side

    def constructor_arguments(self) -> dict[str, Any]:
        """Side, coupling and field."""
        return {"side": self.side, "sigma": self.sigma, "bias": self.bias}

    def extra_repr(self) -> str:
        """Show the settings when the module is printed."""
        return f"side={self.side}, sigma={self.sigma}, bias={self.bias}"

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies by two rolls, without the matrix."""
        grid = self._spin_grid(x)
        # Right and lower neighbours meet each edge once; s'As meets it twice.
        ahead = grid.roll(-1, dims=1) + grid.roll(-1, dims=2)
        density = grid * (2 * self.sigma * ahead + self.bias)
        return -density.sum(dim=(1, 2))

    def flip_log_ratios(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        """Log p(x with site i flipped) - log p(x) from the four neighbours."""
        grid = self._spin_grid(x)
        around = sum(grid.roll(step, dims=dim) for step in (-1, 1) for dim in (1, 2))
        return (-2 * grid * (2 * self.sigma * around + self.bias)).flatten(1)

    def _spin_grid(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch side side"]:
        check_states("x", x, self.n_sites)
        return bits_to_spins(x).reshape(-1, self.side, self.side)

    def to_dense(self, dtype: torch.dtype = torch.float64) -> Ising:
        """Return the same distribution as an `Ising` model with a full matrix."""
        coupling = self.sigma * lattice_adjacency(self.side, dtype=dtype)
        bias = torch.full((self.n_sites,), self.bias, dtype=dtype, device="cpu")
        return Ising(coupling, bias)


@checked
def lattice_adjacency(
    side: Count, periodic: bool = True, *, dtype: torch.dtype = torch.float64
) -> Float[Tensor, "n_sites n_sites"]:
    """Adjacency matrix of the square lattice, sites numbered row by row.

    Examples
    --------
    >>> from ebmtut.energies import lattice_adjacency
    >>> lattice_adjacency(4).sum(0)[:3]  # four neighbours each
    tensor([4., 4., 4.], dtype=torch.float64)
    """
    if periodic:
        _check_periodic_side(side)
    eye = torch.eye(side, dtype=dtype, device="cpu")
    loop = eye.roll(1, dims=0)
    if not periodic:
        loop[0] = 0
    loop = loop + loop.T
    return torch.kron(loop, eye) + torch.kron(eye, loop)


@checked
def lattice_coloring(side: int) -> Int[Tensor, " n_sites"]:
    """Colour the periodic lattice so that neighbours differ.

    An even side needs two colours, an odd side three: a loop of odd length
    has no two-colouring.

    Examples
    --------
    >>> from ebmtut.energies import lattice_coloring
    >>> lattice_coloring(4).view(4, 4)[:2]
    tensor([[0, 1, 0, 1],
            [1, 0, 1, 0]])
    """
    _check_periodic_side(side)
    loop = torch.arange(side, device="cpu") % 2
    n_colors = 2
    if side % 2:
        loop[-1] = 2
        n_colors = 3
    # Sums of proper colourings of the two loops differ along every edge.
    return ((loop[:, None] + loop[None, :]) % n_colors).flatten()


def _check_periodic_side(side: int) -> None:
    check_range("side of a periodic lattice", side, low=3, integer=True)
