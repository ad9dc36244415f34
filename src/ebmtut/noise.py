r"""A forward chain that turns data into white noise, level by level.

Level 0 is data (perhaps with a little noise), and

.. math:: x_{t+1} = \sqrt{1 - \sigma_{t+1}^2}\, x_t + \sigma_{t+1}\, \epsilon,
   \qquad t = 0, \dots, T - 1,

so that data of unit variance keeps it on all levels: a walk along a sphere from
the data to the noise. Source: Gao et al., "Learning energy-based models by
diffusion recovery likelihood", ICLR 2021, Section 3.5.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ebmtut.checks import (
    BelowOne,
    Count,
    InputError,
    Positive,
    Range,
    check_range,
    checked,
)
from ebmtut.random import normal
from ebmtut.tensor_checks import check_vectors, refuse

__all__ = ["NoiseLevels", "ddpm_noise", "geometric_noise", "linear_noise"]


@checked
@dataclass(frozen=True)
class NoiseLevels:
    r"""The noise of every step of a forward chain.

    Parameters
    ----------
    sigmas
        :math:`\sigma_1, \dots, \sigma_T` in (0, 1], none below the one before. Where
        the last is 1, the state above says nothing about :math:`x_{T-1}`.
    data_sigma
        :math:`x_0 = \sqrt{1 - s^2}\, \mathrm{data} + s\,\epsilon`, s in [0, 1).
    """

    sigmas: tuple[float, ...]
    data_sigma: BelowOne = 0.0

    def __post_init__(self) -> None:
        check_range("number of sigmas", len(self.sigmas), low=1, integer=True)
        for t, sigma in enumerate(self.sigmas, 1):
            check_range(f"sigma_{t}", sigma, low=0, high=1, include_low=False)
        for t in range(1, self.n_levels):
            if self.sigmas[t] < self.sigmas[t - 1]:
                raise InputError(
                    f"sigmas must not decrease, got {self.sigmas[t]:g} after "
                    f"{self.sigmas[t - 1]:g} at step {t + 1}"
                )

    @property
    def n_levels(self) -> int:
        """T: how many levels below white noise have an energy."""
        return len(self.sigmas)

    @cached_property
    def shrinkages(self) -> tuple[float, ...]:
        r""":math:`a_t = \sqrt{1 - \sigma_t^2}` for t = 1, ..., T."""
        return tuple(math.sqrt(1.0 - sigma**2) for sigma in self.sigmas)

    @cached_property
    def signals(self) -> tuple[float, ...]:
        """How much of the data is left on levels 0, ..., T."""
        left = [math.sqrt(1.0 - self.data_sigma**2)]
        for shrinkage in self.shrinkages:
            left.append(left[-1] * shrinkage)
        return tuple(left)

    @cached_property
    def noises(self) -> tuple[float, ...]:
        r""":math:`\bar\sigma_t`: how much noise is on levels 0, ..., T."""
        return tuple(math.sqrt(1.0 - signal**2) for signal in self.signals)

    def perturb(
        self,
        data: Float[Tensor, "batch ..."],
        level: Int[Tensor, " batch"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, "batch ..."]:
        """Sample states of given levels, 0 to T, from data at once."""
        check_vectors("data", data)
        check_levels(level, self.n_levels)
        signal = rows(self.signals, level, data)
        noise = rows(self.noises, level, data)
        return signal * data + noise * normal(data, generator=generator)

    def step(
        self,
        x: Float[Tensor, "batch ..."],
        level: Int[Tensor, " batch"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, "batch ..."]:
        """Sample the state one level up; ``level`` is t of each row, 0 to T - 1."""
        check_vectors("x", x)
        check_levels(level, self.n_levels - 1)
        shrinkage = rows(self.shrinkages, level, x)
        sigma = rows(self.sigmas, level, x)
        return shrinkage * x + sigma * normal(x, generator=generator)


@checked
def linear_noise(
    n_levels: Count,
    first: Annotated[float, Range(0, 1, include_low=False)] = 1e-4,
    last: float = 2e-2,
    data_sigma: float = 0.0,
) -> NoiseLevels:
    r"""Let :math:`\sigma_t^2` grow by equal differences, as the paper's settings.

    Parameters
    ----------
    n_levels, first, last
        T, :math:`\sigma_1^2` and :math:`\sigma_T^2`; by default of Ho et al. (2020).
    """
    check_range("last", last, low=first, high=1)
    rise = (last - first) / max(n_levels - 1, 1)
    variances = [first + rise * t for t in range(n_levels - 1)] + [last]
    return NoiseLevels(tuple(math.sqrt(v) for v in variances), data_sigma)


@checked
def ddpm_noise(n_levels: Annotated[int, Range(2, 500)] = 6) -> NoiseLevels:
    r"""Cut the 1000 steps of denoising diffusion into few, as the paper's code does.

    The variances of Ho et al. (2020) rise from 1e-4 to 0.02. Level t < T is the state
    after step ``1 + t * (1000 // (2 (T - 1)))`` of them; the code makes the last level
    unconditional, a last sigma of 1.
    """
    keep = (
        torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64, device="cpu")
        .neg()
        .log1p()
        .cumsum(0)
    )
    stride = 1000 // (2 * (n_levels - 1))
    logs = keep[torch.arange(n_levels, device="cpu") * stride]
    variances = -torch.expm1(logs.diff())
    sigmas = tuple(variances.sqrt().tolist())
    return NoiseLevels((*sigmas, 1.0), math.sqrt(-math.expm1(float(logs[0]))))


@checked
def geometric_noise(
    n_levels: Annotated[int, Range(low=2)],
    first: Positive = 0.2,
    last: float = 10.0,
    *,
    noisy_data: bool = True,
) -> NoiseLevels:
    r"""Let the ratio of noise to signal grow by equal factors from level to level.

    Parameters
    ----------
    first, last
        Ratios of noise and signal on level 0, or 1 for noiseless data, and on level T.

    Examples
    --------
    >>> from ebmtut.noise import geometric_noise
    >>> geometric_noise(4).n_levels
    4
    """
    check_range("last", last, low=first, include_low=False)
    n_ratios = n_levels + 1 if noisy_data else n_levels
    growth = (last / first) ** (1.0 / (n_ratios - 1))
    ratios = [first * growth**k for k in range(n_ratios)]
    # At a noise-to-signal ratio r the signal has 1 / (1 + r^2) of the variance.
    left = [1.0 / (1.0 + ratio**2) for ratio in ratios]
    if not noisy_data:
        left = [1.0, *left]
    sigmas = tuple(math.sqrt(1.0 - left[t + 1] / left[t]) for t in range(n_levels))
    return NoiseLevels(sigmas, math.sqrt(1.0 - left[0]))


def check_levels(level: Tensor, highest: int) -> None:
    """Refuse levels that are no integers in 0, ..., highest."""
    if level.is_floating_point() or level.dtype == torch.bool:
        raise InputError(f"level must be integers, got {level.dtype}")
    outside = (level < 0) | (level > highest)

    def message() -> str:
        return f"level must lie in [0, {highest}], got {int(level[outside][0])}"

    refuse(outside, message)


def rows(
    values: tuple[float, ...], level: Int[Tensor, " batch"], like: Tensor
) -> Tensor:
    """Each row's value of its level, shaped so that it multiplies ``like``."""
    table = constants(values, like.dtype, like.device)
    return table[level].reshape(-1, *[1] * (like.dim() - 1))


@lru_cache(maxsize=512)
def constants(
    values: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """A table of numbers on a device, sent there once; never change it in place."""
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)
