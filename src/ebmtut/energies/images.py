r"""Energies of images at all noise levels: a small network of three heads.

It takes states and a level for each, E(x, t), as `ebmtut.energies.levels` has it.
A head is the last step from features to a number, with :math:`\bar\sigma_t` the noise
on level t:

- "denoiser": :math:`E = \lVert x - u(x, t) \rVert^2 / 2 \bar\sigma_t^2`. Never
  negative. Where u is the mean of the clean image given x, and changes slowly, the
  gradient is that of Tweedie's formula.
- "signed": :math:`E = (\lVert v(x, t) \rVert^2 - \lVert u(x, t) \rVert^2) /
  2 \bar\sigma_t^2`. Nothing keeps it from falling to minus infinity.
- "linear": :math:`E = w^\top h(x, t) / \bar\sigma_t^2`: falls at most linearly.

A ``scale`` multiplies the energy with any of them.
"""

import math
from itertools import pairwise
from typing import Annotated, Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ebmtut._layers import bounded, linear, normal_weights, source_of_weights
from ebmtut.checks import Count, OneOf, Positive, check_range, checked
from ebmtut.tensor_checks import check_shape

__all__ = ["PerceptronEnergy"]

HEADS = ("denoiser", "signed", "linear")


class PerceptronEnergy(nn.Module):
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

    noises: Tensor

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        noises: tuple[Positive, ...],
        hidden: Count = 256,
        n_layers: Count = 3,
        head: Annotated[str, OneOf(HEADS)] = "denoiser",
        *,
        scale: Positive = 1.0,
        spectral_norm: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_range("number of noises", len(noises), low=1, integer=True)
        self.register_buffer(
            "noises", torch.tensor(noises, dtype=torch.float32, device="cpu")
        )
        generator = source_of_weights(generator)
        self.shape, self.head, self.scale = tuple(shape), head, scale
        n_pixels = math.prod(shape)
        n_outputs = {"denoiser": n_pixels, "signed": 2 * n_pixels, "linear": 1}[head]
        widths = [n_pixels, *[hidden] * n_layers]
        layers = [
            linear(*sizes, generator, zero_bias=True) for sizes in pairwise(widths)
        ]
        self.layers = nn.ModuleList(layers)
        self.shifts = normal_weights(len(noises), hidden, generator=generator)
        self.last = linear(hidden, n_outputs, generator, zero_bias=True)
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
