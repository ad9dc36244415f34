"""Locally equivariant networks compared (Figures 3 and 14)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from torch import nn

from ebmtut import flows
from ebmtut.checks import Count, OneOf, checked
from ebmtut.energies import LatticeIsing, lattice_coloring
from ebmtut.exact import lattice_log_partition
from ebmtut.experiments.dnfs.recipes import LatticeConfig, new_network
from ebmtut.experiments.experiment import Experiment, Outcome, grid, stream, with_cells
from ebmtut.experiments.pivot import spread, spread_of_ess
from ebmtut.experiments.verdicts import Verdicts, claim, mean_and_stderr
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, OKABE_ITO
from ebmtut.random import make_generator
from ebmtut.results import Cell, Result, Table
from ebmtut.training import FlowConfig, TrainConfig, train_flow

#: Optimiser steps that take about as long, in units of those of leTF: measured
#: at 16 sites and width 32; the table shows the seconds.
PACE = {"leTF": 1, "leAttn": 9, "leMLP": 10, "leConv": 20, "odd lattice": 20}
_COLORS = {
    "leTF": OKABE_ITO["vermillion"],
    "leConv": COLORS["LEAPS"],
    "leMLP": COLORS["Gibbs"],
    "leAttn": COLORS["DMALA"],
    "odd lattice": COLORS["DNFS"],
}


@checked
@dataclass(frozen=True)
class NetworkConfig:
    """How networks are compared, all with the same rates, trajectories and loss."""

    networks: tuple[Annotated[str, OneOf(PACE)], ...] = tuple(PACE)
    #: Of rates, trajectories and loss: the book's, or the published one.
    recipe: Annotated[str, OneOf(("ours", "paper"))] = "ours"
    side: Count = 4
    sigma: float = 0.2
    bias: float = 0.0
    #: Of leTF; others take `PACE` times as many, or as many by the published recipe.
    n_steps: Count = 1500
    n_seeds: Count = 2
    n_samples: Count = 2000
    sizes: LatticeConfig = field(default_factory=lambda: LatticeConfig(problems=()))


def network_job(
    network: str,
    config: NetworkConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Train one network, and evaluate it before and after."""
    energy = LatticeIsing(config.side, config.sigma, config.bias).to(device)
    path = AnnealingPath(energy)
    made = new_network(network, config.side, config.sizes, seed=seed).to(device)
    ours = config.recipe == "ours"
    rates = "reversible" if ours else "one_way"
    exact = lattice_log_partition(config.side, config.sigma, config.bias)
    colors = lattice_coloring(config.side).to(device)

    def evaluated(net: nn.Module, mark: str) -> dict[str, float]:
        flow = flows.Flow(path, net, rates=rates)
        own = stream("evaluation", seed, device)
        drawn = flows.simulate(flow, config.n_samples, 64, generator=own)
        w = drawn.log_weights
        z = flows.log_partition(w, path.log_partition_start)
        return {
            f"{mark}ESS": flows.effective_sample_size(w),
            f"{mark}log Z error": z.estimate - exact,
            f"{mark}weighted energy": float(flows.weighted_mean(w, energy(drawn.x))),
        }

    bare = evaluated(made, "bare ")
    fit = FlowConfig(n_time_steps=32) if ours else FlowConfig(objective="stein")
    found = train_flow(
        flows.Flow(path, made, rates=rates, max_log_ratio=None if ours else 5.0),
        fit,
        TrainConfig(
            n_steps=(PACE[network] if ours else 1) * config.n_steps,
            learning_rate=config.sizes.learning_rate,
            decay="cosine" if ours else "constant",
            clip_norm=1.0,
            precision="float32",
        ),
        generator=make_generator(seed, device),
        refine=flows.gibbs_kernel(path, colors) if ours else None,
        checkpoint=checkpoint,
        checkpoint_every=250,
        identity={"network": network, "sigma": config.sigma, "seed": seed},
        cuda_graph=device.startswith("cuda"),
    )
    scalars = evaluated(found.flow.network, "") | bare
    scalars |= {"train cpu s": found.cpu_seconds, "steps": len(found.losses)}
    scalars["loss"] = float(found.losses[-100:].mean())
    return Outcome(scalars, {"losses": found.losses})


def draw_losses(result: Result) -> Figure:
    """Draw the losses over the training, by its CPU seconds, and the ESS.

    The colours of the names on the right are those of both panels.
    """
    table = result.scalars["table"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(4.8, 3.0))
    for k, (name, cell) in enumerate(table.items()):
        losses = result.arrays[f"losses/{name}"]
        blocks = np.array_split(losses, min(20, len(losses)))
        at = (np.arange(len(blocks)) + 0.5) / len(blocks)
        seconds = cell["train cpu s"][0] * at
        left.plot(seconds, [part.mean() for part in blocks], color=_COLORS[name])
        right.plot([k] * len(cell["ESS"]), cell["ESS"], "o", color=_COLORS[name])
    left.set(xlabel="CPU seconds", ylabel="loss", yscale="log")
    right.set_xticks(range(len(table)), list(table), rotation=90)
    for tick, name in zip(right.get_xticklabels(), table, strict=True):
        tick.set_color(_COLORS[name])
    right.set(ylabel="ESS, path weights", ylim=(0, 1.02))
    return figure


def exact_energy(config: Mapping[str, Any]) -> float:
    """Return the exact mean energy, from central differences of log Z."""
    step = 1e-4

    def log_z(scale: float) -> float:
        sigma, bias = scale * config["sigma"], scale * config.get("bias", 0.0)
        return lattice_log_partition(config["side"], sigma, bias)

    return -(log_z(1 + step) - log_z(1 - step)) / (2 * step)


def network_table(result: Result) -> Table:
    """Scores of every network and of the same untrained, and the exact answers."""
    table, config = result.scalars["table"], result.config
    names = list(table)
    columns: dict[str, list[Cell]] = {
        "network": [*names, *(f"{name}, untrained" for name in names), "exact"]
    }
    heads = {"ESS": (3, 1.0), "log Z error": (4, 0.0)}
    for head, (digits, exact) in heads.items():
        columns[head] = [*_spread(table, head, digits), exact]
    errors = [c[m + "log Z error"] for m in ("", "bare ") for c in table.values()]
    log_rmse = [0.5 * math.log(np.mean(np.square(error))) for error in errors]
    columns["log RMSE"] = [*(round(value, 1) + 0.0 for value in log_rmse), None]
    energy = round(exact_energy(config), 2)
    columns["weighted energy"] = [*_spread(table, "weighted energy", 2), energy]
    by_paper = config.get("recipe") == "paper"
    effort = "as many steps" if by_paper else "about equal CPU time"
    nothing: list[Cell] = [None] * (len(names) + 1)
    columns["steps"] = [*(int(cell["steps"][0]) for cell in table.values()), *nothing]
    seconds = [mean_and_stderr(cell["train cpu s"])[0] for cell in table.values()]
    columns["CPU s"] = [*(round(s, 1) for s in seconds), *nothing]
    return Table(
        columns,
        caption=f"{config['side']} x {config['side']} at sigma = {config['sigma']:g}, "
        f"{effort}; ESS and energy by path weights.",
        kinds=[*("" for _ in names), *("null" for _ in names), "exact"],
        digits=4,
    )


def short_table(result: Result) -> Table:
    """ESS, error of log Z, steps and seconds of every trained network."""
    table = result.scalars["table"]
    seconds = [mean_and_stderr(cell["train cpu s"])[0] for cell in table.values()]
    return Table(
        {
            "network": list(table),
            "ESS, path weights": [spread_of_ess(c["ESS"]) for c in table.values()],
            "log Z error": [spread(c["log Z error"]) for c in table.values()],
            "steps": [int(cell["steps"][0]) for cell in table.values()],
            "CPU s": [round(s) for s in seconds],
        }
    )


def _spread(table: Mapping[str, Any], head: str, digits: int) -> list[Cell]:
    """Mean and standard error of each network, then of each untrained one."""
    marks = ("", "bare ")
    return [spread(c[m + head], digits) for m in marks for c in table.values()]


def check_order(result: Result) -> Verdicts:
    """The paper's order: transformer and convolution above the shallow ones."""
    table = result.scalars["table"]
    for deep in ("leTF", "leConv"):
        for flat in ("leAttn", "leMLP"):
            if deep in table and flat in table:
                gain = np.mean(table[deep]["ESS"]) - np.mean(table[flat]["ESS"])
                name = f"ESS of {deep} minus that of {flat}"
                n_seeds = len(table[deep]["ESS"])
                yield claim(name, float(gain), "at least", 0.005, n_seeds=n_seeds)


def no_difference(result: Result) -> Result:
    """Return a result in which all networks have the ESS of one untrained network."""
    first = next(iter(result.scalars["table"].values()))
    return with_cells(result, lambda cell, name: {"ESS": first["bare ESS"]})


EXPERIMENT = Experiment(
    id="dnfs/networks",
    title="Locally equivariant networks",
    presets={
        "quick": NetworkConfig(n_steps=80, n_seeds=1, n_samples=500),
        "full": NetworkConfig(side=5, n_steps=250),
        # leTF's sizes, the steps and the clipping are those of Appendix E.1; the widths
        # of the other networks, the trajectories and the samples are our choice.
        "paper": NetworkConfig(
            networks=("leMLP", "leAttn", "leConv", "leTF"),
            recipe="paper",
            side=10,
            sigma=0.1,
            bias=0.2,
            n_steps=50_000,
            n_seeds=1,
            n_samples=5000,
            sizes=LatticeConfig(problems=(), width=64, learning_rate=1e-3),
        ),
    },
    cells=lambda config: grid(config, network="networks"),
    job=network_job,
    arrays={"*": "{name}/{cell}"},
    # Seconds are part of the result.
    parallel=False,
    baseline=no_difference,
    figure=draw_losses,
    check=check_order,
    devices=("cpu", "cuda"),
)
