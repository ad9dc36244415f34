"""A residual network as an energy of binary images."""

from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut._layers import conv, linear, source_of_weights
from ebmtut.checks import Count, Natural, Range, checked
from ebmtut.energies._over_base import (
    check_weights_dtype,
    energy_over_base,
    logits_of_base,
)
from ebmtut.energies.base import Energy
from ebmtut.tensor_checks import check_states

__all__ = ["ResNetEnergy"]


class ResNetEnergy(Energy):
    """Energy of a residual network with SiLU, of images as flat bits.

    A convolution, blocks of two convolutions each, the mean over the pixels and a
    linear layer; the first blocks halve the resolution. By default the size of Schröder
    et al. (2023, Appendix E.3); that two blocks halve the resolution, and the mean, are
    from the code of Grathwohl et al. (2021).

    Parameters
    ----------
    side
        Pixels a side; a state is an image, row by row.
    n_blocks, n_halving
        Residual blocks, and how many of them, the first, halve the resolution.
    base_probs
        Means of the base, as of `MLPEnergy`.
    generator
        Source of the initial weights; None takes a fresh one of seed 0.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import ResNetEnergy
    >>> from ebmtut.random import make_generator
    >>> energy = ResNetEnergy(8, channels=4, n_blocks=2, generator=make_generator(0))
    >>> energy(torch.zeros(5, 64)).shape
    torch.Size([5])
    """

    base_logits: Tensor | None

    @checked
    def __init__(
        self,
        side: Annotated[int, Range(low=2)],
        channels: Count = 64,
        n_blocks: Count = 8,
        n_halving: Natural = 2,
        base_probs: Float[Tensor, " n_sites"] | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.side, self.n_sites = side, side * side
        generator = source_of_weights(generator)
        self.first = conv(1, channels, 3, generator)
        self.blocks = nn.ModuleList(
            _Block(channels, 2 if k < n_halving else 1, generator)
            for k in range(n_blocks)
        )
        self.last = linear(channels, 1, generator)
        self.register_buffer("base_logits", logits_of_base(base_probs, self.n_sites))

    @property
    def weights_dtype(self) -> torch.dtype:
        """Dtype of the weights, which states must have."""
        return self.last.weight.dtype

    def constructor_arguments(self) -> dict[str, Any]:
        """Sizes, and a base where there is one, whose logits are a buffer."""
        base = self.base_logits
        return {
            "side": self.side,
            "channels": self.first.out_channels,
            "n_blocks": len(self.blocks),
            "n_halving": sum(block.halves for block in self.blocks),
            "base_probs": None if base is None else torch.full_like(base, 0.5),
        }

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies of the network and its base."""
        check_states("x", x, self.n_sites)
        check_weights_dtype(x, self.weights_dtype)
        image = x.view(-1, 1, self.side, self.side)
        h = self.first(image.contiguous(memory_format=torch.channels_last))
        for block in self.blocks:
            h = block(h)
        return energy_over_base(self.last, h, x, self.base_logits)


class _Block(nn.Module):
    def __init__(self, channels: int, stride: int, generator: torch.Generator) -> None:
        super().__init__()
        self.halves = stride == 2
        self.inner = conv(channels, channels, 3, generator, stride=stride)
        self.outer = conv(channels, channels, 3, generator)
        self.shortcut = (
            conv(channels, channels, 1, generator) if self.halves else nn.Identity()
        )

    def forward(self, h: Tensor) -> Tensor:
        moved = self.outer(nn.functional.silu(self.inner(h)))
        if self.halves:
            # Not by the shortcut's own stride: with few channels, that breaks down in
            # torch's convolutions on a CPU.
            h = h[:, :, ::2, ::2]
        return nn.functional.silu(moved + self.shortcut(h))
