"""The idea of an energy."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from ebmtut.tensor_checks import check_shape

__all__ = ["Energy", "EnergyFunction", "energies_of"]

#: What functions of an energy accept: an `Energy` or any callable from a batch of
#: states, ``(batch, n_sites)`` or, of images, ``(batch, ...)``, to their energies,
#: ``(batch,)``.
EnergyFunction = Callable[[Float[Tensor, "batch ..."]], Float[Tensor, " batch"]]


class Energy(nn.Module, ABC):
    """Base of all energies; the law is p(x) proportional to exp(-E(x)).

    Attributes
    ----------
    n_sites
        Number of sites of a state.
    """

    n_sites: int

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies of a batch of states.

        Parameters
        ----------
        x
            Bits, floating; an energy of real vectors or images takes those.

        Returns
        -------
        energies
            On the device of `x` and of its dtype. A network, whose weights are not
            converted, asks for states of their dtype.

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


def energies_of(
    energy: EnergyFunction, x: Float[Tensor, "batch ..."]
) -> Float[Tensor, " batch"]:
    """Energies of a batch, refused unless there is one a state.

    Without this an energy of shape (batch, 1), the slip of a network, would be
    broadcast against numbers of shape (batch,) to a matrix, and no one be told.

    Parameters
    ----------
    energy
        Any energy.
    x
        States.

    Raises
    ------
    InputError
        If the energies have another shape.
    """
    value = energy(x)
    check_shape("energy(x)", value, (len(x),))
    return value
