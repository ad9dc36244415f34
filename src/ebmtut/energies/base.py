"""The idea of an energy."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

__all__ = ["Energy", "EnergyFunction"]

#: What functions of an energy accept: an `Energy` or any callable from
#: states (batch, n_sites) to energies (batch,).
EnergyFunction = Callable[[Tensor], Tensor]


class Energy(nn.Module, ABC):
    """Base of all energies; the law is p(x) proportional to exp(-E(x)).

    Attributes
    ----------
    n_sites : int
        Number of sites of a state.
    """

    n_sites: int

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Energies of a batch of states.

        Parameters
        ----------
        x : Tensor
            Bits, shape (batch, n_sites), floating.

        Returns
        -------
        Tensor
            Shape (batch,), dtype and device of `x`.

        Notes
        -----
        An energy may also offer `flip_log_ratios(x)`, the closed form of
        log p(x with site i flipped) - log p(x), shape (batch, n_sites);
        `ebmtut.neighbors.neighbor_log_ratios` then uses it.
        """
