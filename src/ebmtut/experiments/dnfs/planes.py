"""Energies and flows over a small Gray-coded plane, and exact laws.

The paper's planes have 32 bits. With eight, a law is a table of 256 numbers: its
constant, the law of a flow's states and every distance are sums, without noise.
Source: Ou, Zhang and Li (2025), Sections 4.1 and 4.2.
"""

from __future__ import annotations

import math
from functools import cache
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut.checks import check_range
from ebmtut.data import density_extent, density_log_prob
from ebmtut.energies import Energy, MLPEnergy
from ebmtut.flows import Flow, HollowConvolution, HollowTransformer
from ebmtut.losses import Grid, energy_discrepancy_loss
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states
from ebmtut.training import TrainConfig, train


class TableEnergy(Energy):
    """The energy of every state of a few bits, as a table.

    Parameters
    ----------
    table
        In the order of `enumerate_states`, of the first bits.
    n_sites
        More than the table's bits where the energy does not see the last ones.
    """

    def __init__(self, table: Float[Tensor, " n_all"], n_sites: int) -> None:
        super().__init__()
        self.n_seen = int(math.log2(len(table)))
        check_range("n_sites", n_sites, low=self.n_seen, integer=True)
        self.table = table
        self.n_sites = n_sites
        self.bits = 2 ** torch.arange(self.n_seen - 1, -1, -1, device=table.device)

    def forward(self, x: Float[Tensor, "batch n_sites"]) -> Float[Tensor, " batch"]:
        """Look energies up."""
        return self.table[self._index(x)]

    def flip_log_ratios(
        self, x: Float[Tensor, "batch n_sites"]
    ) -> Float[Tensor, "batch n_sites"]:
        """Log-ratios of all flips, looked up."""
        index = self._index(x)
        here = self.table[index][:, None]
        ratios = here - self.table[index[:, None] ^ self.bits]
        return nn.functional.pad(ratios, (0, self.n_sites - self.n_seen))

    def _index(self, x: Tensor) -> Tensor:
        # No product of matrices: a GPU has none of integers.
        return (x[:, : self.n_seen].long() * self.bits).sum(1)


def _gray_cells(n_bits: int) -> Tensor:
    """Row and column of the picture of every state, (n_all, 2), columns first."""
    k = torch.arange(2**n_bits)
    place = torch.empty_like(k)
    place[k ^ (k >> 1)] = k
    return torch.cartesian_prod(place, place)


def plane_law(density: str, n_bits: int) -> Float[Tensor, " n_all"]:
    """Probability of every state of a Gray-coded plane."""
    extent, side, fine = density_extent(density), 2**n_bits, 8
    ticks = (torch.arange(side * fine).double() + 0.5) / (side * fine)
    points = torch.cartesian_prod(*[extent * (2 * ticks - 1)] * 2)
    p = density_log_prob(density, points).exp()
    p = p.reshape(side, fine, side, fine).mean((1, 3))
    column, row = _gray_cells(n_bits).T
    law = p[column, row]
    return law / law.sum()


def plane_picture(law: Float[Tensor, " n_all"]) -> Float[Tensor, "side side"]:
    """A law over the states as a picture, rows from the bottom up."""
    n_bits = int(math.log2(len(law))) // 2
    column, row = _gray_cells(n_bits).T
    picture = law.new_empty(2**n_bits, 2**n_bits)
    picture[row, column] = law
    return picture


def distance(
    p: Float[Tensor, "*shape n_all"], q: Float[Tensor, "*shape n_all"]
) -> Float[Tensor, "*shape"]:
    """Total variation between laws: the mass that is in the wrong place."""
    return (p - q).abs().sum(-1) / 2


@cache
def pretrained_energy(
    density: str, n_bits: int, n_steps: int, seed: int
) -> tuple[MLPEnergy, Tensor]:
    """Learn an energy by energy discrepancy, as in the first chapter."""
    law = plane_law(density, n_bits)
    states = enumerate_states(2 * n_bits).float()
    perturbation = Grid()

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        return states[torch.multinomial(law, n, True, generator=generator)]

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        return energy_discrepancy_loss(
            energy, x, perturbation, n_negatives=16, generator=generator
        )

    fresh = MLPEnergy(2 * n_bits, 128, 3, generator=make_generator(seed))
    optimizer = TrainConfig(n_steps, learning_rate=5e-3, precision="float32")
    fit = train(fresh, loss, sample, optimizer, generator=make_generator(seed))
    energy = cast(MLPEnergy, fit.energy)
    with torch.no_grad():
        return energy, energy(states)


def new_flow(
    method: str,
    path: AnnealingPath,
    *,
    width: int = 32,
    n_layers: int = 2,
    seed: int,
    device: str | torch.device = "cpu",
) -> Flow:
    """Make an untrained flow."""
    generator = make_generator(seed)
    network: nn.Module
    if method.endswith("leConv"):
        side = math.isqrt(path.n_sites)
        network = HollowConvolution(side, width=2 * width, generator=generator)
    else:
        network = HollowTransformer(
            path.n_sites,
            width=width,
            n_layers=n_layers,
            generator=generator,
        )
    ours = method in ("DNFS", "Taylor", "untrained")
    return Flow(
        path,
        network.to(device),
        rates="reversible" if ours else "one_way",
        max_log_ratio=None if ours else 5.0,
    )
