r"""Energies of all noise levels, and the conditional distributions between them.

An energy of levels E(x, t) gives the distributions :math:`p_t(x) \propto e^{-E(x, t)}`
of the states of a forward chain (`ebmtut.noise.NoiseLevels`), all in the states' own
units. Given the state one level up, Bayes' rule adds a quadratic term,

.. math:: p(x_t \mid x_{t+1}) \propto \exp\Bigl(-E(x_t, t)
   - \frac{\lVert x_{t+1} - a\, x_t \rVert^2}{2 \sigma^2}\Bigr),
   \qquad a = \sqrt{1 - \sigma^2}, \quad \sigma = \sigma_{t+1},

which holds :math:`x_t` near :math:`x_{t+1} / a`: where sigma is small, nearly all
mass is in one mode. The paper writes the same distribution in :math:`y_t = a\, x_t`.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ebmtut._layers import linear, source_of_weights
from ebmtut.checks import Count, InputError, Natural, Positive, checked
from ebmtut.energies.base import EnergyFunction, energies_and_gradients, energies_of
from ebmtut.energies.mlp import silu_and_slope
from ebmtut.noise import NoiseLevels, check_levels, rows
from ebmtut.tensor_checks import check_shape, check_vectors

__all__ = ["FourierEnergy", "LevelEnergy", "at_level", "conditional_energy"]

#: States (batch, ...) and a level for each, (batch,), to energies (batch,).
LevelEnergy = Callable[[Tensor, Tensor], Tensor]


@runtime_checkable
class OffersGradient(Protocol):
    """An energy of levels that knows its gradient without autograd."""

    def __call__(self, x: Tensor, level: Tensor) -> Tensor:
        """Energies."""
        ...

    def energy_and_gradient(self, x: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
        """Energies and their gradient in x, without a graph."""
        ...


@runtime_checkable
class AtLevels(Protocol):
    """An energy at the levels of a batch: what they alone decide is made once."""

    def energy(self, x: Tensor) -> Tensor:
        """Energies, without a graph."""
        ...

    def gradient(self, x: Tensor) -> Tensor:
        """Their gradient in x, without a graph."""
        ...


@runtime_checkable
class OffersLevels(Protocol):
    """An energy that prepares for many gradients at the same levels."""

    def at_levels(self, level: Tensor) -> AtLevels:
        """The energy at these levels, with its weights as they are now."""
        ...


def energy_and_gradient(
    energy: LevelEnergy, x: Tensor, level: Tensor
) -> tuple[Tensor, Tensor]:
    """Energies and their gradient in x: by autograd, or as the energy offers them."""
    if isinstance(energy, OffersGradient):
        return energy.energy_and_gradient(x, level)
    return energies_and_gradients(lambda z: energy(z, level), x)


@checked
def at_level(energy: LevelEnergy, level: Natural) -> EnergyFunction:
    """Energy of a single level, as samplers and metrics take it.

    Parameters
    ----------
    energy
        Of all levels.
    """

    def one(x: Tensor) -> Tensor:
        return energy(x, torch.full((len(x),), level, device=x.device))

    return one


@checked
def conditional_energy(
    energy: LevelEnergy,
    noise: NoiseLevels,
    above: Float[Tensor, "batch ..."],
    level: Int[Tensor, " batch"],
) -> EnergyFunction:
    r"""Energy of :math:`x_t` given :math:`x_{t+1}` (Gao et al., Equations 5 and 16).

    Parameters
    ----------
    energy
        Of all levels.
    above, level
        The states :math:`x_{t+1}`, and t of each row, 0 to T - 1.
    """
    return ConditionalEnergy(energy, noise, above, level)


class _ByCalls:
    """Any energy at the levels of a batch."""

    def __init__(self, energy: LevelEnergy, level: Tensor) -> None:
        self.of_levels, self.level = energy, level

    @torch.no_grad()
    def energy(self, x: Tensor) -> Tensor:
        return energies_of(lambda z: self.of_levels(z, self.level), x)

    def gradient(self, x: Tensor) -> Tensor:
        return energy_and_gradient(self.of_levels, x, self.level)[1]


class ConditionalEnergy:
    """Energy of one level, and the quadratic term of the state above.

    Make a new one for each chain: what does not change along it is made once.
    """

    def __init__(
        self, energy: LevelEnergy, noise: NoiseLevels, above: Tensor, level: Tensor
    ) -> None:
        check_vectors("above", above)
        check_shape("level", level, (len(above),))
        check_levels(level, noise.n_levels - 1)
        self.of_levels, self.above, self.level = energy, above, level
        self.shrinkage = rows(noise.shrinkages, level, above)
        # Where sigma is 1 nothing is known of x_t: the quadratic term is constant.
        self.precision = 1 / rows(noise.sigmas, level, above) ** 2
        # The gradient of the quadratic term is slope * x - pull.
        self.slope = self.precision * self.shrinkage**2
        self.pull = self.precision * self.shrinkage * above

    @cached_property
    def prepared(self) -> AtLevels:
        """The energy at these levels, with its weights as they are now."""
        of_levels = self.of_levels
        return (
            of_levels.at_levels(self.level)
            if isinstance(of_levels, OffersLevels)
            else _ByCalls(of_levels, self.level)
        )

    def __call__(self, x: Tensor) -> Tensor:
        return self.of_levels(x, self.level) + self._quadratic(x)

    def energy(self, x: Tensor) -> Tensor:
        """Energies, without a graph."""
        return self.prepared.energy(x) + self._quadratic(x)

    def gradient(self, x: Tensor) -> Tensor:
        """Their gradient in x, without a graph."""
        return self.prepared.gradient(x) + self._quadratic_gradient(x)

    def energy_and_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both at once, without a graph."""
        value, gradient = energy_and_gradient(self.of_levels, x, self.level)
        return value + self._quadratic(x), gradient + self._quadratic_gradient(x)

    def _quadratic(self, x: Tensor) -> Tensor:
        misfit = (self.above - self.shrinkage * x) ** 2 * self.precision
        return 0.5 * misfit.flatten(1).sum(1)

    def _quadratic_gradient(self, x: Tensor) -> Tensor:
        return torch.addcmul(-self.pull, self.slope, x)


class FourierEnergy(nn.Module):
    r"""A small network for all levels of vectors: Fourier features beside a Gaussian.

    E(x, t) = |x|^2 / 2 + net(features(x), t), of the sine and cosine of random
    projections of x, which let a small network draw sharp edges (Tancik et al., 2020).
    They are bounded, so that the Gaussian keeps the distribution in place. The last
    layer starts at zero.

    Parameters
    ----------
    n_dims, n_levels
        Length of a state; T, for levels 0 to T - 1.
    hidden, n_layers
        Units of each hidden layer, and number of hidden layers.
    n_features, bandwidth
        Random projections, and the standard deviation of their frequencies.
    generator
        Source of weights and frequencies; None takes a fresh one of seed 0.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import FourierEnergy
    >>> from ebmtut.random import make_generator
    >>> energy = FourierEnergy(2, n_levels=6, generator=make_generator(0))
    >>> energy(torch.zeros(5, 2), torch.zeros(5, dtype=torch.long)).shape
    torch.Size([5])
    """

    frequencies: Tensor

    @checked
    def __init__(
        self,
        n_dims: Count,
        n_levels: Count,
        hidden: Count = 128,
        n_layers: Count = 3,
        n_features: Count = 32,
        bandwidth: Positive = 4.0,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        generator = source_of_weights(generator, anywhere=True)
        self.n_dims, self.n_levels = n_dims, n_levels
        directions = torch.randn(
            n_dims,
            n_features,
            generator=generator,
            device=generator.device,
            dtype=torch.float32,
        )
        self.register_buffer("frequencies", bandwidth * directions)
        self.first = linear(2 * n_features, hidden, generator)
        self.inner = nn.ModuleList(
            linear(hidden, hidden, generator) for _ in range(n_layers - 1)
        )
        # One shift a level and layer: the embedding of few levels is a table.
        shifts = torch.zeros(
            n_levels, n_layers, hidden, device=generator.device, dtype=torch.float32
        )
        self.shifts = nn.Parameter(shifts)
        self.last = linear(hidden, 1, generator)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def constructor_arguments(self) -> dict[str, Any]:
        """Sizes; the frequencies, which the bandwidth is of, are a buffer."""
        n_levels, n_layers, hidden = self.shifts.shape
        return {
            "n_dims": self.n_dims,
            "n_levels": n_levels,
            "hidden": hidden,
            "n_layers": n_layers,
            "n_features": self.frequencies.shape[1],
        }

    def forward(
        self, x: Float[Tensor, "batch n_dims"], level: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Energies of states at their levels."""
        return 0.5 * (x**2).sum(1) + self.network(x, level)

    def network(
        self, x: Float[Tensor, "batch n_dims"], level: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """What is learned: the energies less those of the Gaussian."""
        self._check(x)
        phase = x @ self.frequencies
        shifts = self.shifts[level].unbind(1)
        h = self.first(torch.cat([phase.sin(), phase.cos()], dim=1)) + shifts[0]
        for layer, shift in zip(self.inner, shifts[1:], strict=True):
            h = layer(nn.functional.silu(h)) + shift
        out: Tensor = self.last(nn.functional.silu(h)).squeeze(-1)
        return out

    @torch.no_grad()
    def energy_and_gradient(
        self, x: Float[Tensor, "batch n_dims"], level: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch n_dims"]]:
        """Energies and their gradient in x, by hand."""
        # A chain of nine steps in the plane takes a fifth less CPU time than by
        # autograd, to which `test_the_gradient_by_hand_is_that_of_autograd` holds it.
        self._check(x)
        phase = x @ self.frequencies
        sine, cosine = phase.sin(), phase.cos()
        shifts = self.shifts[level].unbind(1)
        h = self.first(torch.cat([sine, cosine], dim=1)) + shifts[0]
        slopes = []
        for layer, shift in zip(
            [*self.inner, self.last], [*shifts[1:], 0.0], strict=True
        ):
            out, slope = silu_and_slope(h)
            slopes.append(slope)
            h = layer(out) + shift
        g = self.last.weight * slopes.pop()
        for layer in reversed(self.inner):
            g = (g @ layer.get_parameter("weight")) * slopes.pop()
        to_sine, to_cosine = (g @ self.first.weight).chunk(2, dim=1)
        slope = (to_sine * cosine - to_cosine * sine) @ self.frequencies.T
        return 0.5 * (x**2).sum(1) + h.squeeze(-1), x + slope

    def _check(self, x: Tensor) -> None:
        check_shape("x", x, (None, self.n_dims))
        if x.dtype != self.frequencies.dtype:
            raise InputError(
                f"x must have the dtype of the weights, {self.frequencies.dtype}, "
                f"got {x.dtype}"
            )
