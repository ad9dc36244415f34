"""An energy that is given state by state."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut.checks import Count, InputError, check_range, checked
from ebmtut.energies.base import Energy
from ebmtut.tensor_checks import check_shape, check_states

__all__ = ["TableEnergy"]


class TableEnergy(Energy):
    """The energy of every state of the first bits, as a table; others are ignored.

    Parameters
    ----------
    table
        Energies, in the order of `ebmtut.states.enumerate_states`; not copied. The
        attribute may be set to another table of the same size.
    n_sites
        Of a state, not fewer than the bits of the table.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import TableEnergy
    >>> energy = TableEnergy(torch.tensor([0.0, 1.0, 2.0, 3.0]), 2)
    >>> energy(torch.tensor([[0.0, 1.0], [1.0, 1.0]]))
    tensor([1., 3.])
    """

    @checked
    def __init__(self, table: Float[Tensor, " n_all"], n_sites: Count) -> None:
        super().__init__()
        check_shape("table", table, (None,))
        self.n_seen = len(table).bit_length() - 1
        if len(table) != 2**self.n_seen:
            raise InputError(f"table must have 2**k entries, got {len(table)}")
        check_range("n_sites", n_sites, low=self.n_seen)
        self.table: Tensor
        self.bits: Tensor
        self.n_sites = n_sites
        bits = 2 ** torch.arange(self.n_seen - 1, -1, -1, device=table.device)
        self.register_buffer("table", table)
        self.register_buffer("bits", bits, persistent=False)

    def constructor_arguments(self) -> dict[str, Any]:
        """The table, and the number of sites."""
        return {"table": self.table, "n_sites": self.n_sites}

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies of a batch, from the table."""
        return self.table[self._index(x)]

    def flip_log_ratios(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        """Log-ratios of all flips, from the table; 0 at sites that are ignored."""
        index = self._index(x)
        here = self.table[index][:, None]
        ratios = here - self.table[index[:, None] ^ self.bits]
        return nn.functional.pad(ratios, (0, self.n_sites - self.n_seen))

    def _index(self, x: Tensor) -> Tensor:
        check_states("x", x, self.n_sites)
        # No product of matrices: a GPU has none of integers.
        return (x[:, : self.n_seen].long() * self.bits).sum(1)
