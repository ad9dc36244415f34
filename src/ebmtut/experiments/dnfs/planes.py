"""Energies over a small Gray-coded plane, their samplers, and exact judges.

The paper's planes have 32 bits. With eight, a law is a table of 256 numbers: its
constant, the law of a flow's states and every distance are sums, without noise.
Source: Ou, Zhang and Li (2025), Sections 4.1 and 4.2.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut.checks import Count, OneOf, Range, check_range, checked
from ebmtut.data import DENSITIES, density_extent, density_log_prob
from ebmtut.energies import Energy, MLPEnergy
from ebmtut.experiments.experiment import Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.flows import (
    BitsGFlowNet,
    Flow,
    HollowConvolution,
    HollowTransformer,
    effective_sample_size,
    flow_laws,
    forward_trajectories,
    gibbs_kernel,
    log_partition,
    simulate,
    terminal_law,
    trajectory_balance_loss,
)
from ebmtut.losses import Grid, energy_discrepancy_loss
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states
from ebmtut.training import FlowConfig, TrainConfig, train, train_flow

__all__ = [
    "METHODS",
    "PlaneConfig",
    "TableEnergy",
    "cells",
    "distance",
    "exact_laws",
    "new_flow",
    "plane_job",
    "plane_law",
    "plane_picture",
    "pretrained_energy",
]

#: Our recipe, the paper's, the paper's with Taylor ratios, that of LEAPS with
#: two networks, a GFlowNet by trajectory balance, and the untrained flow.
METHODS = (
    "DNFS",
    "paper",
    "Taylor",
    "LEAPS, leTF",
    "LEAPS, leConv",
    "GFlowNet",
    "untrained",
)


@checked
@dataclass(frozen=True)
class PlaneConfig:
    """Which energies, which samplers, and what each may spend.

    Parameters
    ----------
    densities
        Names, from `ebmtut.data.DENSITIES`.
    methods
        Some of `METHODS`.
    n_bits
        Bits a coordinate.
    n_seeds
        Independent runs.
    n_energy_steps
        Optimiser steps of the energy, by energy discrepancy.
    n_steps
        Optimiser steps of a sampler; a GFlowNet's are three times as many.
    width, n_layers
        Of leTF; leConv has twice the width.
    n_time_steps
        Steps of rollouts.
    n_samples
        Samples for ESS and log Z.
    learning_rate
        Of Adam.
    """

    densities: tuple[Annotated[str, OneOf(DENSITIES)], ...] = ("checkerboard",)
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = (
        "DNFS",
        "GFlowNet",
        "untrained",
    )
    n_bits: Annotated[int, Range(2, 6)] = 4
    n_seeds: Count = 1
    n_energy_steps: Count = 1000
    n_steps: Count = 300
    width: int = 32
    n_layers: int = 2
    n_time_steps: Count = 32
    n_samples: Annotated[int, Range(low=2)] = 1000
    learning_rate: float = 3e-3


#: Steps by which the master equation is integrated.
N_TIMES = 32


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
        self.bits = 2 ** torch.arange(self.n_seen - 1, -1, -1)

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
        return x[:, : self.n_seen].long() @ self.bits


def _gray_cells(n_bits: int) -> Tensor:
    """Row and column of the picture of every state, (n_all, 2), columns first."""
    k = torch.arange(2**n_bits)
    place = torch.empty_like(k)
    place[k ^ (k >> 1)] = k
    return torch.cartesian_prod(place, place)


def plane_law(density: str, n_bits: int) -> Float[Tensor, " n_all"]:
    """Probability of every state of a Gray-coded plane.

    Parameters
    ----------
    density
        One of `ebmtut.data.DENSITIES`.
    n_bits
        Bits a coordinate, which cut the pictured square into 4**n_bits cells.

    Returns
    -------
    law
        Float64, in the order of `enumerate_states`; the density's mean over
        eight by eight points of each cell, normalised.
    """
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
    """Learn an energy by energy discrepancy, as in the first chapter.

    Parameters
    ----------
    density, n_bits
        As for `plane_law`.
    n_steps, seed
        Of the training.

    Returns
    -------
    energy
        The network, and its table over all states.
    """
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
    method: str, path: AnnealingPath, config: PlaneConfig, *, seed: int
) -> Flow:
    """Make the untrained flow of a method."""
    generator = make_generator(seed)
    network: nn.Module
    if method.endswith("leConv"):
        side = math.isqrt(path.n_sites)
        network = HollowConvolution(side, width=2 * config.width, generator=generator)
    else:
        network = HollowTransformer(
            path.n_sites,
            width=config.width,
            n_layers=config.n_layers,
            generator=generator,
        )
    ours = method in ("DNFS", "Taylor", "untrained")
    return Flow(
        path,
        network,
        rates="reversible" if ours else "one_way",
        max_log_ratio=None if ours else 5.0,
    )


def plane_job(method: str, density: str, config: PlaneConfig, seed: int) -> Outcome:
    """Let one sampler learn one pre-trained energy, and judge its exact law.

    Returns
    -------
    outcome
        "TV", of the law of its states in continuous time from the energy's; of
        flows also ESS, the error of log Z by 64 steps and the clipped ratios;
        CPU seconds of the training. Arrays: pictures of the law, and of a flow
        at five times, there and, reversed, back.
    """
    energy, table = pretrained_energy(
        density, config.n_bits, config.n_energy_steps, seed
    )
    target = (-table.double()).softmax(0)
    if method == "GFlowNet":
        return _gflownet(table, target, config, seed)
    # leConv reads a square: the sites that are left are fair coins.
    n_sites = 2 * config.n_bits
    if method.endswith("leConv"):
        n_sites = math.ceil(math.sqrt(n_sites)) ** 2
    path = AnnealingPath(TableEnergy(table, n_sites))
    if method == "Taylor":
        path = AnnealingPath(energy, ratios="taylor")
    flow = new_flow(method, path, config, seed=seed)
    scalars: dict[str, Any] = {}
    generator = make_generator(seed + 1_000_000)
    if method != "untrained":
        ours = method in ("DNFS", "Taylor")
        objective = "learned" if "LEAPS" in method else "batch" if ours else "stein"
        fit = FlowConfig(objective=objective, n_time_steps=config.n_time_steps)
        found = train_flow(
            flow,
            fit,
            TrainConfig(
                n_steps=config.n_steps,
                learning_rate=config.learning_rate,
                clip_norm=1.0,
                precision="float32",
            ),
            generator=make_generator(seed),
            refine=gibbs_kernel(path, torch.arange(n_sites)) if ours else None,
        )
        flow = Flow(path, found.flow.network, rates=flow.rates)
        scalars = {"train cpu s": found.cpu_seconds, "clipped": found.n_clipped}
    drawn = simulate(flow, config.n_samples, 64, generator=generator)
    log_z = float((-table.double()).logsumexp(0)) + (n_sites - 2 * config.n_bits) * (
        math.log(2)
    )
    estimate = log_partition(drawn.log_weights, path.log_partition_start).estimate
    scalars |= {
        "ESS": effective_sample_size(drawn.log_weights),
        "log Z error": estimate - log_z,
    }
    laws = flow_laws(flow, N_TIMES).unflatten(1, (len(table), -1)).sum(2)
    times = torch.linspace(0, 1, N_TIMES + 1, dtype=torch.float64)[:, None]
    wanted = (-times * table.double()).softmax(1)
    kept = {"law": laws[-1], "path": laws[:: N_TIMES // 4]}
    scalars["TV"] = float(distance(laws[-1], target))
    if method in ("DNFS", "untrained"):
        # The same way back: from the energy's law to coins, by the reversed rates.
        back = flow_laws(flow, N_TIMES, start=target, reverse=True).flip(0)
        kept |= {"back": back[:: N_TIMES // 4], "wanted": wanted[:: N_TIMES // 4]}
        scalars["worst TV"] = float(distance(laws, wanted).max())
        scalars["worst TV back"] = float(distance(back, wanted).max())
    return Outcome(scalars, {name: _pictures(law) for name, law in kept.items()})


def _pictures(laws: Tensor) -> np.ndarray:
    """Pictures of one law or several, float32."""
    flat = laws.reshape(-1, laws.shape[-1])
    drawn = torch.stack([plane_picture(law) for law in flat])
    shaped: np.ndarray = drawn.reshape(*laws.shape[:-1], *drawn.shape[1:]).numpy()
    return shaped.astype("float32")


def _gflownet(table: Tensor, target: Tensor, config: PlaneConfig, seed: int) -> Outcome:
    """Train by trajectory balance; log Z learns ten times as fast."""
    n_sites = 2 * config.n_bits
    policy = BitsGFlowNet(n_sites, 128, generator=make_generator(seed))
    energy = TableEnergy(table, n_sites)
    generator = make_generator(seed)
    began = time.process_time()
    adam = torch.optim.Adam(
        [
            {"params": policy.net.parameters(), "lr": config.learning_rate},
            {"params": [policy.log_z], "lr": 10 * config.learning_rate},
        ]
    )
    n_steps = 3 * config.n_steps
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, n_steps)
    for _ in range(n_steps):
        ways = forward_trajectories(policy, 128, generator=generator, explore=0.05)
        loss = trajectory_balance_loss(policy, energy, ways)
        adam.zero_grad()
        loss.backward()
        adam.step()
        rate.step()
    law = terminal_law(policy).double().exp()
    return Outcome(
        {
            "TV": float(distance(law, target)),
            "log Z error": float(policy.log_z.detach())
            - float((-table.double()).logsumexp(0)),
            "train cpu s": time.process_time() - began,
        },
        {"law": _pictures(law)},
    )


def cells(config: PlaneConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and density."""
    alone = replace(config, densities=(), methods=(), n_seeds=1)
    return {
        (method, density): {"method": method, "density": density, "config": alone}
        for method in config.methods
        for density in config.densities
    }


def exact_laws(config: PlaneConfig, seed: int) -> Outcome:
    """Return the law of each energy as a picture, and its distance from the data's."""
    arrays, away = {}, {}
    for density in config.densities:
        _, table = pretrained_energy(
            density, config.n_bits, config.n_energy_steps, seed
        )
        law = (-table.double()).softmax(0)
        arrays[f"exact/{density}"] = _pictures(law)
        away[density] = float(distance(law, plane_law(density, config.n_bits)))
    return Outcome({"energy from data": away}, arrays)
