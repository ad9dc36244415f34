"""Row dnfs/ising-mcmc (Figure 13): energies after 64 steps of Markov chains."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import wasserstein_distance

from ebmtut.checks import Count, OneOf, checked
from ebmtut.energies import LatticeIsing
from ebmtut.experiments.dnfs.lattice_judge import energy_bins
from ebmtut.experiments.dnfs.lattices import (
    LEARNED,
    LatticeConfig,
    new_network,
    train_lattice_flow,
)
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.flows import Flow, simulate
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS, figure_size
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table
from ebmtut.samplers import dmala, gibbs, gwg, ising_gibbs, run_chain

__all__ = ["EXPERIMENT", "McmcConfig", "distance_table", "mcmc_job"]

_NAMED = {"Gibbs sweeps": "Gibbs", "untrained": "null"}
METHODS = ("DNFS", "untrained", "Gibbs", "GWG", "DMALA", "Gibbs sweeps")


@checked
@dataclass(frozen=True)
class McmcConfig:
    """How a flow and Markov chains are compared at as many steps.

    Parameters
    ----------
    methods
        Some of "DNFS", "untrained", "Gibbs", "GWG" and "DMALA", 64 steps of
        each, and "Gibbs sweeps", which updates every site in each of its steps, as the
        flow may.
    side, sigma
        The lattice.
    n_steps
        Steps of the samplers.
    n_samples
        Samples of each.
    step_size
        Of DMALA.
    n_train
        Optimiser steps of the flow.
    n_seeds
        Independent runs.
    recipe
        How the flow learns: one of `LEARNED`.
    flow
        Width, learning rate and time steps of its training.
    """

    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = METHODS
    side: int = 10
    sigma: float = 0.1
    n_steps: Count = 64
    n_samples: Count = 5000
    step_size: float = 0.4
    n_train: Count = 800
    n_seeds: Count = 3
    recipe: Annotated[str, OneOf(LEARNED)] = "ours"
    flow: LatticeConfig = field(default_factory=lambda: LatticeConfig(problems=()))


def cells(config: McmcConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method."""
    alone = replace(config, methods=(), n_seeds=1)
    return {(m,): {"method": m, "config": alone} for m in config.methods}


def mcmc_job(
    method: str,
    config: McmcConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Draw samples by one method and compare their energies with long chains.

    Returns
    -------
    outcome
        First Wasserstein distance of the energies, the same between two halves
        of long chains, mean energy and CPU seconds; the energies.
    """
    energy = LatticeIsing(config.side, config.sigma).to(device)
    path = AnnealingPath(energy)
    scalars: dict[str, Any] = {}
    generator = make_generator(seed + 1_000_000, device)
    if method == "DNFS":
        flow, scalars, _ = train_lattice_flow(
            config.recipe,
            path,
            config.n_train,
            config.flow,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
        )
        scalars = {"train cpu s": scalars["train cpu s"]}
    elif method == "untrained":
        network = new_network(method, config.side, config.flow, seed=seed)
        flow = Flow(path, network.to(device))
    began = time.process_time()
    n, n_steps = config.n_samples, config.n_steps
    x = path.sample_start(n, generator=generator)
    if method in ("DNFS", "untrained"):
        x = simulate(flow, n, n_steps, start=x, generator=generator).x
    elif method == "Gibbs sweeps":
        x = ising_gibbs(energy, x, n_steps, generator=generator)
    else:
        sampler = {
            "Gibbs": lambda: gibbs(energy),
            "GWG": lambda: gwg(energy),
            "DMALA": lambda: dmala(energy, config.step_size, ratios="exact"),
        }[method]()
        x = run_chain(sampler, x, n_steps, generator=generator).x_final
    scalars["cpu s"] = time.process_time() - began
    found = energy(x).cpu().numpy()
    energy = energy.cpu()
    long = _long_chains(energy, n, seed)
    other = _long_chains(energy, n, seed + 500_000)
    return Outcome(
        {
            **scalars,
            "distance": wasserstein_distance(found, long),
            "distance of long chains": wasserstein_distance(other, long),
            "mean energy": float(found.mean()),
        },
        {"energies": found},
    )


def _long_chains(energy: LatticeIsing, n: int, seed: int) -> np.ndarray:
    generator = make_generator(seed + 2_000_000)
    x = AnnealingPath(energy).sample_start(n, generator=generator)
    energies: np.ndarray = energy(
        ising_gibbs(energy, x, 1000, generator=generator)
    ).numpy()
    return energies


def long_chains(config: McmcConfig, seed: int) -> Outcome:
    """Return energies of long Gibbs chains, the truth of the figure."""
    energy = LatticeIsing(config.side, config.sigma)
    return Outcome(arrays={"long": _long_chains(energy, config.n_samples, seed)})


def draw_energies(result: Result) -> Figure:
    """Draw the histograms of all methods over that of long chains."""
    figure, ax = plt.subplots(figsize=figure_size("wide"))
    methods = list(result.scalars["table"])
    everything = [result.arrays["long"]]
    everything += [result.arrays[f"energies/{m}"] for m in methods]
    bins = energy_bins(everything, result.config["sigma"])
    ax.hist(everything[0], bins, density=True, color="#DDDDDD", label="long Gibbs")
    for method, energies in zip(methods, everything[1:], strict=True):
        sweeps = method == "Gibbs sweeps"
        color = COLORS[
            {"Gibbs sweeps": "Gibbs", "untrained": "null"}.get(method, method)
        ]
        style = "--" if sweeps else "-"
        ax.hist(
            energies,
            bins,
            density=True,
            histtype="step",
            color=color,
            ls=style,
            label=f"{method}, {result.config['n_steps']} steps",
        )
    ax.set(xlabel="energy", ylabel="density", yticks=[])
    ax.legend(fontsize=7)
    return figure


def distance_table(result: Result) -> Table:
    """Distance from long chains, mean energy and CPU seconds of every method."""
    cells = result.scalars["table"]
    columns: dict[str, list[Cell]] = {"method": [*cells, "long chains"]}
    heads = {"distance": "distance", "mean energy": "mean energy", "CPU s": "cpu s"}
    for head, key in heads.items():
        columns[head] = [mean_and_stderr(cell[key]) for cell in cells.values()] + [None]
    columns["distance"][-1] = mean_and_stderr(cells["DNFS"]["distance of long chains"])
    kinds = ["null" if method == "untrained" else "" for method in cells]
    return Table(
        columns,
        caption=f"After {result.config['n_steps']} steps from noise, sigma = "
        f"{result.config['sigma']:g}; errors over runs. CPU seconds of "
        f"{result.config['n_samples']} samples.",
        kinds=[*kinds, "exact"],
        digits=2,
    )


def check_energies(result: Result) -> list[Verdict]:
    """The flow is nearer than single-site chains, and near to long ones.

    DMALA and whole sweeps change many sites a step, as the flow does: that it is
    nearer than they is no claim.
    """
    table = result.scalars["table"]
    ours, stderr = mean_and_stderr(table["DNFS"]["distance"])
    of: dict[str, Any] = {"stderr": stderr, "n_seeds": len(table["DNFS"]["distance"])}
    verdicts = []
    for method in ("Gibbs", "GWG"):
        if method in table:
            theirs = float(np.mean(table[method]["distance"]))
            name = f"distance of the energies, DNFS below {method}"
            verdicts.append(claim(name, ours, "at most", theirs, **of))
    noise = float(np.mean(table["DNFS"]["distance of long chains"]))
    name = "distance of DNFS over that of two sets of long chains"
    verdicts.append(claim(name, ours / noise, "at most", 3.0, n_seeds=of["n_seeds"]))
    return verdicts


def nothing_learned(result: Result) -> Result:
    """Return the untrained flow in the place of the trained one."""
    table = result.scalars["table"]
    same = {**table, "DNFS": table["untrained"]}
    return replace(result, scalars=result.scalars | {"table": same})


EXPERIMENT = Experiment(
    id="dnfs/ising-mcmc",
    title="Energy histogram against MCMC",
    presets={
        "quick": McmcConfig(n_samples=500, n_train=250, n_seeds=1),
        "full": McmcConfig(),
        "paper": McmcConfig(
            recipe="paper, leTF",
            n_train=100_000,
            n_seeds=1,
            flow=LatticeConfig(problems=(), width=128, learning_rate=1e-3),
        ),
    },
    cells=cells,
    job=mcmc_job,
    arrays={"energies": "energies/{cell}"},
    extras=long_chains,
    null=nothing_learned,
    figure=draw_energies,
    check=check_energies,
    devices=("cpu", "cuda"),
)
