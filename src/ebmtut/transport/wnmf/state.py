"""Configuration, initialisation and state of Wasserstein NMF."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import (
    Count,
    InputError,
    Natural,
    Positive,
    check_range,
    check_type,
    checked,
)
from ebmtut.tensor_checks import check_finite, check_shape
from ebmtut.transport.grid_cost import instances_innermost
from ebmtut.transport.wnmf.mirror_descent import AcceleratedDescent, accelerated_start

__all__ = ["WNMFConfig", "WNMFState", "as_measures", "mixtures", "wnmf_start"]


@checked
@dataclass(frozen=True)
class WNMFConfig:
    """How a dictionary is learned.

    Parameters
    ----------
    n_components, n_epochs
        K, and epochs in all.
    step_size
        gamma; the cost's unit is the image's longer side.
    accelerate
        Whether memberships take accelerated steps, as in the paper, which overshoot.
    membership_step_size
        Of the plain steps.
    temperature, n_hold
        T of the first epochs, and how many they are; 0 in the paper.
    slowness
        Epochs in which T falls by the paper's factor; 1 in the paper.
    shrink_steps
        Whether gamma falls along with T, as the sampler's moves do; not in the paper.
    n_average
        In so many epochs at the end, the model is repeatedly replaced by its mean.
        This damps its oscillations around potentials that lag behind it; 0 in the
        paper.
    average_every
        Epochs of each mean.
    batch_size
        Images between two updates; None for all, 1 for the paper's "sequential"
        updates.
    mixing_window, max_passes
        tau of the mixing criterion; most iterations of the oracle per update.
    """

    n_components: Count = 40
    n_epochs: Count = 500
    step_size: Positive = 2.0
    accelerate: bool = False
    membership_step_size: Positive = 100.0
    temperature: Positive = 1e-5
    n_hold: Natural = 100
    slowness: Positive = 4.0
    shrink_steps: bool = True
    n_average: Natural = 0
    average_every: Count = 40
    batch_size: Count | None = None
    mixing_window: Count = 5
    max_passes: Count = 10


@dataclass
class WNMFState:
    """Where the learning is; a copy of it is all that continues a run.

    Attributes
    ----------
    dictionary
        Components, each of mass 1.
    memberships
        ``x`` is beta, each row of mass 1.
    U
        Potentials of the last iteration.
    epoch
        Epochs done.
    mean
        Means of the model since it was last replaced by them, see `average_every`.
    value
        Mean of V(z) in the last epoch.
    n_passes
        Iterations that the last epoch took.
    """

    dictionary: Float[Tensor, "n_components height width"]
    memberships: AcceleratedDescent
    U: Float[Tensor, "n_images height width"]
    epoch: int = 0
    mean: tuple[Tensor, Tensor] | None = None
    value: float = math.nan
    n_passes: int = 0

    @property
    def reconstruction(self) -> Float[Tensor, "n_images height width"]:
        """Mixtures beta Psi, instances innermost in memory."""
        return mixtures(self.dictionary, self.memberships.x)

    def state_dict(self) -> dict[str, Any]:
        """Return all of it, as a checkpoint keeps it."""
        return vars(self) | {"memberships": tuple(self.memberships)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` returned in place of this state."""
        device = self.U.device
        vars(self).update(state_dict)
        self.dictionary, self.U = self.dictionary.to(device), self.U.to(device)
        memberships = (x.to(device) for x in self.memberships)
        self.memberships = AcceleratedDescent(*memberships)
        if self.mean is not None:
            self.mean = self.mean[0].to(device), self.mean[1].to(device)

    def check_fits(
        self, data: Float[Tensor, "n_images height width"], config: WNMFConfig
    ) -> None:
        """Require that this is a state of these data and this K."""
        n, *size = data.shape
        k = config.n_components
        for name, tensor, want in (
            ("dictionary", self.dictionary, (k, *size)),
            ("memberships", self.memberships.x, (n, k)),
            ("U", self.U, (n, *size)),
        ):
            if tuple(tensor.shape) != want or tensor.dtype != data.dtype:
                raise InputError(
                    f"state.{name} must have shape {want} and {data.dtype}, "
                    f"got {tuple(tensor.shape)} and {tensor.dtype}"
                )


def as_measures(
    images: Float[Tensor, "n_images height width"],
) -> Float[Tensor, "n_images height width"]:
    """Divide images by their mass, instances innermost in memory."""
    check_shape("images", images, (None, None, None))
    check_finite("images", images)
    mass = images.sum((1, 2), keepdim=True)
    if bool((images < 0).any()) or bool((mass == 0).any()):
        raise InputError(
            "images must be non-negative, and none of them all zero, got a least "
            f"pixel of {float(images.min()):g}, a least sum of {float(mass.min()):g}"
        )
    return instances_innermost(images / mass)


@checked
def wnmf_start(
    data: Float[Tensor, "n_images height width"],
    config: WNMFConfig,
    *,
    generator: torch.Generator,
) -> WNMFState:
    """Start from random images, each half spread out evenly, and equal memberships."""
    check_type("generator", generator, torch.Generator)
    n, height, width = data.shape
    check_range("n_components", config.n_components, high=n)
    order = torch.randperm(n, generator=generator, device=data.device)
    pick = order[: config.n_components]
    dictionary = 0.5 * data[pick].contiguous() + 0.5 / (height * width)
    beta = data.new_full((n, config.n_components), 1 / config.n_components)
    return WNMFState(dictionary, accelerated_start(beta), torch.zeros_like(data))


def mixtures(
    dictionary: Float[Tensor, "n_components height width"],
    beta: Float[Tensor, "n_images n_components"],
) -> Float[Tensor, "n_images height width"]:
    """Return beta Psi, instances innermost in memory."""
    _, height, width = dictionary.shape
    pixels = dictionary.flatten(1).T @ beta.T
    return pixels.view(height, width, len(beta)).permute(2, 0, 1)
