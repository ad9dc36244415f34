"""Wasserstein NMF: images as mixtures of learned images, nearest in transport cost.

An epoch is three short computations: the Gibbs-OT oracle, started where it
stopped last time, gives every image's potentials U; these are the gradients
by which mirror descent moves the dictionary and the memberships; then the
temperature falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import trange

from ebmtut.checks import InputError, check_finite, check_range, check_shape
from ebmtut.transport.grid import (
    GridCost,
    grid_cost,
    grid_gibbs_pass,
    instances_innermost,
)
from ebmtut.transport.mirror_descent import (
    AcceleratedDescent,
    accelerated_start,
    accelerated_step,
    mirror_step,
)

__all__ = [
    "WNMFConfig",
    "WNMFState",
    "as_measures",
    "run_until_mixed",
    "wasserstein_nmf",
    "wnmf_epoch",
    "wnmf_start",
    "wnmf_temperature",
]

# Multiplicative steps never leave zero; this is small enough to carry no mass.
_FLOOR = 1e-12


@dataclass(frozen=True)
class WNMFConfig:
    """How a dictionary is learned.

    Parameters
    ----------
    n_components
        K.
    n_epochs
        Epochs in all.
    step_size
        gamma; the cost's unit is the image's longer side.
    accelerate
        Whether the memberships take accelerated steps of size gamma, as in
        the paper. Momentum overshoots where the potentials lag behind the
        model, so by default they take plain mirror steps.
    membership_step_size
        Of the plain steps.
    temperature
        T of the first epochs.
    n_hold
        Epochs before the cooling starts; 0 in the paper.
    slowness
        Epochs in which T falls by the paper's factor; 1 in the paper.
    shrink_steps
        Whether gamma falls along with T, so that the model never moves faster
        than the sampler, whose moves are of order T; it does not in the paper.
    batch_size
        Images between two updates; None for all of them. The paper's
        "sequential" updates are 1.
    mixing_window
        tau: the mixing criterion is looked at every so many iterations.
    max_passes
        Iterations of the oracle an update at the most.
    """

    n_components: int = 40
    n_epochs: int = 500
    step_size: float = 2.0
    accelerate: bool = False
    membership_step_size: float = 100.0
    temperature: float = 1e-5
    n_hold: int = 100
    slowness: float = 4.0
    shrink_steps: bool = True
    batch_size: int | None = None
    mixing_window: int = 5
    max_passes: int = 10

    def __post_init__(self) -> None:
        for name in ("n_components", "n_epochs", "mixing_window", "max_passes"):
            check_range(name, getattr(self, name), low=1, integer=True)
        check_range("n_hold", self.n_hold, low=0, integer=True)
        if self.batch_size is not None:
            check_range("batch_size", self.batch_size, low=1, integer=True)
        positive = ("step_size", "membership_step_size", "temperature", "slowness")
        for name in positive:
            check_range(name, getattr(self, name), low=0, include_low=False)


@dataclass
class WNMFState:
    """Where the learning is; `tensors` and `from_tensors` keep and restore it.

    Attributes
    ----------
    dictionary : Tensor
        Components, (K, height, width), each of mass 1.
    memberships : AcceleratedDescent
        ``x`` is beta, (n, K), each row of mass 1.
    U : Tensor
        Potentials of the last iteration, (n, height, width).
    epoch : int
        Epochs done.
    value, n_passes : float, int
        Mean of V(z) in the last epoch, and how many iterations it took.
    """

    dictionary: Tensor
    memberships: AcceleratedDescent
    U: Tensor
    epoch: int = 0
    value: float = math.nan
    n_passes: int = 0

    @property
    def reconstruction(self) -> Tensor:
        """Mixtures beta Psi, (n, height, width), instances innermost in memory."""
        return _mixtures(self.dictionary, self.memberships.x)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a checkpoint has to hold."""
        return {
            "dictionary": self.dictionary,
            **{f"beta.{k}": v for k, v in self.memberships._asdict().items()},
            "U": self.U.contiguous(),
            "epoch": torch.tensor(self.epoch),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> WNMFState:
        """Undo `tensors`."""
        memberships = AcceleratedDescent(
            tensors["beta.x"], tensors["beta.z"], tensors["beta.count"]
        )
        return cls(
            tensors["dictionary"],
            memberships,
            instances_innermost(tensors["U"]),
            int(tensors["epoch"]),
        )


def as_measures(images: Tensor) -> Tensor:
    """Divide images by their mass, instances innermost in memory.

    Parameters
    ----------
    images
        Non-negative, (n, height, width), none of them empty.
    """
    check_shape("images", images, (None, None, None))
    check_finite("images", images)
    mass = images.sum((1, 2), keepdim=True)
    if bool((images < 0).any()) or bool((mass == 0).any()):
        raise InputError("images must be non-negative, and none of them all zero")
    return instances_innermost(images / mass)


def wnmf_start(
    data: Tensor, config: WNMFConfig, *, generator: torch.Generator
) -> WNMFState:
    """Start from random images, each half spread out evenly, and equal memberships.

    Parameters
    ----------
    data
        Measures, (n, height, width), n >= K.
    config
        K.
    generator
        Chooses the images.
    """
    n, height, width = data.shape
    check_range("n_components", config.n_components, high=n)
    pick = torch.randperm(n, generator=generator)[: config.n_components]
    dictionary = 0.5 * data[pick].contiguous() + 0.5 / (height * width)
    even = data.new_full((n, config.n_components), 1 / config.n_components)
    return WNMFState(dictionary, accelerated_start(even), torch.zeros_like(data))


def wnmf_temperature(data: Tensor, config: WNMFConfig, epoch: int) -> float:
    """T of an epoch: held, then times 1 - sqrt(1 / (m + mbar)) an epoch.

    Parameters
    ----------
    data
        Measures; m is their number of pixels and mbar the mean number of
        those that carry mass.
    config
        T of the first epochs, and how many they are.
    epoch
        From 0.
    """
    m = data[0].numel()
    mbar = float((data > 0).sum((1, 2)).double().mean())
    factor = 1 - math.sqrt(1 / (m + mbar))
    n_cooled = max(0, epoch - config.n_hold) / config.slowness
    return float(config.temperature * factor**n_cooled)


def run_until_mixed(
    U: Tensor,
    p: Tensor,
    q: Tensor,
    cost: GridCost,
    temperature: float,
    *,
    window: int = 5,
    max_passes: int = 10,
    generator: torch.Generator,
) -> tuple[Tensor, float, int]:
    """Run Gibbs-OT at constant T until V(z) stops increasing (Section 5).

    Every tau iterations, V less its last value is set against 0.01 tau T V;
    V is here the mean over the images.

    Returns
    -------
    U, value, n_passes
        The potentials, V and how many iterations were made.
    """
    before = -math.inf
    for n_passes in range(1, max_passes + 1):
        duals = grid_gibbs_pass(U, p, q, cost, temperature, generator=generator)
        U = duals.U
        if n_passes % window == 0 or n_passes == max_passes:
            value = float(duals.value(p, q).mean())
            if value - before < 0.01 * window * temperature * value:
                break
            before = value
    return U, value, n_passes


def wnmf_epoch(
    state: WNMFState,
    data: Tensor,
    cost: GridCost,
    config: WNMFConfig,
    *,
    generator: torch.Generator,
) -> None:
    """Update potentials, dictionary and memberships in place, once for every image.

    Parameters
    ----------
    state
        Where the learning is.
    data
        Measures, (n, height, width).
    cost
        Of the grid.
    config
        Step sizes, temperature, the oracle's budget.
    generator
        Source of the oracle's randomness.

    Raises
    ------
    FloatingPointError
        If V is not finite, or below zero by more than 2 T m, the scale of its
        fluctuations: V exceeds the transport cost in expectation, so then the
        potentials have lost track of the model.
    """
    n = len(data)
    size = config.batch_size or n
    temperature = wnmf_temperature(data, config, state.epoch)
    shrink = temperature / config.temperature if config.shrink_steps else 1.0
    step_size = config.step_size * shrink
    values = []
    state.n_passes = 0
    for start in range(0, n, size):
        batch = slice(start, start + size)
        beta = AcceleratedDescent(*(part[batch] for part in state.memberships))
        U, value, n_passes = run_until_mixed(
            state.U[batch],
            _mixtures(state.dictionary, beta.x),
            data[batch],
            cost,
            temperature,
            window=config.mixing_window,
            max_passes=config.max_passes,
            generator=generator,
        )
        state.U[batch] = U
        state.n_passes += n_passes
        values.append(value * len(U))

        potentials = U.permute(1, 2, 0).flatten(0, 1)  # (m, batch), no copy
        flat = state.dictionary.flatten(1)
        slopes = (flat @ potentials).T  # <Psi_k, U_i>
        flat = mirror_step(flat, (potentials @ beta.x).T, step_size)
        state.dictionary = _floored(flat).view_as(state.dictionary)
        if config.accelerate:
            beta = accelerated_step(beta, slopes, step_size)
        else:
            x = mirror_step(beta.x, slopes, config.membership_step_size * shrink)
            beta = AcceleratedDescent(x, x, beta.count)
        for whole, part in zip(
            state.memberships,
            (_floored(beta.x), _floored(beta.z), beta.count),
            strict=True,
        ):
            whole[batch] = part
    state.value = sum(values) / n
    state.epoch += 1
    if not state.value > -2 * temperature * data[0].numel():
        raise FloatingPointError(
            f"Wasserstein NMF diverged in epoch {state.epoch}: V is {state.value}; "
            f"try a smaller step_size ({config.step_size}) or a higher temperature "
            f"({config.temperature})"
        )


def wasserstein_nmf(
    images: Tensor,
    config: WNMFConfig | None = None,
    *,
    cost: GridCost | None = None,
    state: WNMFState | None = None,
    on_epoch: Callable[[WNMFState], None] | None = None,
    progress: bool = False,
    generator: torch.Generator,
) -> WNMFState:
    """Learn images whose mixtures are near the given ones in transport cost.

    Parameters
    ----------
    images
        Non-negative, (n, height, width), float32 or float64.
    config
        How to learn.
    cost
        Squared Euclidean by default.
    state
        Where to go on from; with the generator's state of then, the run
        continues bit for bit.
    on_epoch
        Called after every epoch.
    progress
        Whether to show a progress bar.
    generator
        Source of randomness.

    Returns
    -------
    WNMFState

    Raises
    ------
    InputError
        If images are negative or empty, or fewer than K.
    FloatingPointError
        If the learning diverges; names the epoch.

    References
    ----------
    Ye, Wang and Li, A simulated annealing based inexact oracle for
    Wasserstein loss minimization, 2017, Section 6.2.
    """
    config = config or WNMFConfig()
    data = as_measures(images)
    cost = cost or grid_cost(*images.shape[1:], dtype=images.dtype)
    if state is None:
        state = wnmf_start(data, config, generator=generator)
    bar = trange(
        state.epoch, config.n_epochs, desc="Wasserstein NMF", disable=not progress
    )
    for _ in bar:
        wnmf_epoch(state, data, cost, config, generator=generator)
        bar.set_postfix(V=f"{state.value:.5f}", passes=state.n_passes, refresh=False)
        if on_epoch is not None:
            on_epoch(state)
    return state


def _mixtures(dictionary: Tensor, beta: Tensor) -> Tensor:
    """Return beta Psi as (n, height, width), instances innermost."""
    _, height, width = dictionary.shape
    pixels = dictionary.flatten(1).T @ beta.T
    return pixels.view(height, width, len(beta)).permute(2, 0, 1)


def _floored(x: Tensor) -> Tensor:
    """Rows of mass 1 with no entry at zero."""
    x = x.clamp(min=_FLOOR)
    return x / x.sum(-1, keepdim=True)
