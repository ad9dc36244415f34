"""Negatives that networks of bits learn from: flips of bits, and persistent chains."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ebmtut import losses
from ebmtut.samplers import Sampler
from ebmtut.training import Loss


def flips(eps: float) -> losses.Bernoulli:
    """Return ED-Bern's noise, sampled sparsely near 0 and 1."""
    return losses.Bernoulli(eps, sparse=not 0.02 < eps < 0.98)


def persistent(
    chains: losses.PersistentChains, sampler: Callable[..., Sampler]
) -> Loss:
    """Return contrastive divergence with persistent chains."""

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            x_model = chains.advance(sampler(energy), x, generator=generator)
        return losses.contrastive_divergence_loss(energy, x, x_model)

    return loss
