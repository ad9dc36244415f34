r"""Energies of images at all noise levels: small networks, three heads, the paper's.

All take states and a level for each, E(x, t), as `ebmtut.energies.levels` has it.
The small ones share a body and differ in their head, the last step from features to
a number, with :math:`\bar\sigma_t` the noise on level t:

- "denoiser": :math:`E = \lVert x - u(x, t) \rVert^2 / 2 \bar\sigma_t^2`. Never
  negative. Where u is the mean of the clean image given x, and changes slowly, the
  gradient is that of Tweedie's formula.
- "signed": :math:`E = (\lVert v(x, t) \rVert^2 - \lVert u(x, t) \rVert^2) /
  2 \bar\sigma_t^2`. Nothing keeps it from falling to minus infinity.
- "linear": :math:`E = w^\top h(x, t) / \bar\sigma_t^2`: falls at most linearly.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ebmtut._layers import source_of_weights
from ebmtut.checks import check_choice, check_range
from ebmtut.energies.mlp import silu_and_slope
from ebmtut.tensor_checks import check_shape

__all__ = [
    "PAPER_NETWORKS",
    "ConvEnergy",
    "PerceptronEnergy",
    "WideResNetConfig",
    "WideResNetEnergy",
    "sinusoidal_embedding",
]

HEADS = ("denoiser", "signed", "linear")


def sinusoidal_embedding(
    level: Int[Tensor, " batch"], n_features: int
) -> Float[Tensor, "batch n_features"]:
    """Sines and cosines of a level at geometric frequencies from 1 to 1/10000.

    Parameters
    ----------
    level
        One a row.
    n_features
        Even, at least 4: half sines, half cosines.

    Raises
    ------
    InputError
        If ``n_features`` is odd or too small.
    """
    check_range("n_features / 2", n_features / 2, low=2)
    check_range("n_features % 2", n_features % 2, low=0, high=0, integer=True)
    half = n_features // 2
    steps = torch.arange(half, device=level.device, dtype=torch.float32)
    frequencies = torch.exp(-math.log(10_000) * steps / (half - 1))
    phase = level[:, None].float() * frequencies
    return torch.cat([phase.sin(), phase.cos()], dim=1)


class _Headed(nn.Module):
    """What the small energies share: a head, and the noise of each level."""

    noises: Tensor

    def __init__(self, noises: tuple[float, ...], head: str, n_pixels: int) -> None:
        super().__init__()
        check_choice("head", head, HEADS)
        check_range("number of noises", len(noises), low=1, integer=True)
        for t, noise in enumerate(noises):
            check_range(f"noises[{t}]", noise, low=0, include_low=False)
        self.head, self.n_pixels = head, n_pixels
        self.n_outputs = {"denoiser": n_pixels, "signed": 2 * n_pixels, "linear": 1}[
            head
        ]
        self.register_buffer("noises", torch.tensor(noises))

    def read(self, x: Tensor, output: Tensor, level: Tensor) -> Tensor:
        """Energies from the flat states and the flat output of the last layer."""
        if self.head == "denoiser":
            value = 0.5 * (x - output).square().sum(1)
        elif self.head == "signed":
            lower, upper = output.chunk(2, dim=1)
            value = 0.5 * (upper.square().sum(1) - lower.square().sum(1))
        else:
            value = output[:, 0]
        return value / self.noises[level].square()

    def slopes(
        self, x: Tensor, output: Tensor, level: Tensor
    ) -> tuple[Tensor, Tensor | float]:
        """Slopes of the energies in the output, and in x where that stays."""
        precision = self.noises[level].square().reciprocal()[:, None]
        if self.head == "denoiser":
            misfit = precision * (x - output)
            return -misfit, misfit
        if self.head == "signed":
            lower, upper = output.chunk(2, dim=1)
            return precision * torch.cat([-lower, upper], dim=1), 0.0
        return precision, 0.0


class PerceptronEnergy(_Headed):
    """A multilayer perceptron with a shift for every level, and a head.

    Parameters
    ----------
    shape
        Of one state, such as (8, 8).
    noises
        Standard deviation of the noise on levels 0, ..., T - 1, all positive.
    hidden
        Units of a hidden layer, with SiLU.
    n_layers
        Hidden layers.
    head
        "denoiser", "signed" or "linear".
    generator
        Source of the weights; None takes a fresh one of seed 0.

    Raises
    ------
    InputError
        If a size is out of range, or the head unknown.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        noises: tuple[float, ...],
        hidden: int = 256,
        n_layers: int = 3,
        head: str = "denoiser",
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(noises, head, math.prod(shape))
        check_range("hidden", hidden, low=1, integer=True)
        check_range("n_layers", n_layers, low=1, integer=True)
        generator = source_of_weights(generator)
        self.shape = tuple(shape)
        widths = [self.n_pixels, *[hidden] * n_layers]
        self.layers = nn.ModuleList(
            _linear(n_in, n_out, generator) for n_in, n_out in pairwise(widths)
        )
        self.shifts = nn.Parameter(
            torch.randn(len(noises), hidden, generator=generator)
        )
        self.last = _linear(hidden, self.n_outputs, generator)

    def forward(
        self, x: Float[Tensor, "batch ..."], level: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Energies of states at their levels.

        Raises
        ------
        InputError
            If the states have another shape.
        """
        check_shape("x", x, (None, *self.shape))
        flat = x.flatten(1)
        h = self.layers[0](flat) + self.shifts[level]
        for layer in self.layers[1:]:
            h = layer(nn.functional.silu(h))
        return self.read(flat, self.last(nn.functional.silu(h)), level)

    @torch.no_grad()
    def energy_and_gradient(
        self, x: Float[Tensor, "batch ..."], level: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch ..."]]:
        """Energies and their gradient in x, by hand: half the time of autograd's.

        Raises
        ------
        InputError
            As for `forward`.
        """
        check_shape("x", x, (None, *self.shape))
        flat = x.flatten(1)
        h = self.layers[0](flat) + self.shifts[level]
        gates = []
        for layer in [*self.layers[1:], self.last]:
            out, slope = silu_and_slope(h)
            gates.append(slope)
            h = layer(out)
        back, direct = self.slopes(flat, h, level)
        for layer in [self.last, *reversed(self.layers[1:])]:
            back = (back @ layer.get_parameter("weight")) * gates.pop()
        gradient = back @ self.layers[0].get_parameter("weight") + direct
        return self.read(flat, h, level), gradient.reshape(x.shape)


class ConvEnergy(_Headed):
    """A small residual network at two resolutions, and a head.

    Half of its work is done at half the resolution, where a pixel sees more of
    the image. In memory a pixel's channels lie beside each other, which is the
    order that the CPU's convolutions want.

    Parameters
    ----------
    side
        Pixels a side, even; states are (batch, side, side).
    noises, head, generator
        As for `PerceptronEnergy`.
    channels
        At full resolution; twice as many at half of it.
    n_blocks
        Residual blocks at each resolution.

    Raises
    ------
    InputError
        If a size is out of range, or the head unknown.
    """

    def __init__(
        self,
        side: int,
        noises: tuple[float, ...],
        channels: int = 16,
        n_blocks: int = 2,
        head: str = "denoiser",
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(noises, head, side * side)
        check_range("side", side, low=4, integer=True)
        check_range("side % 2", side % 2, low=0, high=0, integer=True)
        check_range("channels", channels, low=1, integer=True)
        check_range("n_blocks", n_blocks, low=1, integer=True)
        generator = source_of_weights(generator)
        self.side = side
        wide, n_levels = 2 * channels, len(noises)
        self.first = _conv(1, channels, 3, generator)
        self.fine = nn.ModuleList(
            _ResidualBlock(channels, n_levels, generator) for _ in range(n_blocks)
        )
        self.down = _conv(channels, wide, 3, generator, stride=2)
        self.coarse = nn.ModuleList(
            _ResidualBlock(wide, n_levels, generator) for _ in range(n_blocks)
        )
        self.up = _conv(wide, 4 * channels, 1, generator)
        self.mend = _ResidualBlock(channels, n_levels, generator)
        n_maps = {"denoiser": 1, "signed": 2, "linear": 1}[head]
        self.last = _conv(channels, n_maps, 3, generator)

    def forward(
        self, x: Float[Tensor, "batch side side"], level: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Energies of images at their levels.

        Raises
        ------
        InputError
            If the images have another shape.
        """
        check_shape("x", x, (None, self.side, self.side))
        h = self.first(x[:, None].contiguous(memory_format=torch.channels_last))
        for block in self.fine:
            h = block(h, level)
        low = self.down(nn.functional.silu(h))
        for block in self.coarse:
            low = block(low, level)
        # Four channels of a coarse pixel become its four fine pixels.
        h = h + nn.functional.pixel_shuffle(self.up(nn.functional.silu(low)), 2)
        h = nn.functional.silu(self.mend(h, level))
        maps = self.last(h).float().flatten(1)
        output = maps.sum(1, keepdim=True) if self.head == "linear" else maps
        return self.read(x.flatten(1), output, level)


class _ResidualBlock(nn.Module):
    def __init__(
        self, channels: int, n_levels: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.first = _conv(channels, channels, 3, generator)
        self.second = _conv(channels, channels, 3, generator, gain=0.1)
        self.shifts = nn.Parameter(
            torch.randn(n_levels, channels, 1, 1, generator=generator)
        )

    def forward(self, h: Tensor, level: Tensor) -> Tensor:
        inner = self.first(nn.functional.silu(h)) + self.shifts[level]
        moved: Tensor = h + self.second(nn.functional.silu(inner))
        return moved


@dataclass(frozen=True)
class WideResNetConfig:
    """A column of the paper's architectures.

    Attributes
    ----------
    side
        Pixels a side.
    n_blocks
        N, residual blocks at each resolution.
    multipliers
        Channels at each resolution, in units of `channels`.
    channels
        Of the first convolution.
    n_colors, n_levels
        Colours of a pixel; T.
    beta1, batch_size
        Of Adam, and of the training.
    """

    side: int
    n_blocks: int
    multipliers: tuple[int, ...]
    beta1: float
    batch_size: int
    channels: int = 128
    n_colors: int = 3
    n_levels: int = 6

    def __post_init__(self) -> None:
        for name in ("n_blocks", "batch_size", "channels", "n_colors", "n_levels"):
            check_range(name, getattr(self, name), low=1, integer=True)
        halvings = len(self.multipliers) - 1
        check_range("number of multipliers", halvings + 1, low=1, integer=True)
        check_range("side", self.side, low=2**halvings, integer=True)
        check_range("beta1", self.beta1, low=0, high=1, include_high=False)

    def n_parameters(self) -> int:
        """Count the trainable numbers of the network by formula."""

        def conv(n_in: int, n_out: int) -> int:
            return 9 * n_in * n_out + n_out

        def dense(n_in: int, n_out: int) -> int:
            return n_in * n_out + n_out

        time = 4 * self.channels
        total = dense(self.channels, time) + dense(time, time)
        total += dense(time, self.channels * self.multipliers[-1])
        total += conv(self.n_colors, self.channels)
        n_in = self.channels
        for multiplier in self.multipliers:
            n_out = self.channels * multiplier
            for _ in range(self.n_blocks):
                # Two convolutions, a scale a channel, the time, a shortcut.
                total += conv(n_in, n_out) + conv(n_out, n_out) + n_out
                total += dense(time, n_out)
                total += conv(n_in, n_out) if n_in != n_out else 0
                n_in = n_out
        return total


#: The columns of Tables 5 and 6. The text at hand lacks the two tables: blocks and
#: Adam's beta1 are those of the official code's README (March 2021), multipliers
#: those of its `model.py`; a batch size that the README leaves out is the code's 64.
PAPER_NETWORKS: dict[str, WideResNetConfig] = {
    "cifar10": WideResNetConfig(32, 8, (1, 2, 2, 2), 0.9, 256),
    "celeba64": WideResNetConfig(64, 6, (1, 2, 2, 2, 4), 0.5, 128),
    "lsun_church64": WideResNetConfig(64, 2, (1, 2, 2, 2, 4), 0.9, 128),
    "lsun_bedroom64": WideResNetConfig(64, 2, (1, 2, 2, 2, 4), 0.9, 128),
    "lsun_church128": WideResNetConfig(128, 2, (1, 2, 2, 2, 4, 4), 0.5, 64),
    "lsun_bedroom128": WideResNetConfig(128, 5, (1, 2, 2, 2, 4, 4), 0.5, 64),
}


class WideResNetEnergy(nn.Module):
    r"""The paper's network (Gao et al., 2021, Appendix B).

    Residual blocks of two convolutions with leaky ReLU of slope 0.2, halved in
    resolution by average pooling; the second convolution of a block starts at zero
    and has a trainable scale for each channel; the level's embedding enters after
    the first. All weights but the last layer's are divided by their spectral norm;
    those that start at zero only where it exceeds 1. At the end ReLU, a sum over
    the pixels and a product with the embedding. E = -f / scale_t, where the paper's
    code has :math:`scale_t = c_t^2 b^2 \sigma_{t+1}^2`.

    Parameters
    ----------
    config
        Its sizes.
    scales
        One for each level, positive; 1 by default.
    generator
        Source of the weights; None takes a fresh one of seed 0.

    Raises
    ------
    InputError
        If there is not one positive scale for each level.
    """

    scales: Tensor

    def __init__(
        self,
        config: WideResNetConfig,
        scales: tuple[float, ...] | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        scales = (1.0,) * config.n_levels if scales is None else scales
        n_levels = config.n_levels
        check_range("len(scales)", len(scales), low=n_levels, high=n_levels)
        for t, scale in enumerate(scales):
            check_range(f"scales[{t}]", scale, low=0, include_low=False)
        generator = source_of_weights(generator)
        self.config = config
        self.register_buffer("scales", torch.tensor(scales))
        n_in, time = config.channels, 4 * config.channels
        self.embed = nn.ModuleList(
            [
                _bounded(_linear(n_in, time, generator), generator),
                _bounded(_linear(time, time, generator), generator),
            ]
        )
        self.first = _bounded(_conv(config.n_colors, n_in, 3, generator), generator)
        self.levels = nn.ModuleList()
        for multiplier in config.multipliers:
            n_out = config.channels * multiplier
            blocks = nn.ModuleList()
            for _ in range(config.n_blocks):
                blocks.append(_WideBlock(n_in, n_out, time, generator))
                n_in = n_out
            self.levels.append(blocks)
        self.last = _linear(time, n_in, generator)

    def forward(
        self, x: Float[Tensor, "batch ..."], level: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Energies of images (batch, n_colors, side, side) at their levels.

        Raises
        ------
        InputError
            If the images have another shape.
        """
        side = self.config.side
        check_shape("x", x, (None, self.config.n_colors, side, side))
        embedded = sinusoidal_embedding(level, self.config.channels).to(x.dtype)
        time = self.embed[1](_leaky(self.embed[0](embedded)))
        h = self.first(x.contiguous(memory_format=torch.channels_last))
        for k, blocks in enumerate(self.levels):
            if k:
                h = nn.functional.avg_pool2d(h, 2, ceil_mode=True)
            assert isinstance(blocks, nn.ModuleList)
            for block in blocks:
                h = block(h, time)
        pooled = h.relu().sum((2, 3))
        value = (pooled * self.last(_leaky(time))).float().sum(1)
        return -value / self.scales[level]


class _WideBlock(nn.Module):
    def __init__(
        self, n_in: int, n_out: int, time: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.first = _bounded(_conv(n_in, n_out, 3, generator), generator)
        self.second = _bounded(
            _conv(n_out, n_out, 3, generator, gain=0.0), generator, only_above=True
        )
        self.scale = nn.Parameter(torch.ones(n_out, 1, 1))
        self.time = _bounded(_linear(time, n_out, generator), generator)
        self.shortcut = (
            nn.Identity()
            if n_in == n_out
            else _bounded(_conv(n_in, n_out, 3, generator), generator)
        )

    def forward(self, h: Tensor, time: Tensor) -> Tensor:
        inner = self.first(_leaky(h)) + self.time(_leaky(time))[:, :, None, None]
        moved: Tensor = self.shortcut(h) + self.scale * self.second(_leaky(inner))
        return moved


class _SpectralNorm(nn.Module):
    """A weight divided by its largest singular value, which one power step tracks."""

    u: Tensor

    def __init__(
        self, weight: Tensor, only_above: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.only_above = only_above
        u = torch.randn(len(weight), generator=generator)
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


def _bounded(
    layer: nn.Module, generator: torch.Generator, only_above: bool = False
) -> nn.Module:
    weight = layer.weight
    assert isinstance(weight, Tensor)
    norm = _SpectralNorm(weight, only_above, generator)
    parametrize.register_parametrization(layer, "weight", norm)
    return layer


def _leaky(h: Tensor) -> Tensor:
    return nn.functional.leaky_relu(h, 0.2)


def _linear(n_in: int, n_out: int, generator: torch.Generator) -> nn.Linear:
    layer = nn.utils.skip_init(nn.Linear, n_in, n_out)
    return _drawn(layer, n_in, 1.0, generator)


def _conv(
    n_in: int,
    n_out: int,
    size: int,
    generator: torch.Generator,
    *,
    stride: int = 1,
    gain: float = 1.0,
) -> nn.Conv2d:
    layer = nn.utils.skip_init(
        nn.Conv2d, n_in, n_out, size, stride=stride, padding=size // 2
    )
    return _drawn(layer, n_in * size * size, gain, generator).to(
        memory_format=torch.channels_last
    )


_Layer = TypeVar("_Layer", nn.Linear, nn.Conv2d)


def _drawn(
    layer: _Layer, fan_in: int, gain: float, generator: torch.Generator
) -> _Layer:
    # An ordinary layer would draw its weights from the global stream.
    bound = gain * fan_in**-0.5
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
