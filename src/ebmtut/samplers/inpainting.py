"""Data of which a part is known, completed by progressive sampling.

Chains move some coordinates only, and see the others as the forward chain left them.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import InputError, check_counts, checked
from ebmtut.energies import LevelEnergy
from ebmtut.noise import NoiseLevels
from ebmtut.random import normal
from ebmtut.samplers.conditional import ConditionalChain
from ebmtut.samplers.langevin import normals
from ebmtut.samplers.progressive import descend
from ebmtut.tensor_checks import check_shape, check_vectors

__all__ = ["inpaint"]


@torch.no_grad()
@checked
def inpaint(
    energy: LevelEnergy,
    noise: NoiseLevels,
    data: Float[Tensor, "batch ..."],
    free: Float[Tensor, "batch ..."],
    chain: ConditionalChain,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "batch ..."]:
    """Complete data of which some coordinates are known.

    On every level the chain of the conditional distribution moves only what is unknown
    (Gao et al., 2021, Section 4.1).

    Parameters
    ----------
    energy, noise, chain
        As for `progressive_samples`; with at least one step.
    data, free
        The states, and a mask: 1 where a coordinate is to be found.

    Returns
    -------
    samples
        Like ``data``, of level 0, with the known coordinates unchanged.
    """
    check_vectors("data", data)
    check_shape("free", free, tuple(data.shape))
    outside = free[(free != 0) & (free != 1)]
    if outside.numel():
        raise InputError(f"free must hold only 0 and 1, got {outside[0].item():g}")
    check_counts(n_steps=chain.n_steps)
    # What is free carries no information: it is noise from the start.
    blank = torch.where(free > 0, torch.zeros_like(data), data)
    zeros = torch.zeros(len(data), dtype=torch.long, device=data.device)
    known = [
        noise.signals[0] * blank + noise.noises[0] * normal(data, generator=generator)
    ]
    for t in range(noise.n_levels):
        known.append(noise.step(known[-1], zeros + t, generator=generator))
    start = torch.where(free > 0, normal(data, generator=generator), known[-1])
    draw = normals(generator)
    levels = descend(
        energy, noise, start, chain, draw, known=torch.stack(known), free=free
    )
    return torch.where(free > 0, levels[0], data)
