"""Row dnfs/ising-mcmc (Figure 13): energies after 64 steps of Markov chains."""

import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from ebmtut.checks import Count, OneOf, checked
from ebmtut.energies import LatticeIsing
from ebmtut.exact import torus_correlations
from ebmtut.experiments.dnfs import lattices
from ebmtut.experiments.dnfs.recipes import LEARNED, LatticeConfig, new_network
from ebmtut.experiments.experiment import Experiment, Outcome, grid, stream
from ebmtut.experiments.pivot import spread
from ebmtut.experiments.verdicts import Verdicts, claim, mean_and_stderr
from ebmtut.flows import Flow, simulate
from ebmtut.paths import AnnealingPath
from ebmtut.plotting import COLORS
from ebmtut.results import Cell, Result, Table
from ebmtut.samplers import dmala, gibbs, gwg, ising_gibbs, run_chain

#: What tables and pictures call a method, where that is another name.
_SHOWN = {"DNFS": "trained flow", "untrained": "untrained flow"}
METHODS = ("DNFS", "untrained", "Gibbs", "GWG", "DMALA", "Gibbs sweeps")


@checked
@dataclass(frozen=True)
class McmcConfig:
    """How a flow and Markov chains are compared after as many steps."""

    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = METHODS
    #: Even, at most 10: its distribution of the energy is known.
    side: int = 10
    sigma: float = 0.1
    n_steps: Count = 64
    n_samples: Count = 5000
    #: Of DMALA.
    step_size: float = 0.4
    #: Optimiser steps of the flow.
    n_train: Count = 800
    n_seeds: Count = 3
    recipe: Annotated[str, OneOf(LEARNED)] = "ours"
    flow: LatticeConfig = field(default_factory=lambda: LatticeConfig(problems=()))


def mcmc_job(
    method: str,
    config: McmcConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Draw samples by one method and compare them with the exact distribution."""
    distribution = lattices.energy_distribution(config.side, config.sigma)
    energy = LatticeIsing(config.side, config.sigma).to(device)
    path = AnnealingPath(energy)
    scalars: dict[str, Any] = {}
    generator = stream("evaluation", seed, device)
    if method == "DNFS":
        flow, scalars, _ = lattices.train_lattice_flow(
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
    long = _long_chains(energy.cpu(), n, seed)
    return Outcome(
        {
            **scalars,
            **_scores(x.cpu(), found, distribution),
            "of long chains": _scores(long, energy(long).numpy(), distribution),
        },
        {"energies": found},
    )


def _scores(
    x: Tensor, energies: np.ndarray, distribution: lattices.EnergyDistribution
) -> dict[str, Any]:
    side = math.isqrt(x.shape[1])
    return {
        "distance": lattices.distribution_distance(energies, distribution),
        "mean energy": float(energies.mean()),
        "products": lattices.pair_products(x, side).mean(0).tolist(),
    }


def _long_chains(energy: LatticeIsing, n: int, seed: int) -> Tensor:
    generator = stream("long chains", seed)
    x = AnnealingPath(energy).sample_start(n, generator=generator)
    return ising_gibbs(energy, x, 1000, generator=generator)


def exact_answers(config: McmcConfig, seed: int) -> Outcome:
    """Exact mean energy and correlations, sampling error, and long Gibbs chains."""
    side, sigma, n = config.side, config.sigma, config.n_samples
    distribution = lattices.energy_distribution(side, sigma)
    energy, generator = LatticeIsing(side, sigma), stream("sampling error", seed)
    exact = {
        "mean energy": float(distribution.levels @ distribution.chances),
        "products": torus_correlations(side, side, 2 * sigma)[1:].tolist(),
        "noise": lattices.drawn_distances(distribution, n, generator=generator),
    }
    long = energy(_long_chains(energy, n, seed)).numpy()
    return Outcome({"exact": exact}, {"long": long})


_ORDER = {
    "DMALA": "DMALA",
    "Gibbs sweeps": "Gibbs sweeps",
    "DNFS": "trained flow",
    "GWG": "GWG",
    "Gibbs": "single-site Gibbs",
    "untrained": "untrained flow",
}


def draw_distances(result: Result) -> Figure:
    """Draw each method's distance from the exact distribution, with its CPU time."""
    table = result.scalars["table"]
    noise, spread = result.scalars["exact"]["noise"]
    figure, ax = plt.subplots(figsize=(4.8, 2.8))
    ax.axvspan(noise - spread, noise + spread, color="#D0D0D0")
    shown = [method for method in _ORDER if method in table]
    for k, method in enumerate(shown):
        mean, stderr = mean_and_stderr(table[method]["distance"])
        flow = method in ("DNFS", "untrained")
        color = COLORS["DNFS" if flow else "Gibbs"]
        ax.errorbar(mean, k, xerr=stderr, fmt="o", color=color, ms=7, capsize=4)
        seconds = f"{np.mean(table[method]['cpu s']):.2g} s"
        how: dict[str, Any] = {"va": "center", "ha": "right"}
        ax.annotate(seconds, (1.0, k), xycoords=("axes fraction", "data"), **how)
    ax.set(xscale="log", xlim=(None, 40), ylim=(len(shown) - 0.5, -0.5))
    ax.set_xlabel("distance from the exact distribution [nats]")
    ax.set_yticks(range(len(shown)), [_ORDER[method] for method in shown])
    return figure


def _rows_of(result: Result) -> dict[str, dict[str, Any]]:
    """Return what is known of every method, and of long chains."""
    table = dict(result.scalars["table"])
    long = table["DNFS"]["of long chains"]
    table["long chains"] = {key: [run[key] for run in long] for key in long[0]}
    return table


def distance_table(result: Result) -> Table:
    """Distance from the exact distribution, mean energy and CPU seconds."""
    rows, exact = _rows_of(result), result.scalars["exact"]
    config = result.config
    columns: dict[str, list[Cell]] = {
        "method": [*(_SHOWN.get(m, m) for m in rows), "exact samples"]
    }
    heads = {"distance": "distance", "mean energy": "mean energy", "CPU s": "cpu s"}
    for head, key in heads.items():
        columns[head] = [
            mean_and_stderr(row[key]) if key in row else None for row in rows.values()
        ]
    columns["distance"].append(tuple(exact["noise"]))
    columns["mean energy"].append(round(exact["mean energy"], 3))
    columns["CPU s"].append(None)
    return Table(
        columns,
        caption=f"After {config['n_steps']} steps from noise, sigma = "
        f"{config['sigma']:g}: distance from the exact distribution; errors over runs, "
        f"of exact samples the spread of sets. CPU seconds of {config['n_samples']} "
        "samples.",
        kinds=[*("null" if m == "untrained" else "" for m in rows), "exact"],
    )


def correlation_table(result: Result) -> Table:
    """Correlations of two spins, by their distance along an axis."""
    rows, exact = _rows_of(result), result.scalars["exact"]["products"]
    columns: dict[str, list[Cell]] = {
        "method": [*(_SHOWN.get(m, m) for m in rows), "exact"]
    }
    for r, known in enumerate(exact):
        found = [[run[r] for run in row["products"]] for row in rows.values()]
        columns[f"distance {r + 1}"] = [*map(spread, found), round(known, 4)]
    return Table(
        columns,
        caption="Correlation of two spins, by their distance along an axis.",
        kinds=[*("null" if m == "untrained" else "" for m in rows), "exact"],
        digits=4,
    )


def check_energies(result: Result) -> Verdicts:
    """The flow is nearer than single-site chains, and near to exact samples."""
    table = result.scalars["table"]
    ours = table["DNFS"]["distance"]
    for method in ("Gibbs", "GWG"):
        if method in table:
            theirs = float(np.mean(table[method]["distance"]))
            name = f"error of the flow's energies, bounded by that of {method}"
            yield claim(name, ours, "at most", theirs)
    noise, _ = result.scalars["exact"]["noise"]
    name = "error of the flow's energies over that of equally many exact samples"
    mean, stderr = mean_and_stderr(ours)
    scaled = None if stderr is None else stderr / noise
    yield claim(name, mean / noise, "at most", 3.0, stderr=scaled, n_seeds=len(ours))
    found = np.mean(table["DNFS"]["products"], axis=0)
    worst = float(np.abs(found - result.scalars["exact"]["products"]).max())
    name = "largest error of the flow's correlation of two spins, over their distances"
    yield claim(name, worst, "at most", 0.01, n_seeds=len(ours))


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
    cells=lambda config: grid(config, method="methods"),
    job=mcmc_job,
    arrays={"energies": "energies/{cell}"},
    extras=exact_answers,
    baseline=nothing_learned,
    figure=draw_distances,
    check=check_energies,
    devices=("cpu", "cuda"),
)
