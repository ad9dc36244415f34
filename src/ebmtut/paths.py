"""Annealing paths, from a distribution that is easy to sample to the target.

A path maps a time t in [0, 1] to an energy. In contrast to a schedule, which maps a
step to a number, it also has a derivative in time and an initial distribution.
"""

import math
from typing import Annotated

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from ebmtut.checks import (
    Count,
    InputError,
    Natural,
    OneOf,
    Probability,
    Range,
    check_range,
    check_type,
    checked,
    shown,
)
from ebmtut.energies import Energy, EnergyFunction, energies_of
from ebmtut.neighbors import neighbor_log_ratios, taylor_log_ratios
from ebmtut.random import bernoulli
from ebmtut.tensor_checks import check_finite, check_shape, refuse

__all__ = ["AnnealingPath", "BasePath", "PathEnergy"]

#: A time: one for all states, or one a state.
Time = float | Float[Tensor, " batch"]


@checked
class PathEnergy:
    """The energy at one time of a path, as any sampler takes it.

    Parameters
    ----------
    target, strength
        Energy at the path's end, and its factor, the time on a linear path.
    """

    def __init__(self, target: EnergyFunction, strength: float) -> None:
        self.target = target
        self.strength = strength
        if hasattr(target, "flip_log_ratios"):
            self.flip_log_ratios = self._flip_log_ratios

    def __call__(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Energies of a batch of states."""
        return self.strength * self.target(x)

    def _flip_log_ratios(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        ratios: Tensor = self.target.flip_log_ratios(x)  # type: ignore[attr-defined]
        return self.strength * ratios


class AnnealingPath:
    """Geometric path from the uniform distribution: p_t proportional to exp(-t E).

    The linear schedule of Ou, Zhang and Li (2025, Section 3) with a uniform eta, whose
    constant is dropped: log Z_0 = n_sites log n_states, and the time derivative is -E.

    Parameters
    ----------
    target
        Energy at t = 1.
    n_sites, n_states
        Sites, None takes them from the energy, and states of a site.
    ratios
        "exact" log-ratios, or for bits "taylor": by one gradient (Equation 29).

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.paths import AnnealingPath
    >>> path = AnnealingPath(LatticeIsing(3, 0.1))
    >>> path.log_partition_start  # 9 log 2, of uniform bits
    6.238324625039508
    """

    @checked
    def __init__(
        self,
        target: EnergyFunction,
        n_sites: Count | None = None,
        *,
        n_states: Annotated[int, Range(low=2)] = 2,
        ratios: Annotated[str, OneOf(("exact", "taylor"))] = "exact",
    ) -> None:
        if n_sites is None:
            if not isinstance(target, Energy):
                raise InputError(
                    "n_sites must be given where target is no Energy, got None and "
                    f"{shown(target)}"
                )
            n_sites = target.n_sites
        elif isinstance(target, Energy) and n_sites != target.n_sites:
            raise InputError(f"n_sites must be {target.n_sites}, got {n_sites}")
        self.target = target
        self.n_sites = n_sites
        self.n_states = n_states
        if ratios == "taylor" and n_states != 2:
            raise InputError(f"n_states must be 2 for Taylor ratios, got {n_states}")
        self.ratios = ratios

    @property
    def log_partition_start(self) -> float:
        """log Z_0, of the uniform distribution with energy 0."""
        return self.n_sites * math.log(self.n_states)

    @checked
    def at(self, t: Probability) -> PathEnergy:
        """Energy at one time, for samplers."""
        return PathEnergy(self.target, float(t))

    def log_density(
        self, x: Float[Tensor, "batch n_sites"], t: Time
    ) -> Float[Tensor, " batch"]:
        """Unnormalised log-probability -t E(x)."""
        check_time(t)
        return t * self.time_derivative(x)

    def time_derivative(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, " batch"]:
        """Derivative of the unnormalised log-probability in t: -E(x)."""
        check_shape("x", x, (None, self.n_sites))
        return -energies_of(self.target, x)

    def log_ratios(
        self,
        x: Float[Tensor, "batch n_sites"],
        t: Time,
        sites: Integer[Tensor, " n"] | None = None,
    ) -> Tensor:
        """Log p_t(y) - log p_t(x) of all one-site neighbours y.

        Parameters
        ----------
        sites
            Indices where they are needed, None for everywhere.

        Returns
        -------
        log_ratios
            As `neighbor_log_ratios` gives them.
        """
        check_time(t)
        check_shape("x", x, (None, self.n_sites))
        if self.ratios == "taylor":
            ratios = taylor_log_ratios(self.target, x)
        else:
            ratios = neighbor_log_ratios(
                self.target, x, n_states=self.n_states, sites=sites
            )
        if isinstance(t, Tensor):
            t = t.reshape(-1, *[1] * (ratios.ndim - 1))
        return t * ratios

    @checked
    def sample_start(
        self,
        n: Natural,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> Float[Tensor, "n n_sites"]:
        """Sample p_0, the uniform distribution."""
        check_type("generator", generator, torch.Generator)
        return torch.randint(
            self.n_states,
            (n, self.n_sites),
            generator=generator,
            device=generator.device,
        ).to(dtype)


class BasePath:
    """Geometric path from a base of independent bits to the target.

    The unnormalised p_t is exp(-(1 - t) E_0 - t E) with E_0(x) = - x . logits. A base
    with the data's means is nearer to a learned model, so that the log-weights vary
    less.
    """

    @checked
    def __init__(
        self, target: EnergyFunction, base_logits: Float[Tensor, " n_sites"]
    ) -> None:
        check_finite("base_logits", base_logits)
        self.target = target
        self.base_logits = base_logits
        self.n_sites = len(base_logits)

    @property
    def log_partition_start(self) -> float:
        """log Z_0, of the base without its constant."""
        return float(nn.functional.softplus(self.base_logits.double()).sum())

    @checked
    def at(self, t: Probability) -> EnergyFunction:
        """Energy at one time, for samplers."""

        def energy(x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
            return t * self.target(x) - (1 - t) * (x @ self.base_logits)

        return energy

    def time_derivative(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, " batch"]:
        """Derivative of the unnormalised log-probability in t: E_0(x) - E(x)."""
        check_shape("x", x, (None, self.n_sites))
        return -energies_of(self.target, x) - x @ self.base_logits

    @checked
    def sample_start(
        self, n: Natural, *, generator: torch.Generator
    ) -> Float[Tensor, "n n_sites"]:
        """Sample the base."""
        return bernoulli(self.base_logits.sigmoid().expand(n, -1), generator=generator)


def check_time(t: Time) -> None:
    """Refuse a time outside [0, 1], or none."""
    if isinstance(t, Tensor):

        def message() -> str:
            low, high = (float(v) for v in t.aminmax())
            return f"t must lie in [0, 1], got [{low:g}, {high:g}]"

        refuse(~((t >= 0) & (t <= 1)), message)
    else:
        check_range("t", t, low=0, high=1)
