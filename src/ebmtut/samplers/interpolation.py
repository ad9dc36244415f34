"""Spherical interpolation between two progressive samples.

A sample is a function of standard normals: normals between those of two runs give a
sample between theirs.
"""

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Range, checked
from ebmtut.energies import LevelEnergy
from ebmtut.noise import NoiseLevels
from ebmtut.random import check_generator, normal
from ebmtut.samplers.conditional import ConditionalChain
from ebmtut.samplers.langevin import Draw
from ebmtut.samplers.progressive import descend

__all__ = ["interpolate"]


@torch.no_grad()
@checked
def interpolate(
    energy: LevelEnergy,
    noise: NoiseLevels,
    like: Float[Tensor, "batch ..."],
    chain: ConditionalChain,
    n_points: Annotated[int, Range(low=2)],
    *,
    generators: tuple[torch.Generator, torch.Generator],
) -> Float[Tensor, "n_points batch ..."]:
    """Samples of level 0 between two runs, along arcs of their noise.

    All standard normals of a run are turned from the first run's into the second's:
    cos(angle) e_0 + sin(angle) e_1 (Gao et al., 2021, Section 4.1), also that of an
    acceptance test.

    Parameters
    ----------
    energy, noise, chain
        As for `progressive_samples`.
    like, n_points
        Whose shape and dtype samples have; samples of an arc, with its ends.
    generators
        Of the two runs, not advanced: `progressive_samples` with one gives the same
        end.
    """
    for generator in generators:
        check_generator(generator, like.device)
    samples = []
    for k in range(n_points):
        angle = torch.tensor(
            k / (n_points - 1) * torch.pi / 2, dtype=torch.float64, device="cpu"
        )
        # The cosine of a rounded quarter turn is not quite 0.
        weights = (0.0, 1.0) if k == n_points - 1 else (angle.cos(), angle.sin())
        twins = [generator.clone_state() for generator in generators]
        draw = _between(twins[0], twins[1], float(weights[0]), float(weights[1]))
        samples.append(descend(energy, noise, draw(like), chain, draw)[0])
    return torch.stack(samples)


def _between(
    first: torch.Generator, second: torch.Generator, cos: float, sin: float
) -> Draw:
    def draw(like: Tensor) -> Tensor:
        one = normal(like, generator=first)
        other = normal(like, generator=second)
        return cos * one + sin * other

    return draw
