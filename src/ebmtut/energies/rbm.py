"""The restricted Boltzmann machine."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from ebmtut.checks import checked
from ebmtut.energies.base import Energy
from ebmtut.energies.pairwise import PairTerms
from ebmtut.tensor_checks import check_floats, check_states

__all__ = ["RBM"]


@checked
class RBM(Energy):
    """Restricted Boltzmann machine on bits, E(v, h) = -h'Wv - b'h - c'v.

    As an energy it is the free energy of the visible units; as a pairwise model its
    sites are the visible units and then the hidden ones. Lázaro-Gredilla et al. (2021),
    Section 5.5.

    Parameters
    ----------
    weight, hidden_bias, visible_bias
        W, b and c; copied.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import RBM
    >>> model = RBM(torch.zeros(4, 6), torch.zeros(4), torch.zeros(6))
    >>> model(torch.zeros(1, 6))  # the free energy, -4 log 2
    tensor([-2.7726])
    """

    def __init__(
        self,
        weight: Float[Tensor, "n_hidden n_visible"],
        hidden_bias: Float[Tensor, " n_hidden"],
        visible_bias: Float[Tensor, " n_visible"],
        *,
        learnable: bool = False,
    ) -> None:
        super().__init__()
        weight = check_floats("weight", weight, (None, None))
        self.n_hidden, self.n_visible = weight.shape
        self.n_sites = self.n_visible
        hidden_bias = check_floats("hidden_bias", hidden_bias, (self.n_hidden,))
        visible_bias = check_floats("visible_bias", visible_bias, (self.n_visible,))
        self.weight = nn.Parameter(weight.clone(), learnable)
        self.hidden_bias = nn.Parameter(hidden_bias.clone(), learnable)
        self.visible_bias = nn.Parameter(visible_bias.clone(), learnable)

    def constructor_arguments(self) -> dict[str, Any]:
        """Weights, biases, and whether they are learned."""
        return {
            "weight": self.weight,
            "hidden_bias": self.hidden_bias,
            "visible_bias": self.visible_bias,
            "learnable": self.weight.requires_grad,
        }

    def pair_terms(self) -> PairTerms:
        """Return all pairs (visible, hidden), hidden unit by hidden unit."""
        device = self.weight.device
        visible = torch.arange(self.n_visible, device=device)
        hidden = torch.arange(self.n_hidden, device=device) + self.n_visible
        bias = torch.cat([self.visible_bias, self.hidden_bias]).detach()
        return PairTerms(
            lambda: (
                visible.repeat(self.n_hidden),
                hidden.repeat_interleave(self.n_visible),
            ),
            self.weight.detach().flatten(),
            bias,
        )

    def hidden_logits(
        self, v: Float[Tensor, "batch n_visible"]
    ) -> Float[Tensor, "batch n_hidden"]:
        """Log-odds of the hidden units given ``v``."""
        check_states("v", v, self.n_visible)
        return v @ self.weight.to(v).T + self.hidden_bias.to(v)

    def visible_logits(
        self, h: Float[Tensor, "batch n_hidden"]
    ) -> Float[Tensor, "batch n_visible"]:
        """Log-odds of the visible units given ``h``."""
        check_states("h", h, self.n_hidden)
        return h @ self.weight.to(h) + self.visible_bias.to(h)

    def joint_energy(
        self, v: Float[Tensor, "batch n_visible"], h: Float[Tensor, "batch n_hidden"]
    ) -> Float[Tensor, " batch"]:
        """E(v, h)."""
        return -(h * self.hidden_logits(v)).sum(1) - v @ self.visible_bias.to(v)

    def forward(self, x: Float[Tensor, "batch n_visible"]) -> Float[Tensor, " batch"]:
        """Free energies of visible bits."""
        hidden = softplus(self.hidden_logits(x)).sum(1)
        return -hidden - x @ self.visible_bias.to(x)
