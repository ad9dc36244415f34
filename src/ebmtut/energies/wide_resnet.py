"""The network of recovery likelihood's paper, an energy of images at all levels."""

import math
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ebmtut._layers import bounded, conv, linear, source_of_weights
from ebmtut.checks import BelowOne, Count, Positive, Range, check_range, checked
from ebmtut.tensor_checks import check_shape

__all__ = ["PAPER_NETWORKS", "WideResNetConfig", "WideResNetEnergy"]


@checked
def sinusoidal_embedding(
    level: Int[Tensor, " batch"], n_features: Annotated[int, Range(low=4)]
) -> Float[Tensor, "batch n_features"]:
    """Sines and cosines of a level at n_features / 2 frequencies from 1 to 1/10000."""
    check_range("n_features % 2", n_features % 2, low=0, high=0, integer=True)
    half = n_features // 2
    steps = torch.arange(half, device=level.device, dtype=torch.float32)
    frequencies = torch.exp(-math.log(10_000) * steps / (half - 1))
    phase = level[:, None].float() * frequencies
    return torch.cat([phase.sin(), phase.cos()], dim=1)


@checked
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
    n_colors
        Colours of a pixel.
    n_levels
        T.
    beta1
        Of Adam.
    batch_size
        Of the training.
    """

    side: int
    n_blocks: Count
    multipliers: tuple[int, ...]
    beta1: BelowOne
    batch_size: Count
    channels: Count = 128
    n_colors: Count = 3
    n_levels: Count = 6

    def __post_init__(self) -> None:
        halvings = len(self.multipliers) - 1
        check_range("number of multipliers", halvings + 1, low=1, integer=True)
        check_range("side", self.side, low=2**halvings, integer=True)

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
    resolution by average pooling; the level's embedding enters after the first, and the
    second starts at zero. All weights but the last layer's are divided by their
    spectral norm; those that start at zero only where it exceeds 1. E = -f / scale_t,
    where the paper's code has :math:`scale_t = c_t^2 b^2 \sigma_{t+1}^2`.

    Parameters
    ----------
    scales
        One for each level, positive; 1 by default.
    generator
        Source of the weights; None takes a fresh one of seed 0.
    """

    scales: Tensor

    @checked
    def __init__(
        self,
        config: WideResNetConfig,
        scales: tuple[Positive, ...] | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        scales = (1.0,) * config.n_levels if scales is None else scales
        n_levels = config.n_levels
        check_range("len(scales)", len(scales), low=n_levels, high=n_levels)
        generator = source_of_weights(generator)
        self.config = config
        self.register_buffer(
            "scales", torch.tensor(scales, dtype=torch.float32, device="cpu")
        )
        n_in, time = config.channels, 4 * config.channels
        self.embed = nn.ModuleList(
            [
                bounded(linear(n_in, time, generator, zero_bias=True), generator),
                bounded(linear(time, time, generator, zero_bias=True), generator),
            ]
        )
        self.first = bounded(conv(config.n_colors, n_in, 3, generator), generator)
        self.levels = nn.ModuleList()
        for multiplier in config.multipliers:
            n_out = config.channels * multiplier
            blocks = nn.ModuleList()
            for _ in range(config.n_blocks):
                blocks.append(_WideBlock(n_in, n_out, time, generator))
                n_in = n_out
            self.levels.append(blocks)
        self.last = linear(time, n_in, generator, zero_bias=True)

    def constructor_arguments(self) -> dict[str, Any]:
        """The configuration's entries, and the scales."""
        return {**asdict(self.config), "scales": tuple(self.scales.tolist())}

    @classmethod
    def from_arguments(
        cls, scales: tuple[float, ...], **sizes: Any
    ) -> "WideResNetEnergy":
        """Make the energy that has these `constructor_arguments`."""
        return cls(WideResNetConfig(**sizes), scales)

    def forward(
        self, x: Float[Tensor, "batch ..."], level: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Energies of images (batch, n_colors, side, side) at their levels."""
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
        self.first = bounded(conv(n_in, n_out, 3, generator), generator)
        self.second = bounded(
            conv(n_out, n_out, 3, generator, gain=0.0), generator, only_above=True
        )
        self.scale = nn.Parameter(
            torch.ones(n_out, 1, 1, dtype=torch.float32, device="cpu")
        )
        self.time = bounded(linear(time, n_out, generator, zero_bias=True), generator)
        self.shortcut = (
            nn.Identity()
            if n_in == n_out
            else bounded(conv(n_in, n_out, 3, generator), generator)
        )

    def forward(self, h: Tensor, time: Tensor) -> Tensor:
        inner = self.first(_leaky(h)) + self.time(_leaky(time))[:, :, None, None]
        moved: Tensor = self.shortcut(h) + self.scale * self.second(_leaky(inner))
        return moved


def _leaky(h: Tensor) -> Tensor:
    return nn.functional.leaky_relu(h, 0.2)
