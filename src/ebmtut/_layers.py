"""Layers whose first weights come from a generator.

An ordinary layer of torch draws them from the global stream, which belongs to
nobody: what a program did before would change what it learns.
"""

from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ebmtut.checks import check_type
from ebmtut.random import check_generator, make_generator


def source_of_weights(
    generator: torch.Generator | None, *, anywhere: bool = False
) -> torch.Generator:
    """Return the generator itself; for None a fresh one of seed 0."""
    if generator is None:
        return make_generator(0)
    check_type("generator", generator, torch.Generator)
    if not anywhere:
        check_generator(generator)
    return generator


def linear(
    n_in: int,
    n_out: int,
    generator: torch.Generator,
    *,
    bias: bool = True,
    zero_bias: bool = False,
) -> nn.Linear:
    """Return a linear layer, uniform within +-1/sqrt(n_in) as torch's own."""
    layer = nn.utils.skip_init(
        nn.Linear, n_in, n_out, bias=bias, device=generator.device, dtype=torch.float32
    )
    return _drawn(layer, n_in**-0.5, generator, zero_bias)


def conv(
    n_in: int,
    n_out: int,
    size: int,
    generator: torch.Generator,
    *,
    stride: int = 1,
    gain: float = 1.0,
) -> nn.Conv2d:
    """Return a convolution that keeps the size of images, without bias at first.

    A pixel's channels lie beside each other, the order that the CPU's convolutions
    want.
    """
    layer = nn.utils.skip_init(
        nn.Conv2d,
        n_in,
        n_out,
        size,
        stride=stride,
        padding=size // 2,
        device=generator.device,
        dtype=torch.float32,
    )
    bound = gain * (n_in * size * size) ** -0.5
    drawn = _drawn(layer, bound, generator, zero_bias=True)
    return drawn.to(memory_format=torch.channels_last)


_Layer = TypeVar("_Layer", nn.Linear, nn.Conv2d)


def _drawn(
    layer: _Layer, bound: float, generator: torch.Generator, zero_bias: bool
) -> _Layer:
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    if layer.bias is not None:
        if zero_bias:
            nn.init.zeros_(layer.bias)
        else:
            nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return layer


def embedding(n_tokens: int, width: int, generator: torch.Generator) -> nn.Embedding:
    """Return a table of standard normal vectors, as torch's own."""
    layer = nn.utils.skip_init(
        nn.Embedding, n_tokens, width, device=generator.device, dtype=torch.float32
    )
    nn.init.normal_(layer.weight, generator=generator)
    return layer


def normal_weights(
    *shape: int, scale: float = 1.0, generator: torch.Generator
) -> Float[nn.Parameter, "..."]:
    """Return normal weights."""
    weights: Tensor = torch.randn(
        shape, generator=generator, dtype=torch.float32, device=generator.device
    )
    return nn.Parameter(weights * scale)


class _SpectralNorm(nn.Module):
    """A weight divided by its largest singular value, which one power step tracks."""

    u: Tensor

    def __init__(
        self, weight: Tensor, only_above: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.only_above = only_above
        u = normal_weights(len(weight), generator=generator).detach()
        self.register_buffer("u", u / u.norm())

    def forward(self, weight: Tensor) -> Tensor:
        matrix = weight.flatten(1)
        with torch.no_grad():
            v = nn.functional.normalize(matrix.T @ self.u, dim=0)
            u = nn.functional.normalize(matrix @ v, dim=0)
            # A weight of zero has no direction: the old one stays.
            u = torch.where(u.norm() > 0.5, u, self.u)
            if self.training:
                self.u.copy_(u)
        norm = u @ matrix @ v
        return weight / norm.clamp(min=1.0 if self.only_above else 1e-12)


def bounded(
    layer: _Layer, generator: torch.Generator, *, only_above: bool = False
) -> _Layer:
    """Divide a layer's weight by its spectral norm, in place, whenever it is used."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    norm = _SpectralNorm(weight, only_above, generator)
    parametrize.register_parametrization(layer, "weight", norm)
    return layer
