"""A multilayer perceptron as an energy."""

from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut._layers import linear, source_of_weights
from ebmtut.checks import Count, checked
from ebmtut.energies._over_base import (
    check_weights_dtype,
    energy_over_base,
    logits_of_base,
    over_base,
)
from ebmtut.energies._silu_tower import runs_by_tables, silu_tower
from ebmtut.energies.base import Energy
from ebmtut.tensor_checks import check_states

__all__ = ["MLPEnergy"]


class MLPEnergy(Energy):
    """Energy of a fully connected network with SiLU between its layers.

    With `base_probs` the distribution is the network's times a Bernoulli base, E(x) =
    net(x) - sum_i x_i logit(base_i).

    Parameters
    ----------
    hidden, n_layers
        Units of a hidden layer; linear layers, of which the last has one output.
    base_probs
        Means of the base, inside (0, 1).
    generator
        Source of the initial weights; None makes a generator of seed 0.

    Attributes
    ----------
    base_logits
        The base as logits, a buffer.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import MLPEnergy
    >>> from ebmtut.random import make_generator
    >>> energy = MLPEnergy(32, generator=make_generator(0))
    >>> energy(torch.zeros(5, 32)).shape
    torch.Size([5])
    """

    base_logits: Tensor | None

    @checked
    def __init__(
        self,
        n_sites: Count,
        hidden: Count = 256,
        n_layers: Count = 4,
        base_probs: Float[Tensor, " n_sites"] | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_sites = n_sites
        widths = [n_sites] + [hidden] * (n_layers - 1) + [1]
        generator = source_of_weights(generator, anywhere=True)
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(widths):
            layers += [linear(n_in, n_out, generator), nn.SiLU()]
        self.net = nn.Sequential(*layers[:-1])
        self.register_buffer("base_logits", logits_of_base(base_probs, n_sites))

    @property
    def weights_dtype(self) -> torch.dtype:
        """Dtype of the weights, which states must have."""
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        return last.weight.dtype

    def constructor_arguments(self) -> dict[str, Any]:
        """Sizes, and a base where there is one, whose logits are a buffer."""
        layers = [layer for layer in self.net if isinstance(layer, nn.Linear)]
        base = self.base_logits
        return {
            "n_sites": self.n_sites,
            "hidden": layers[0].out_features,
            "n_layers": len(layers),
            "base_probs": None if base is None else torch.full_like(base, 0.5),
        }

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies in the weights' dtype, also under autocast."""
        check_states("x", x, self.n_sites)
        check_weights_dtype(x, self.weights_dtype)
        if runs_by_tables(self.net, x):
            return over_base(silu_tower(self.net, x), x, self.base_logits)
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        return energy_over_base(last, self.net[:-1](x), x, self.base_logits)


def silu_and_slope(h: Tensor) -> tuple[Tensor, Tensor]:
    """Return h sigmoid(h) and its slope, for gradients by hand."""
    gate = h.sigmoid()
    out = h * gate
    return out, gate + out * (1 - gate)
