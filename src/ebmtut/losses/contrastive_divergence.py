"""Contrastive divergence, CD-k and persistent.

Source: Hinton (2002); Tieleman (2008).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, Probability, checked
from ebmtut.energies import EnergyFunction, energies_of
from ebmtut.random import check_generator
from ebmtut.samplers import Sampler, run_chain
from ebmtut.tensor_checks import check_bits

__all__ = ["PersistentChains", "contrastive_divergence_loss"]


@checked
def contrastive_divergence_loss(
    energy: EnergyFunction,
    x: Float[Tensor, "batch n_sites"],
    x_model: Float[Tensor, "n_samples n_sites"],
) -> Float[Tensor, ""]:
    """Mean energy of data minus mean energy of model samples.

    Its gradient is the (approximate) gradient of the negative log-likelihood.

    Parameters
    ----------
    x_model
        Samples of the model: from a short chain (CD-k) or `PersistentChains` (PCD).

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import contrastive_divergence_loss
    >>> data, samples = torch.ones(4, 3), torch.zeros(4, 3)
    >>> contrastive_divergence_loss(lambda x: x.sum(1), data, samples)
    tensor(3.)
    """
    check_bits("x", x, least=1)
    check_bits("x_model", x_model, x.shape[1], least=1)
    u = energies_of(energy, torch.cat([x, x_model]))
    return u[: len(x)].mean() - u[len(x) :].mean()


class PersistentChains:
    """Chains that go on where the last update left them (PCD).

    Parameters
    ----------
    x, n_steps
        Initial states, and steps of the sampler per update.
    restart_probability
        Probability that a chain starts afresh from the data of the update.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.energies import LatticeIsing
    >>> from ebmtut.losses import PersistentChains
    >>> from ebmtut.random import make_generator
    >>> from ebmtut.samplers import gibbs
    >>> chains = PersistentChains(torch.zeros(20, 9), n_steps=9)
    >>> data, sampler = torch.zeros(50, 9), gibbs(LatticeIsing(3, 0.2))
    >>> chains.advance(sampler, data, generator=make_generator(0)).shape
    torch.Size([20, 9])
    """

    @checked
    def __init__(
        self,
        x: Float[Tensor, "n_chains n_sites"],
        *,
        n_steps: Count,
        restart_probability: Probability = 0.0,
    ) -> None:
        check_bits("x", x)
        self.x = x.clone()
        self.n_steps = n_steps
        self.restart_probability = restart_probability

    def advance(
        self,
        sampler: Sampler,
        data: Float[Tensor, "batch n_sites"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, "n_chains n_sites"]:
        """Move every chain ``n_steps``, in place, and return the new states."""
        n_chains, n_sites = self.x.shape
        restarts = self.restart_probability > 0
        check_bits("data", data, n_sites, least=1 if restarts else 0)
        check_generator(generator, self.x.device)
        x = self.x
        if restarts:
            of: Any = {"generator": generator, "device": self.x.device}
            draw = torch.rand(n_chains, dtype=torch.float32, **of)
            pick = torch.randint(len(data), (n_chains,), **of)
            restart = (draw < self.restart_probability)[:, None]
            x = torch.where(restart, data[pick], x)
        result = run_chain(sampler, x, self.n_steps, generator=generator)
        # In place, so that a checkpoint can hold the very tensor.
        return self.x.copy_(result.x_final.detach())
