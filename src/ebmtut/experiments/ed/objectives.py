"""The two losses of the chapter's trainings, as `ebmtut.training.train` calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ebmtut.losses import (
    Bernoulli,
    PersistentChains,
    Perturbation,
    contrastive_divergence_loss,
    energy_discrepancy_loss,
)
from ebmtut.samplers import Sampler
from ebmtut.training import Loss


@runtime_checkable
class _Settings(Protocol):
    """What a recipe says of the discrepancy: M, w, and how many negatives learn."""

    @property
    def n_negatives(self) -> int: ...
    @property
    def stabilizer(self) -> float: ...
    @property
    def n_backward(self) -> int | None: ...


def flips(eps: float) -> Bernoulli:
    """Return ED-Bern's noise, sampled sparsely near 0 and 1."""
    return Bernoulli(eps, sparse=not 0.02 < eps < 0.98)


def discrepancy(perturbation: Perturbation, settings: _Settings) -> Loss:
    """Return the energy discrepancy of a perturbation."""

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        return energy_discrepancy_loss(
            energy,
            x,
            perturbation,
            n_negatives=settings.n_negatives,
            stabilizer=settings.stabilizer,
            n_backward=settings.n_backward,
            generator=generator,
        )

    return loss


def persistent(chains: PersistentChains, sampler: Callable[..., Sampler]) -> Loss:
    """Return contrastive divergence with persistent chains."""

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            x_model = chains.advance(sampler(energy), x, generator=generator)
        return contrastive_divergence_loss(energy, x, x_model)

    return loss
