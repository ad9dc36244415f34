"""Energies of 32 bits and their samplers, whose distributions are estimated.

Pictures and distances are of the leading five bits of both coordinates. The paper's
presets use this module; the stored runs have few bits. Source: Ou, Zhang and Li (2025),
Sections 4.1 and 4.2, Appendix E.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.data import DensityData
from ebmtut.energies import EnergyFunction
from ebmtut.metrics import grid_log_partition, sample_by_proposal
from ebmtut.states import states_to_index

#: Up to so many bits per coordinate, distributions are tables of all states.
LISTED = 6

#: Bits of the paper's coordinates, and leading ones that make the coarse picture.
BITS, COARSE = 16, 5


def coarse_distribution(x: Float[Tensor, "n n_sites"]) -> Float[Tensor, " n_cells"]:
    """Distribution of the leading bits of both coordinates, counted in samples."""
    leading = torch.cat([x[:, :COARSE], x[:, BITS : BITS + COARSE]], 1)
    index = states_to_index(leading).cpu()
    return torch.bincount(index, minlength=4**COARSE).double() / len(x)


def coarse_picture(
    distribution: Float[Tensor, " n_cells"],
) -> Float[Tensor, "side side"]:
    """A distribution of the leading bits as a picture, rows from the bottom up."""
    side = 2**COARSE
    k = torch.arange(side // 2)
    size = torch.empty_like(k)
    size[k ^ (k >> 1)] = k
    # A sign, then the Gray code of the size: `ebmtut.states.gray_encode`.
    place = torch.cat([side // 2 + size, side // 2 - 1 - size])
    column, row = torch.cartesian_prod(place, place).T
    picture = distribution.new_empty(side, side)
    picture[row, column] = distribution
    return picture


def data_distribution(density: str, n: int, *, generator: torch.Generator) -> Tensor:
    """Distribution of the leading bits of held-out data."""
    return coarse_distribution(DensityData(density).sample_bits(n, generator=generator))


def exact_draws(
    energy: EnergyFunction, n: int, *, generator: torch.Generator
) -> tuple[Tensor, float]:
    """Draw independent states of an energy of 32 bits, and estimate its log Z."""
    fit = grid_log_partition(
        energy, generator=generator, coarse_bits=7, n_samples=n, dtype=torch.float32
    )
    drawn = sample_by_proposal(
        energy, fit.proposal, n, generator=generator, dtype=torch.float32
    )
    return drawn, fit.log_partition.value
