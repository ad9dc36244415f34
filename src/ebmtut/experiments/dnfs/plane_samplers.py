"""How samplers learn a learned energy over a plane, and how they are judged.

With few bits a law is a sum over all states; with the paper's 32 it is an estimate, as
`wide_planes` makes it. Source: Ou, Zhang and Li (2025), Section 4.1 and Appendix E.1.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from ebmtut.checks import Count, InputError, OneOf, Range, checked
from ebmtut.data import DENSITIES
from ebmtut.energies import Energy
from ebmtut.experiments.dnfs.balanced_policy import balanced_policy
from ebmtut.experiments.dnfs.planes import (
    TableEnergy,
    distance,
    new_flow,
    plane_law,
    plane_picture,
    pretrained_energy,
)
from ebmtut.experiments.dnfs.wide_planes import (
    BITS,
    LISTED,
    PaddedEnergy,
    coarse_picture,
    count_states,
    data_law,
    judge_flow,
    wide_energy,
)
from ebmtut.experiments.experiment import Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.streams import stream
from ebmtut.flows import (
    BitsGFlowNet,
    Flow,
    effective_sample_size,
    flow_laws,
    forward_trajectories,
    gibbs_kernel,
    log_partition,
    simulate,
    terminal_law,
)
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.training import FlowConfig, TrainConfig, train_flow

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
        Bits a coordinate: 2 to 6, or the paper's 16, whose laws are estimated.
    n_seeds
        Independent runs.
    n_energy_steps
        Optimiser steps of the energy, by energy discrepancy.
    n_steps
        Optimiser steps of a sampler; a GFlowNet's are three times as many.
    width, n_layers
        Of leTF; leConv has twice the width.
    n_time_steps
        Steps of rollouts; where laws are estimated, of the samples, too.
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
    n_bits: Annotated[int, Range(2, BITS)] = 4
    n_seeds: Count = 1
    n_energy_steps: Count = 1000
    n_steps: Count = 300
    width: int = 32
    n_layers: int = 2
    n_time_steps: Count = 32
    n_samples: Annotated[int, Range(low=2)] = 1000
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        if LISTED < self.n_bits < BITS:
            raise InputError(
                f"n_bits must be 2 to {LISTED}, or {BITS}, got {self.n_bits}"
            )


#: Steps by which the master equation is integrated.
N_TIMES = 32


def plane_job(
    method: str,
    density: str,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Let one sampler learn one pre-trained energy, and judge its exact law.

    The energy itself, of few bits, is learned on the CPU: the same on all devices.
    """
    if config.n_bits == BITS:
        return _wide_job(method, density, config, seed, checkpoint, device)
    energy, table = pretrained_energy(
        density, config.n_bits, config.n_energy_steps, seed
    )
    target = (-table.double()).softmax(0)
    if method == "GFlowNet":
        return _gflownet(table, target, config, seed, checkpoint, device)
    n_sites = _sites_of(method, config)
    path = AnnealingPath(TableEnergy(table.to(device), n_sites))
    if method == "Taylor":
        # The one that is kept for other jobs stays where it is.
        path = AnnealingPath(copy.deepcopy(energy).to(device), ratios="taylor")
    flow, scalars = _learned_flow(method, path, config, seed, checkpoint, device)
    generator = stream("evaluation", seed, device)
    drawn = simulate(flow, config.n_samples, 64, generator=generator)
    log_z = float((-table.double()).logsumexp(0)) + (n_sites - 2 * config.n_bits) * (
        math.log(2)
    )
    estimate = log_partition(drawn.log_weights, path.log_partition_start).estimate
    scalars |= {
        "ESS": effective_sample_size(drawn.log_weights),
        "log Z error": estimate - log_z,
    }
    laws = flow_laws(flow, N_TIMES, device=device).cpu()
    laws = laws.unflatten(1, (len(table), -1)).sum(2)
    times = torch.linspace(0, 1, N_TIMES + 1, dtype=torch.float64)[:, None]
    wanted = (-times * table.double()).softmax(1)
    kept = {"law": laws[-1], "path": laws[:: N_TIMES // 4]}
    scalars["TV"] = float(distance(laws[-1], target))
    if method in ("DNFS", "untrained"):
        # The same way back: from the energy's law to coins, by the reversed rates.
        back = flow_laws(flow, N_TIMES, start=target, reverse=True, device=device)
        back = back.cpu().flip(0)
        kept |= {"back": back[:: N_TIMES // 4], "wanted": wanted[:: N_TIMES // 4]}
        scalars["worst TV"] = float(distance(laws, wanted).max())
        scalars["worst TV back"] = float(distance(back, wanted).max())
    return Outcome(scalars, {name: _pictures(law) for name, law in kept.items()})


def _sites_of(method: str, config: PlaneConfig) -> int:
    """Sites of a state; leConv reads a square, the rest of which are fair coins."""
    n_sites = 2 * config.n_bits
    square = math.ceil(math.sqrt(n_sites)) ** 2
    return square if method.endswith("leConv") else n_sites


def _learned_flow(
    method: str,
    path: AnnealingPath,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None,
    device: str,
) -> tuple[Flow, dict[str, Any]]:
    """Train one flow; return it without a cut of its ratios, and what it took."""
    flow = new_flow(
        method,
        path,
        width=config.width,
        n_layers=config.n_layers,
        seed=seed,
        device=device,
    )
    if method == "untrained":
        return flow, {}
    ours = method in ("DNFS", "Taylor")
    objective = "learned" if "LEAPS" in method else "batch" if ours else "stein"
    found = train_flow(
        flow,
        FlowConfig(objective=objective, n_time_steps=config.n_time_steps),
        TrainConfig(
            n_steps=config.n_steps,
            learning_rate=config.learning_rate,
            clip_norm=1.0,
            precision="float32",
        ),
        generator=make_generator(seed, device),
        refine=gibbs_kernel(path, torch.arange(path.n_sites, device=device))
        if ours
        else None,
        checkpoint=checkpoint,
        checkpoint_every=250,
        identity={"method": method, "seed": seed},
    )
    scalars = {
        "train cpu s": found.cpu_seconds,
        "clipped": found.n_clipped,
        "clipped share": found.clipped_share,
    }
    return Flow(path, found.flow.network, rates=flow.rates), scalars


def _wide_job(
    method: str,
    density: str,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None,
    device: str,
) -> Outcome:
    """The same with the paper's 32 bits: what was a sum is an estimate."""
    target = wide_energy(
        density,
        config.n_energy_steps,
        config.n_samples,
        seed,
        device,
        checkpoint=checkpoint and checkpoint.with_stem(f"{checkpoint.stem}-energy"),
    )
    generator = stream("evaluation", seed, device)
    if method == "GFlowNet":
        policy, seconds = _learned_policy(
            target.energy, config, seed, checkpoint, device
        )

        def draw(n: int) -> Tensor:
            with torch.no_grad():
                return forward_trajectories(policy, n, generator=generator).x

        counted, law = count_states(draw, target, config.n_samples)
        error = float(policy.log_z.detach()) - target.log_partition
        return Outcome(
            counted | {"log Z error": error, "train cpu s": seconds},
            {"law": _pictures(law, coarse_picture)},
        )
    n_sites = _sites_of(method, config)
    padded = PaddedEnergy(target.energy, 2 * BITS, n_sites)
    path = AnnealingPath(target.energy if n_sites == 2 * BITS else padded)
    if method == "Taylor":
        path = AnnealingPath(target.energy, ratios="taylor")
    flow, scalars = _learned_flow(method, path, config, seed, checkpoint, device)
    judged, laws = judge_flow(
        flow,
        target,
        config.n_samples,
        config.n_time_steps,
        both_ways=method in ("DNFS", "untrained"),
        generator=generator,
    )
    pictures = {k: _pictures(law, coarse_picture) for k, law in laws.items()}
    return Outcome(scalars | judged, pictures)


def _pictures(
    laws: Tensor, picture: Callable[[Tensor], Tensor] = plane_picture
) -> np.ndarray:
    """Pictures of one law or several, float32."""
    flat = laws.reshape(-1, laws.shape[-1])
    drawn = torch.stack([picture(law) for law in flat])
    shaped: np.ndarray = drawn.reshape(*laws.shape[:-1], *drawn.shape[1:]).numpy()
    return shaped.astype("float32")


def _gflownet(
    table: Tensor,
    target: Tensor,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None,
    device: str,
) -> Outcome:
    """Train a GFlowNet and sum its exact law."""
    energy = TableEnergy(table.to(device), 2 * config.n_bits)
    policy, seconds = _learned_policy(energy, config, seed, checkpoint, device)
    law = terminal_law(policy.cpu()).double().exp()
    return Outcome(
        {
            "TV": float(distance(law, target)),
            "log Z error": float(policy.log_z.detach())
            - float((-table.double()).logsumexp(0)),
            "train cpu s": seconds,
        },
        {"law": _pictures(law)},
    )


def _learned_policy(
    energy: Energy,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None,
    device: str,
) -> tuple[BitsGFlowNet, float]:
    """Train by trajectory balance; return the policy and the CPU seconds."""
    policy, _, seconds = balanced_policy(
        energy,
        3 * config.n_steps,
        config.learning_rate,
        seed=seed,
        identity=asdict(config),
        checkpoint=checkpoint,
        device=device,
    )
    return policy, seconds


def cells(config: PlaneConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and density."""
    alone = replace(config, densities=(), methods=(), n_seeds=1)
    return {
        (method, density): {"method": method, "density": density, "config": alone}
        for method in config.methods
        for density in config.densities
    }


def exact_laws(config: PlaneConfig, seed: int, device: str = "cpu") -> Outcome:
    """Return the law of each energy as a picture, and its distance from the data's."""
    arrays, away = {}, {}
    for density in config.densities:
        if config.n_bits == BITS:
            wide = wide_energy(
                density, config.n_energy_steps, config.n_samples, seed, device
            )
            n = 5 * config.n_samples
            data = data_law(density, n, generator=make_generator(seed))
            arrays[f"exact/{density}"] = _pictures(wide.law, coarse_picture)
            away[density] = float(distance(wide.law, data))
            continue
        _, table = pretrained_energy(
            density, config.n_bits, config.n_energy_steps, seed
        )
        law = (-table.double()).softmax(0)
        arrays[f"exact/{density}"] = _pictures(law)
        away[density] = float(distance(law, plane_law(density, config.n_bits)))
    return Outcome({"energy from data": away}, arrays)
