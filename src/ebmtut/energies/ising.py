"""The Ising model with arbitrary couplings."""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from ebmtut.checks import checked
from ebmtut.energies._symmetric import symmetric_part
from ebmtut.energies.base import Energy
from ebmtut.states import bits_to_spins
from ebmtut.tensor_checks import check_floats, check_shape, check_states

__all__ = ["Ising"]


@checked
class Ising(Energy):
    """Ising model p(x) proportional to exp(s'Js + b's), spins s = 2x - 1.

    The quadratic form counts each edge twice (Schröder et al., 2023, Section 3). The
    raw parameter is symmetrised and its diagonal dropped, so that any matrix may be
    learned.

    Parameters
    ----------
    coupling, bias
        The raw J, and the field b, None for none; both copied.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import Ising
    >>> energy = Ising(0.3 * torch.eye(3).roll(1, 0))  # a ring of three spins
    >>> energy(torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]]))
    tensor([-0.9000,  0.3000])
    """

    def __init__(
        self,
        coupling: Float[Tensor, "n_sites n_sites"],
        bias: Float[Tensor, " n_sites"] | None = None,
        *,
        learnable: bool = False,
    ) -> None:
        super().__init__()
        check_shape("coupling", coupling, (None, None))
        self.n_sites = coupling.shape[0]
        coupling = check_floats("coupling", coupling, (self.n_sites, self.n_sites))
        self.coupling = nn.Parameter(coupling.clone(), learnable)
        self.bias: nn.Parameter | None = None
        if bias is not None:
            bias = check_floats("bias", bias, (self.n_sites,))
            self.bias = nn.Parameter(bias.clone(), learnable)

    def constructor_arguments(self) -> dict[str, Any]:
        """Couplings, field, and whether they are learned."""
        return {
            "coupling": self.coupling,
            "bias": self.bias,
            "learnable": self.coupling.requires_grad,
        }

    @property
    def symmetric_coupling(self) -> Float[Tensor, "n_sites n_sites"]:
        """The matrix J itself, symmetric, with a zero diagonal."""
        return symmetric_part(self.coupling)

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies -s'Js - b's."""
        s = self._spins(x)
        field = s @ self.symmetric_coupling.to(x)
        if self.bias is not None:
            field = field + self.bias.to(x)
        return -(s * field).sum(dim=1)

    def flip_log_ratios(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        """Log p(x with site i flipped) - log p(x) = -2 s_i (2 Js + b)_i.

        One matrix product serves all sites of all states.
        """
        s = self._spins(x)
        field = 2 * (s @ self.symmetric_coupling.to(x))
        if self.bias is not None:
            field = field + self.bias.to(x)
        return -2 * s * field

    def _spins(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        check_states("x", x, self.n_sites)
        return bits_to_spins(x)
