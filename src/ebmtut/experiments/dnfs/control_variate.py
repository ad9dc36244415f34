"""Two estimators of the time derivative of log Z_t (Figure 1)."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.checks import Count, OneOf, Range, checked
from ebmtut.energies import LatticeIsing
from ebmtut.experiments.dnfs.recipes import LatticeConfig, new_network
from ebmtut.experiments.experiment import Experiment, Outcome, grid
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.flows import Flow
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, plain_log
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.training import FlowConfig, TrainConfig, train_flow

#: With the control variate, and without.
ESTIMATORS = ("stein", "plain")


@checked
@dataclass(frozen=True)
class VarianceConfig:
    """How the published recipe is trained with either estimator."""

    estimators: tuple[Annotated[str, OneOf(ESTIMATORS)], ...] = ESTIMATORS
    network: Annotated[str, OneOf(("leConv", "leTF"))] = "leConv"
    side: int = 10
    sigma: float = 0.1
    bias: float = 0.2
    width: int = 32
    n_steps: Annotated[int, Range(low=100)] = 1500
    learning_rate: float = 1e-3
    n_seeds: Count = 2


def variance_job(
    estimator: str,
    config: VarianceConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Train by coordinate descent and keep the spread of both estimators."""
    energy = LatticeIsing(config.side, config.sigma, config.bias).to(device)
    path = AnnealingPath(energy)
    sizes = LatticeConfig(problems=(), width=config.width)
    network = new_network(config.network, config.side, sizes, seed=seed)
    found = train_flow(
        Flow(path, network.to(device), rates="one_way", max_log_ratio=5.0),
        FlowConfig(objective=estimator),
        TrainConfig(
            n_steps=config.n_steps,
            learning_rate=config.learning_rate,
            n_warmup=200,
            clip_norm=1.0,
            decay="constant",
            precision="float32",
        ),
        generator=make_generator(seed, device),
        checkpoint=checkpoint,
        checkpoint_every=250,
        identity={"estimator": estimator, "seed": seed},
        cuda_graph=device.startswith("cuda"),
    )
    slopes = found.slope_spread
    late = slopes[-max(1, len(slopes) // 5) :].mean(0)
    return Outcome(
        {
            "std with": float(late[0]),
            "std without": float(late[1]),
            "ratio": float(late[1] / late[0]),
            "ratio at start": float(slopes[0, 1] / slopes[0, 0]),
            "loss": float(found.losses[-len(found.losses) // 5 :].mean()),
            "clipped": found.n_clipped,
            "clipped share": found.clipped_share,
        },
        {"spread": slopes, "losses": found.losses},
    )


def draw_spread(result: Result) -> Figure:
    """Draw the standard deviation of both estimators over the training."""
    figure, ax = plt.subplots(figsize=(4.8, 2.8))
    colors = {"stein": COLORS["DNFS"], "plain": COLORS["Gibbs"]}
    names = {"stein": "with control variate", "plain": "without"}
    for estimator in result.scalars["table"]:
        for k, run in enumerate(result.arrays[f"spread/{estimator}"]):
            label = names[estimator] if k == 0 else None
            at = 100 * np.arange(len(run))
            column = 0 if estimator == "stein" else 1
            ax.plot(at, run[:, column], color=colors[estimator], label=label)
    ax.set(xlabel="optimiser step", ylabel="standard deviation")
    plain_log(ax.yaxis)
    ax.legend()
    return figure


def check_spread(result: Result) -> Verdicts:
    """The control variate lowers the standard deviation five times after training."""
    name = "standard deviation without the control variate over that with it"
    ratios = result.scalars["table"]["stein"]["ratio"]
    return [claim(name, ratios, "at least", 5.0)]


def untrained(result: Result) -> Result:
    """Return the ratio of the first trajectories, before any step."""
    table = result.scalars["table"]
    cell = table["stein"] | {"ratio": table["stein"]["ratio at start"]}
    same = {**table, "stein": cell}
    return replace(result, scalars=result.scalars | {"table": same})


EXPERIMENT = Experiment(
    id="dnfs/control-variate",
    title="The Stein control variate",
    presets={
        "quick": VarianceConfig(side=5, n_steps=300, n_seeds=1, learning_rate=3e-3),
        "full": VarianceConfig(n_steps=2500, n_seeds=4),
        "paper": VarianceConfig(network="leTF", width=64, n_steps=50_000, n_seeds=1),
    },
    cells=lambda config: grid(config, estimator="estimators"),
    job=variance_job,
    arrays={"*": "{name}/{cell}"},
    stack=True,
    baseline=untrained,
    figure=draw_spread,
    check=check_spread,
    devices=("cpu", "cuda"),
)
