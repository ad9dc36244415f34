"""Row dnfs/pretrained-ebm (Figures 4 and 11): samplers of a learned energy.

With few bits a distribution is a sum over all states; with the paper's 32 it is an
estimate, as `wide_planes` makes it. Source: Ou, Zhang and Li (2025), Section 4.1 and
Appendix E.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, InputError, OneOf, Range, checked
from ebmtut.data import DENSITIES
from ebmtut.energies import Energy
from ebmtut.experiments.dnfs.captions import means_of
from ebmtut.experiments.dnfs.planes import (
    METHODS,
    TableEnergy,
    distance,
    draw_pictures,
    new_flow,
    plane_distribution,
    plane_picture,
    pretrained_energy,
    shown_densities,
)
from ebmtut.experiments.dnfs.wide_planes import (
    BITS,
    LISTED,
    PaddedEnergy,
    coarse_picture,
    count_states,
    data_distribution,
    judge_flow,
    wide_energy,
)
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.streams import stream
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.flows import (
    BitsGFlowNet,
    Flow,
    effective_sample_size,
    flow_distributions,
    forward_trajectories,
    gibbs_kernel,
    log_partition,
    simulate,
    terminal_distribution,
    trajectory_balance_loss,
)
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table
from ebmtut.training import FlowConfig, ResumableLoop, TrainConfig, train_flow

#: States of a batch of a flow's training.
BATCH = TrainConfig(n_steps=0).batch_size


#: What we ask of our recipe: the total variation distance.
MISPLACED = 0.05


#: Steps by which the master equation is integrated.
N_TIMES = 32


@checked
@dataclass(frozen=True)
class PlaneConfig:
    """Which energies, which samplers, and what each may spend."""

    densities: tuple[Annotated[str, OneOf(DENSITIES)], ...] = ("checkerboard",)
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = (
        "DNFS",
        "GFlowNet",
        "untrained",
    )
    #: Bits per coordinate: 2 to 6, or 16, whose distributions are estimated.
    n_bits: Annotated[int, Range(2, BITS)] = 4
    n_seeds: Count = 1
    #: Of energy discrepancy.
    n_energy_steps: Count = 1000
    #: Of a sampler; a GFlowNet takes three times as many.
    n_steps: Count = 300
    #: Of leTF; leConv has twice the width.
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


def plane_job(
    method: str,
    density: str,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Train one sampler on one learned energy, and score its exact distribution."""
    if config.n_bits == BITS:
        return _wide_job(method, density, config, seed, checkpoint, device)
    energy, table = pretrained_energy(
        density, config.n_bits, config.n_energy_steps, seed
    )
    target = (-table.double()).softmax(0)
    if METHODS[method].network == "GFlowNet":
        return _gflownet(table, target, config, seed, checkpoint, device)
    n_sites = _sites_of(method, config)
    path = AnnealingPath(TableEnergy(table.to(device), n_sites))
    if METHODS[method].ratios == "taylor":
        path = AnnealingPath(energy.to(device), ratios="taylor")
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
    distributions = flow_distributions(flow, N_TIMES, device=device).cpu()
    distributions = distributions.unflatten(1, (len(table), -1)).sum(2)
    times = torch.linspace(0, 1, N_TIMES + 1, dtype=torch.float64)[:, None]
    wanted = (-times * table.double()).softmax(1)
    kept = {"law": distributions[-1], "path": distributions[:: N_TIMES // 4]}
    scalars["TV"] = float(distance(distributions[-1], target))
    if method in ("DNFS", "untrained"):
        # From the energy's distribution to uniform bits, by the reversed rates.
        back = flow_distributions(
            flow, N_TIMES, start=target, reverse=True, device=device
        )
        back = back.cpu().flip(0)
        kept |= {"back": back[:: N_TIMES // 4], "wanted": wanted[:: N_TIMES // 4]}
        scalars["worst TV"] = float(distance(distributions, wanted).max())
        scalars["worst TV back"] = float(distance(back, wanted).max())
    return Outcome(
        scalars, {name: _pictures(distribution) for name, distribution in kept.items()}
    )


def _sites_of(method: str, config: PlaneConfig) -> int:
    """Sites of a state; leConv reads a square, filled up with uniform bits."""
    n_sites = 2 * config.n_bits
    square = math.ceil(math.sqrt(n_sites)) ** 2
    return square if METHODS[method].network == "leConv" else n_sites


def _learned_flow(
    method: str,
    path: AnnealingPath,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None,
    device: str,
) -> tuple[Flow, dict[str, Any]]:
    """Train one flow; return it with unclipped ratios, and its costs."""
    recipe = METHODS[method]
    flow = new_flow(
        path,
        recipe,
        width=config.width,
        n_layers=config.n_layers,
        seed=seed,
        device=device,
    )
    if not recipe.objective:
        return flow, {}
    found = train_flow(
        flow,
        FlowConfig(objective=recipe.objective, n_time_steps=config.n_time_steps),
        TrainConfig(
            n_steps=config.n_steps,
            learning_rate=config.learning_rate,
            clip_norm=1.0,
            precision="float32",
        ),
        generator=make_generator(seed, device),
        refine=gibbs_kernel(path, torch.arange(path.n_sites, device=device))
        if recipe.sweeps
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
    """Do the same with 32 bits, where sums over all states become estimates."""
    target = wide_energy(
        density,
        config.n_energy_steps,
        config.n_samples,
        seed,
        device,
        checkpoint=checkpoint and checkpoint.with_stem(f"{checkpoint.stem}-energy"),
    )
    generator = stream("evaluation", seed, device)
    if METHODS[method].network == "GFlowNet":
        policy, seconds = _learned_policy(
            target.energy, config, seed, checkpoint, device
        )

        def draw(n: int) -> Tensor:
            with torch.no_grad():
                return forward_trajectories(policy, n, generator=generator).x

        counted, distribution = count_states(draw, target, config.n_samples)
        error = float(policy.log_z.detach()) - target.log_partition
        return Outcome(
            counted | {"log Z error": error, "train cpu s": seconds},
            {"law": _pictures(distribution, coarse_picture)},
        )
    n_sites = _sites_of(method, config)
    padded = PaddedEnergy(target.energy, 2 * BITS, n_sites)
    path = AnnealingPath(target.energy if n_sites == 2 * BITS else padded)
    if METHODS[method].ratios == "taylor":
        path = AnnealingPath(target.energy, ratios="taylor")
    flow, scalars = _learned_flow(method, path, config, seed, checkpoint, device)
    judged, distributions = judge_flow(
        flow,
        target,
        config.n_samples,
        config.n_time_steps,
        both_ways=method in ("DNFS", "untrained"),
        generator=generator,
    )
    pictures = {
        k: _pictures(distribution, coarse_picture)
        for k, distribution in distributions.items()
    }
    return Outcome(scalars | judged, pictures)


def _pictures(
    p: Tensor, picture: Callable[[Tensor], Tensor] = plane_picture
) -> np.ndarray:
    """Pictures of one distribution or several, float32."""
    flat = p.reshape(-1, p.shape[-1])
    drawn = torch.stack([picture(q) for q in flat])
    shaped: np.ndarray = drawn.reshape(*p.shape[:-1], *drawn.shape[1:]).numpy()
    return shaped.astype("float32")


def _gflownet(
    table: Tensor,
    target: Tensor,
    config: PlaneConfig,
    seed: int,
    checkpoint: Path | None,
    device: str,
) -> Outcome:
    """Train a GFlowNet and sum its exact distribution."""
    energy = TableEnergy(table.to(device), 2 * config.n_bits)
    policy, seconds = _learned_policy(energy, config, seed, checkpoint, device)
    distribution = terminal_distribution(policy.cpu()).double().exp()
    return Outcome(
        {
            "TV": float(distance(distribution, target)),
            "log Z error": float(policy.log_z.detach())
            - float((-table.double()).logsumexp(0)),
            "train cpu s": seconds,
        },
        {"law": _pictures(distribution)},
    )


def balanced_policy(
    energy: Energy,
    n_steps: int,
    learning_rate: float,
    *,
    seed: int,
    identity: Mapping[str, Any],
    log_z: float = 0.0,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> tuple[BitsGFlowNet, list[float], float]:
    """Train by trajectory balance on 128 paths a step, log Z at ten times the rate."""
    policy = BitsGFlowNet(energy.n_sites, 128, generator=make_generator(seed))
    policy.log_z.data.fill_(log_z)
    policy = policy.to(device)
    generator = make_generator(seed, device)
    adam = torch.optim.Adam(
        [
            {"params": policy.net.parameters(), "lr": learning_rate},
            {"params": [policy.log_z], "lr": 10 * learning_rate},
        ]
    )
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, n_steps)
    held = {"losses": torch.zeros(n_steps)}
    loop = ResumableLoop(
        checkpoint,
        {"method": "GFlowNet", "seed": seed, **identity},
        {"policy": policy, "adam": adam, "rate": rate},
        generator=generator,
        held=held,
    )
    for k in loop.steps(n_steps):
        ways = forward_trajectories(policy, 128, generator=generator, explore=0.05)
        loss = trajectory_balance_loss(policy, energy, ways)
        adam.zero_grad()
        loss.backward()
        adam.step()
        rate.step()
        held["losses"][k] = loss.detach().cpu()
    return policy, held["losses"].tolist(), loop.seconds


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


def exact_distributions(config: PlaneConfig, seed: int, device: str = "cpu") -> Outcome:
    """Picture each energy's distribution; return its distance from the data."""
    arrays, away = {}, {}
    for density in config.densities:
        if config.n_bits == BITS:
            wide = wide_energy(
                density, config.n_energy_steps, config.n_samples, seed, device
            )
            n = 5 * config.n_samples
            data = data_distribution(density, n, generator=make_generator(seed))
            arrays[f"exact/{density}"] = _pictures(wide.distribution, coarse_picture)
            away[density] = float(distance(wide.distribution, data))
            continue
        _, table = pretrained_energy(
            density, config.n_bits, config.n_energy_steps, seed
        )
        distribution = (-table.double()).softmax(0)
        arrays[f"exact/{density}"] = _pictures(distribution)
        away[density] = float(
            distance(distribution, plane_distribution(density, config.n_bits))
        )
    return Outcome({"energy from data": away}, arrays)


#: The samplers of the figure, and their titles.
PICTURED = {
    "DNFS": "flow",
    "GFlowNet": "GFlowNet",
    "untrained": "untrained flow",
}


def draw_samplers(result: Result) -> Figure:
    """Draw the exact distribution of each sampler's states beside the energy's."""
    arrays, table = result.arrays, result.scalars["table"]
    return draw_pictures(
        {
            density: {"energy": arrays[f"exact/{density}"]}
            | {
                name: arrays[f"law/{method}/{density}"]
                for method, name in PICTURED.items()
                if method in table
            }
            for density in shown_densities(result)
        }
    )


# How far four samplers end from each energy.
distance_table = Pivot(
    head="energy",
    rows={"{density}": "table/DNFS/{density}"},
    columns={
        "flow": "TV",
        "GFlowNet": "/table/GFlowNet/{density}/TV",
        "published recipe": "/table/paper/{density}/TV",
        "untrained flow": "/table/untrained/{density}/TV",
    },
    caption=lambda result: (
        f"Total variation distance from the energy's distribution.{means_of(result)}"
    ),
    digits=2,
)


#: What a table may show, the value of exact samples if there is one, and its caption.
_SHOWN: dict[str, tuple[float | None, str]] = {
    "TV": (0.0, "Total variation distance (TV), summed over all states"),
    "ESS": (1.0, "ESS in 64 steps, path weights"),
    "log Z error": (0.0, "Error of log Z in 64 steps"),
    "clipped share": (None, "Fraction of log-ratios above 5 that a training clipped"),
}


@checked
def sampler_table(
    result: Result,
    metric: Annotated[str, OneOf(_SHOWN)] = "TV",
    *,
    methods: Sequence[str] = (),
) -> Table:
    """Scores of each sampler on each energy."""
    table = {m: result.scalars["table"][m] for m in methods or result.scalars["table"]}
    exact, words = _SHOWN[metric]
    last: list[Cell] = [] if exact is None else [exact]
    columns: dict[str, list[Cell]] = {"sampler": [*table, *(["exact"] if last else [])]}
    for density in next(iter(table.values())):
        found = [_values(result, row[density], metric) for row in table.values()]
        columns[density] = [*(mean_and_stderr(v) if v else None for v in found), *last]
    if metric == "TV":
        words += "; CPU seconds of a training"
        trainings = (
            [v for cell in row.values() for v in cell.get("train cpu s", [])]
            for row in table.values()
        )
        columns["CPU s"] = [sum(v) / len(v) if v else None for v in trainings] + [None]
    return Table(
        columns,
        caption=f"{words}.{means_of(result)}",
        kinds=[
            *("null" if m == "untrained" else "" for m in table),
            *(["exact"] if last else []),
        ],
        digits=2,
    )


def _values(result: Result, cell: dict[str, Any], metric: str) -> list[float] | None:
    """Values of a metric; older runs stored counts of clipped ratios, not fractions."""
    found: list[float] | None = cell.get(metric)
    if found is None and metric == "clipped share" and "clipped" in cell:
        config = result.config
        met = config["n_steps"] * BATCH * 2 * config["n_bits"]
        return [n / met for n in cell["clipped"]]
    return found


def check_samplers(result: Result) -> list[Verdict]:
    """The flow's distribution is that of the energy."""
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
            densities=DENSITIES,
            methods=tuple(METHODS),
            n_steps=1000,
            n_seeds=3,
        ),
        # Section E.1: 32 bits, 128 time steps, three layers of width 128, 100,000 steps
        # at 0.0001, and an energy as in the first chapter's paper; "paper" and the two
        # of LEAPS are the recipes. Ours: the cosine of the rate, the sizes of the
        # GFlowNet and of leConv, and how many samples evaluate.
        "paper": PlaneConfig(
            densities=DENSITIES,
            methods=tuple(METHODS),
            n_bits=BITS,
            n_energy_steps=100_000,
            n_steps=100_000,
            width=128,
            n_layers=3,
            n_time_steps=128,
            n_samples=50_000,
            learning_rate=1e-4,
        ),
    },
    cells=cells,
    job=plane_job,
    devices=("cpu", "cuda"),
    arrays={"*": "{name}/{cell}"},
    extras=exact_distributions,
    null=nothing_learned,
    figure=draw_samplers,
    check=check_samplers,
)
