r"""Energies of images at all noise levels: small networks of three heads.

They take states and a level for each, E(x, t), as `ebmtut.energies.levels` has it.
A head is the last step from features to a number, with :math:`\bar\sigma_t` the noise
on level t:

- "denoiser": :math:`E = \lVert x - u(x, t) \rVert^2 / 2 \bar\sigma_t^2`. Never
  negative. Where u is the mean of the clean image given x, and changes slowly, the
  gradient is that of Tweedie's formula.
- "signed": :math:`E = (\lVert v(x, t) \rVert^2 - \lVert u(x, t) \rVert^2) /
  2 \bar\sigma_t^2`. Nothing keeps it from falling to minus infinity.
- "linear": :math:`E = w^\top h(x, t) / \bar\sigma_t^2`: falls at most linearly.

A ``scale`` multiplies the energy of any of them.
"""

import math
from itertools import pairwise
from typing import Annotated, Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ebmtut._layers import bounded, conv, linear, normal_weights, source_of_weights
from ebmtut.checks import Count, Positive, Range, check_choice, check_range, checked
from ebmtut.tensor_checks import check_shape

__all__ = ["ConvEnergy", "PerceptronEnergy"]

HEADS = ("denoiser", "signed", "linear")


class _Headed(nn.Module):
    """What the small energies share: a head, and the noise of each level."""

    noises: Tensor

    def __init__(
        self, noises: tuple[float, ...], head: str, n_pixels: int, scale: float
    ) -> None:
        super().__init__()
        check_choice("head", head, HEADS)
        check_range("number of noises", len(noises), low=1, integer=True)
        for t, noise in enumerate(noises):
            check_range(f"noises[{t}]", noise, low=0, include_low=False)
        self.head, self.n_pixels, self.scale = head, n_pixels, scale
        self.n_outputs = {"denoiser": n_pixels, "signed": 2 * n_pixels, "linear": 1}[
            head
        ]
        self.register_buffer(
            "noises", torch.tensor(noises, dtype=torch.float32, device="cpu")
        )

    def read(self, x: Tensor, output: Tensor, level: Tensor) -> Tensor:
        """Energies from the flat states and the flat output of the last layer."""
        if self.head == "denoiser":
            value = 0.5 * (x - output).square().sum(1)
        elif self.head == "signed":
            lower, upper = output.chunk(2, dim=1)
            value = 0.5 * (upper.square().sum(1) - lower.square().sum(1))
        else:
            value = output[:, 0]
        return self.scale * value / self.noises[level].square()

    def slopes(
        self, x: Tensor, output: Tensor, precision: Tensor
    ) -> tuple[Tensor, Tensor | float]:
        """Slopes of the energies in the output, and in x where that stays."""
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
    hidden, n_layers
        Units of each hidden layer, with SiLU, and number of hidden layers.
    head, scale
        "denoiser", "signed" or "linear", and a positive factor of the energy.
    spectral_norm
        Whether to divide hidden weights by their largest singular value, a step a call.
    generator
        Source of the weights; None takes a fresh one of seed 0.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import PerceptronEnergy
    >>> energy = PerceptronEnergy((2,), (0.1, 0.5), hidden=8)
    >>> x = torch.zeros(5, 2)
    >>> energy(x, torch.zeros(5).long()).shape  # all of them at level 0
    torch.Size([5])
    """

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        noises: tuple[float, ...],
        hidden: Count = 256,
        n_layers: Count = 3,
        head: str = "denoiser",
        *,
        scale: Positive = 1.0,
        spectral_norm: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(noises, head, math.prod(shape), scale)
        generator = source_of_weights(generator)
        self.shape = tuple(shape)
        widths = [self.n_pixels, *[hidden] * n_layers]
        layers = [
            linear(*sizes, generator, zero_bias=True) for sizes in pairwise(widths)
        ]
        self.layers = nn.ModuleList(layers)
        self.shifts = normal_weights(len(noises), hidden, generator=generator)
        self.last = linear(hidden, self.n_outputs, generator, zero_bias=True)
        self.spectral_norm = spectral_norm
        if spectral_norm:
            for layer in layers:
                bounded(layer, generator)

    def constructor_arguments(self) -> dict[str, Any]:
        """Sizes, noises, head, scale and norm."""
        return {
            "shape": self.shape,
            "noises": tuple(self.noises.tolist()),
            "hidden": self.shifts.shape[1],
            "n_layers": len(self.layers),
            "head": self.head,
            "scale": self.scale,
            "spectral_norm": self.spectral_norm,
        }

    def forward(
        self, x: Float[Tensor, "batch ..."], level: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Energies of states at their levels."""
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
        """Energies and their gradient in x, by hand."""
        check_shape("x", x, (None, *self.shape))
        here = self.at_levels(level)
        return here.energy(x), here.gradient(x)

    def at_levels(self, level: Int[Tensor, " batch"]) -> "_PerceptronAtLevels":
        """Return the energy at the levels of a batch, for chains that stay on them."""
        return _PerceptronAtLevels(self, level)


class _PerceptronAtLevels:
    """A perceptron at the levels of a batch: what they alone decide is made once."""

    # A chain of six steps on digits takes a third less CPU time than by autograd.
    # `tests/energies/test_images.py` holds values and gradients to it.

    @torch.no_grad()
    def __init__(
        self, perceptron: PerceptronEnergy, level: Int[Tensor, " batch"]
    ) -> None:
        self.perceptron, self.level = perceptron, level
        layers = [*perceptron.layers, perceptron.last]
        # A bounded weight is no parameter, but what comes of one.
        self.weights = [cast(Tensor, layer.weight).detach() for layer in layers]
        first, *biases = [layer.get_parameter("bias").detach() for layer in layers]
        self.biases = [first + perceptron.shifts[level], *biases]
        precision = perceptron.noises[level].square().reciprocal()
        self.precision = perceptron.scale * precision[:, None]

    @torch.no_grad()
    def energy(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        """Energies of states, without a graph."""
        flat = x.flatten(1)
        return self.perceptron.read(flat, self._inner(flat)[-1], self.level)

    @torch.no_grad()
    def gradient(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """Gradient of the energies in the states, by hand."""
        flat = x.flatten(1)
        *inner, output = self._inner(flat)
        back, direct = self.perceptron.slopes(flat, output, self.precision)
        for weight, h in zip(self.weights[:0:-1], reversed(inner), strict=True):
            # SiLU's slope at h times what comes back, in one pass.
            back = torch.ops.aten.silu_backward(back @ weight, h)
        return (back @ self.weights[0] + direct).reshape(x.shape)

    def _inner(self, flat: Tensor) -> list[Tensor]:
        """Give what enters the activation of each layer, and the output."""
        h = torch.addmm(self.biases[0], flat, self.weights[0].t())
        found = [h]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            h = torch.addmm(bias, nn.functional.silu(h), weight.t())
            found.append(h)
        return found


class ConvEnergy(_Headed):
    """A small residual network at two resolutions, and a head.

    Half of its work is done at half the resolution, where a pixel sees more of the
    image.

    Parameters
    ----------
    side
        Pixels a side, even; states are (batch, side, side).
    noises, head, scale, generator
        As for `PerceptronEnergy`.
    channels
        At full resolution; twice as many at half of it.
    n_blocks
        Residual blocks at each resolution.
    """

    @checked
    def __init__(
        self,
        side: Annotated[int, Range(low=4)],
        noises: tuple[float, ...],
        channels: Count = 16,
        n_blocks: Count = 2,
        head: str = "denoiser",
        *,
        scale: Positive = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(noises, head, side * side, scale)
        check_range("side % 2", side % 2, low=0, high=0, integer=True)
        generator = source_of_weights(generator)
        self.side = side
        wide, n_levels = 2 * channels, len(noises)
        self.first = conv(1, channels, 3, generator)
        self.fine = nn.ModuleList(
            _ResidualBlock(channels, n_levels, generator) for _ in range(n_blocks)
        )
        self.down = conv(channels, wide, 3, generator, stride=2)
        self.coarse = nn.ModuleList(
            _ResidualBlock(wide, n_levels, generator) for _ in range(n_blocks)
        )
        self.up = conv(wide, 4 * channels, 1, generator)
        self.mend = _ResidualBlock(channels, n_levels, generator)
        n_maps = {"denoiser": 1, "signed": 2, "linear": 1}[head]
        self.last = conv(channels, n_maps, 3, generator)

    def constructor_arguments(self) -> dict[str, Any]:
        """Sizes, noises, head and scale."""
        return {
            "side": self.side,
            "noises": tuple(self.noises.tolist()),
            "channels": self.first.out_channels,
            "n_blocks": len(self.fine),
            "head": self.head,
            "scale": self.scale,
        }

    def forward(
        self, x: Float[Tensor, "batch side side"], level: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Energies of images at their levels."""
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
        self.first = conv(channels, channels, 3, generator)
        self.second = conv(channels, channels, 3, generator, gain=0.1)
        self.shifts = normal_weights(n_levels, channels, 1, 1, generator=generator)

    def forward(self, h: Tensor, level: Tensor) -> Tensor:
        inner = self.first(nn.functional.silu(h)) + self.shifts[level]
        moved: Tensor = h + self.second(nn.functional.silu(inner))
        return moved
