"""The idea of an energy."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from ebmtut.tensor_checks import check_shape

__all__ = ["Energy", "EnergyFunction", "energies_of"]

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
            Shape (batch,), on the device of `x` and of its dtype. A network,
            whose weights are not converted, asks for states of their dtype.

        Raises
        ------
        InputError
            If `x` has another shape or is not floating.

        Notes
        -----
        An energy may also offer `flip_log_ratios(x)`, the closed form of
        log p(x with site i flipped) - log p(x), shape (batch, n_sites);
        `ebmtut.neighbors.neighbor_log_ratios` then uses it.
        """


def energies_of(energy: EnergyFunction, x: Tensor) -> Tensor:
    """Energies of a batch, refused unless there is one a state.

    Without this an energy of shape (batch, 1), the slip of a network, would be
    broadcast against numbers of shape (batch,) to a matrix, and no one be told.

    Parameters
    ----------
    energy : Energy or callable
        Maps states (batch, n_sites) to energies (batch,).
    x : Tensor
        States, shape (batch, n_sites).

    Returns
    -------
    Tensor
        Shape (batch,).

    Raises
    ------
    InputError
        If the energies have another shape.
    """
    value = energy(x)
    check_shape("energy(x)", value, (len(x),))
    return value
