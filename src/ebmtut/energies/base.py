"""The idea of an energy."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut.checks import InputError, check_type, checked, shown
from ebmtut.tensor_checks import check_shape

__all__ = [
    "Energy",
    "EnergyFunction",
    "dtype_of_states",
    "energies_and_gradients",
    "energies_of",
]

#: What functions of an energy accept: an `Energy` or any callable from a batch of
#: states, ``(batch, n_sites)`` or, of images, ``(batch, ...)``, to their energies,
#: ``(batch,)``.
EnergyFunction = Callable[[Float[Tensor, "batch ..."]], Float[Tensor, " batch"]]


class Energy(nn.Module, ABC):
    """Base of all energies; the model is p(x) proportional to exp(-E(x)).

    Attributes
    ----------
    n_sites
        Number of sites of a state.
    """

    n_sites: int

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies of a batch of states.

        Notes
        -----
        An energy may also offer `flip_log_ratios(x)`, the closed form of log p(x with
        site i flipped) - log p(x), shape (batch, n_sites).
        """

    def constructor_arguments(self) -> dict[str, Any]:
        """What makes an energy of the same kind and sizes, to save and load it.

        Tensors as they are; other values as JSON holds them, a sequence as a tuple. A
        class that needs more has a class method ``from_arguments``.
        """
        raise InputError(
            "energy must say its constructor_arguments() to be saved, "
            f"got {type(self).__name__}, which does not"
        )


def dtype_of_states(energy: EnergyFunction) -> torch.dtype:
    """Dtype in which an energy is best asked: double, or that of a network's weights.

    Parameters
    ----------
    energy
        Any energy; of a foreign module, the first floating parameter counts.
    """
    own = getattr(energy, "weights_dtype", None)
    if isinstance(energy, nn.Module) and not isinstance(energy, Energy):
        floating = (p.dtype for p in energy.parameters() if p.is_floating_point())
        own = next(floating, own)
    return own if isinstance(own, torch.dtype) else torch.float64


def energies_of(
    energy: EnergyFunction, x: Float[Tensor, "batch ..."]
) -> Float[Tensor, " batch"]:
    """Energies of a batch, refused unless there is one a state.

    An energy of shape (batch, 1) would be broadcast against (batch,) to a matrix.
    """
    if not callable(energy):
        raise InputError(f"energy must be a function, got {shown(energy)}")
    value = energy(x)
    check_shape("energy(x)", value, (len(x),))
    return value


@checked
def energies_and_gradients(
    energy: EnergyFunction, x: Float[Tensor, "batch ..."]
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch ..."]]:
    """Energies of a batch and their gradients in x, without a graph.

    Also under `torch.no_grad` and `torch.inference_mode`, which the gradient suspends.
    """
    check_type("x", x, Tensor)
    with torch.inference_mode(False), torch.enable_grad():
        x = x.clone() if x.is_inference() else x
        x = x.detach().requires_grad_()
        value = energies_of(energy, x)
        gradient = None
        if value.requires_grad:  # of its weights, at least
            (gradient,) = torch.autograd.grad(value.sum(), x, allow_unused=True)
    if gradient is None:
        raise InputError(
            f"energy must depend on x by differentiable operations, got {shown(energy)}"
        )
    return value.detach(), gradient
