"""Row dnfs/pretrained-ebm (Figures 4 and 11): samplers of a learned energy."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, OneOf, Range, checked
from ebmtut.data import DENSITIES
from ebmtut.experiments.dnfs.planes import (
    TableEnergy,
    distance,
    new_flow,
    plane_law,
    plane_picture,
    pretrained_energy,
)
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
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
    trajectory_balance_loss,
)
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import panel_size
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table
from ebmtut.training import FlowConfig, TrainConfig, train_flow

__all__ = [
    "EXPERIMENT",
    "METHODS",
    "PlaneConfig",
    "draw_samplers",
    "nothing_learned",
    "plane_job",
    "sampler_table",
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


#: What we ask of our recipe: the mass that its law has in the wrong place.
MISPLACED = 0.05


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
    flow = new_flow(
        method, path, width=config.width, n_layers=config.n_layers, seed=seed
    )
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


def draw_samplers(result: Result) -> Figure:
    """Draw the exact law of each sampler's states beside the energy's."""
    columns = ["exact", *result.scalars["table"]]
    names = [(d, c) for d in result.scalars["energy from data"] for c in columns]
    n_rows = -(-len(names) // 4)
    figure, axes = plt.subplots(
        n_rows, 4, figsize=panel_size(n_rows, 4, title=0.15), squeeze=False
    )
    for ax in axes.flat:
        ax.axis("off")
    for (density, name), ax in zip(names, axes.flat, strict=False):
        exact = result.arrays[f"exact/{density}"]
        law = exact if name == "exact" else result.arrays[f"law/{name}/{density}"]
        ax.imshow(law, origin="lower", vmin=0, vmax=float(exact.max()))
        ax.set_title(name if name != "exact" else f"{density}, exact", fontsize=8)
    return figure


#: What a table may show, its value for the exact law, and its words.
_SHOWN = {
    "TV": (0.0, "Share of the mass in the wrong place (TV), summed over all states"),
    "ESS": (1.0, "ESS by 64 steps, weights of continuous time"),
    "log Z error": (0.0, "Error of log Z by 64 steps"),
}


@checked
def sampler_table(
    result: Result, metric: Annotated[str, OneOf(_SHOWN)] = "TV"
) -> Table:
    """Judge each sampler on each energy.

    Parameters
    ----------
    result
        Of this row.
    metric
        "TV", with the seconds of a training; "ESS"; or "log Z error".
    """
    table = result.scalars["table"]
    exact, words = _SHOWN[metric]
    columns: dict[str, list[Cell]] = {"sampler": [*table, "exact"]}
    for density in next(iter(table.values())):
        found = [row[density].get(metric) for row in table.values()]
        shown = [None if v is None else _spread(v) for v in found]
        columns[density] = [*shown, exact]
    if metric == "TV":
        words += "; CPU seconds of a training"
        columns["CPU s"] = [
            _spread([v for c in row.values() for v in c.get("train cpu s", [])][:1])
            for row in table.values()
        ] + [None]
    return Table(
        columns,
        caption=f"{words}.",
        kinds=[*("null" if m == "untrained" else "" for m in table), "exact"],
        digits=2,
    )


def _spread(values: list[float]) -> Cell:
    """Mean and its error, the one value there is, or nothing."""
    if not values:
        return None
    mean, stderr = mean_and_stderr(values)
    return round(mean, 4) if stderr is None else (mean, stderr)


def check_samplers(result: Result) -> list[Verdict]:
    """Our recipe's law is the energy's."""
    verdicts = []
    for density, cell in result.scalars["table"]["DNFS"].items():
        mean, stderr = mean_and_stderr(cell["TV"])
        of: dict[str, Any] = {"stderr": stderr, "n_seeds": len(cell["TV"])}
        name = f"{density}: mass that DNFS has in the wrong place"
        verdicts.append(claim(name, mean, "at most", MISPLACED, **of))
    return verdicts


def nothing_learned(result: Result) -> Result:
    """Return the untrained flow in the place of every flow."""
    table = result.scalars["table"]
    same = dict.fromkeys(table, table["untrained"])
    return replace(result, scalars=result.scalars | {"table": same})


EXPERIMENT = Experiment(
    id="dnfs/pretrained-ebm",
    title="Samplers of a learned energy",
    presets={
        "quick": PlaneConfig(
            densities=("8gaussians",),
            methods=tuple(m for m in METHODS if m != "paper"),
            n_steps=200,
            n_layers=1,
        ),
        "full": PlaneConfig(
            densities=("8gaussians", "checkerboard", "2spirals"),
            methods=METHODS,
            n_steps=1000,
        ),
    },
    cells=cells,
    job=plane_job,
    arrays={"*": "{name}/{cell}"},
    extras=exact_laws,
    null=nothing_learned,
    figure=draw_samplers,
    check=check_samplers,
)
