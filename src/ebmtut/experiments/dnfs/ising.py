"""Row dnfs/ising (Figures 5 and 15): sampling the 10x10 Ising model."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs.lattice_tables import SHOWN
from ebmtut.experiments.dnfs.lattices import (
    CRITICAL,
    LEARNED,
    NULLS,
    EnergyDistribution,
    LatticeConfig,
    cells,
    distribution_distance,
    draw_energies,
    drawn_distances,
    energy_bins,
    energy_distribution,
    exact_answers,
    lattice_job,
    seeds_of,
)
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.plotting import COLORS, panel_size
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

# What we ask of our recipe: ESS and the error of log Z, of every seed.
TARGETS = {
    "quick": {"10x10, 0.1": (0.99, 0.01), "4x4, critical": (0.98, 0.02)},
    "full": {"10x10, 0.1": (0.999, 0.005), "10x10, critical": (0.99, 0.005)},
}

_COLORS = {
    "ours": COLORS["DNFS"],
    "paper, leConv": COLORS["LEAPS"],
    "untrained": COLORS["null"],
    "AIS": COLORS["Gibbs"],
    "SMC": COLORS["DMALA"],
    "AIS x16": COLORS["GWG"],
}

_LINES = {"SMC": "--", "untrained": ":"}

_PANELS = {
    "ours": "trained flow, 64 steps",
    "AIS": "annealing (AIS), 64 sweeps",
    "SMC": "annealing (SMC), 64 sweeps",
    "AIS x16": "AIS ×16, 1,024 sweeps",
}


def draw_histograms(result: Result) -> Figure:
    """Draw unweighted energies on the last lattice, one panel for each method."""
    table = result.scalars["table"]
    column = list(table["ours"])[-1]
    side, sigma, _ = result.config["problems"][-1]
    exact = result.scalars["exact"][column]["energy"]
    shown = [m for m in _PANELS if column in table.get(m, {})]
    n_rows = math.ceil(len(shown) / 2)
    figure, axes = plt.subplots(
        n_rows,
        2,
        figsize=panel_size(n_rows, 2, aspect=0.6),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for ax in axes.flat[len(shown) :]:
        ax.set_visible(False)
    found = {m: result.arrays[f"energies/{m}/{column}"] for m in shown}
    bins = energy_bins([*found.values()], sigma)
    for ax, (method, values) in zip(axes.flat, found.items(), strict=False):
        draw_energies(ax, side, sigma, values, bins, color=_COLORS[method])
        ax.axvline(exact, color=COLORS["exact"], lw=1.2, ls="--")
        ax.set(title=_PANELS[method], yticks=[])
    for ax in axes[-1]:
        ax.set_xlabel("energy")
    return figure


def check_ising(result: Result) -> list[Verdict]:
    """ESS and error of log Z in every seed, and energies; the baselines must fail."""
    verdicts = []
    table = result.scalars["table"]
    for column, (ess, error) in TARGETS.get(result.scale, {}).items():
        cell = table["ours"].get(column)
        if cell is None:
            continue
        of: dict[str, Any] = {"n_seeds": len(cell["ESS"])}
        exact = result.scalars["exact"][column]["energy"]
        bare = {k: v[0] for k, v in table["untrained"][column].items()}
        worst = min(cell["ESS"])
        name = f"ours, {column}: smallest ESS of the seeds, continuous time"
        verdicts.append(claim(name, worst, "at least", ess, null=bare["ESS"], **of))
        errors = [abs(v) for v in cell["log Z error"]]
        name = f"ours, {column}: largest |error of log Z| of the seeds"
        null = abs(bare["log Z error"])
        verdicts.append(claim(name, max(errors), "at most", error, null=null, **of))
        for kind, words in (("", ""), (" path", ", simulated exactly")):
            mean, stderr = mean_and_stderr(cell[f"weighted energy{kind}"])
            name = f"ours, {column}: relative error of the weighted mean energy{words}"
            off = abs(mean - exact) / abs(exact)
            share = None if stderr is None else stderr / abs(exact)
            null = abs(bare[f"weighted energy{kind}"] - exact) / abs(exact)
            verdict = claim(name, off, "at most", 0.01, stderr=share, null=null, **of)
            verdicts.append(verdict)
        name = f"ours, {column}: distance of the first seed's energies from their exact"
        name += " law, over that of as many exact draws"
        verdict = claim(
            name,
            _in_noise(result, "ours", column),
            "at most",
            3.0,
            null=_in_noise(result, "untrained", column),
        )
        verdicts.append(verdict)
        nulls = [
            max(v for v in table[m][column]["ESS"] if math.isfinite(v))
            for m in ("untrained", "AIS", "SMC")
            if m in table
        ]
        name = f"{column}: best ESS of a null of as many evaluations"
        verdicts.append(
            claim(name, max(nulls), "at most", min(worst, ess), sanity=True)
        )
    return verdicts


def _noise(
    result: Result, column: str, distribution: EnergyDistribution
) -> tuple[float, float]:
    """Distance of as many exact draws as a method has, of one fixed seed."""
    n = len(result.arrays[f"energies/ours/{column}"])
    return drawn_distances(distribution, n, generator=make_generator(0))


def _distributions(result: Result) -> dict[str, EnergyDistribution]:
    columns = result.scalars["exact"]
    problems = result.config["problems"]
    return {
        column: energy_distribution(side, sigma)
        for column, (side, sigma, _) in zip(columns, problems, strict=True)
    }


def _in_noise(result: Result, method: str, column: str) -> float:
    distribution = _distributions(result)[column]
    energies = result.arrays[f"energies/{method}/{column}"]
    return (
        distribution_distance(energies, distribution)
        / _noise(result, column, distribution)[0]
    )


def distribution_table(result: Result) -> Table:
    """Tabulate the distance of energies from their exact distribution by lattice."""
    rows = list(result.scalars["table"])
    columns: dict[str, list[Cell]] = {
        "method": [*(SHOWN.get(m, m) for m in rows), "long Gibbs", "exact samples"]
    }
    for column, distribution in _distributions(result).items():
        noise = _noise(result, column, distribution)
        for words in ("", ", weighted"):
            cells: list[Cell] = []
            for method in rows:
                of = f"{method}/{column}"
                energies = result.arrays.get(f"energies/{of}")
                weights = result.arrays.get(f"log_weights/{of}") if words else None
                cells.append(
                    None
                    if energies is None
                    else distribution_distance(energies, distribution, weights)
                )
            long = distribution_distance(
                result.arrays[f"long Gibbs/{column}"], distribution
            )
            ends: list[Cell] = [None, None] if words else [long, noise]
            columns[column.partition(", ")[2] + words] = [*cells, *ends]
    return Table(
        columns,
        caption="Wasserstein distance of energies from their distribution, first runs.",
        kinds=["" if m in LEARNED else "null" for m in rows] + ["", "exact"],
    )


EXPERIMENT = Experiment(
    id="dnfs/ising",
    title="Sampling the 10x10 Ising model",
    presets={
        "quick": LatticeConfig(
            problems=((10, 0.1, 700), (4, CRITICAL, 500)),
            n_seeds=1,
            n_samples=1000,
            n_chain_samples=50,
        ),
        "full": LatticeConfig(
            problems=((10, 0.1, 3000), (10, CRITICAL, 10_000)),
            methods=("ours", "paper, leConv", *NULLS),
            rival_steps=2,
        ),
        "paper": LatticeConfig(
            problems=((10, 0.1, 100_000),),
            methods=("ours", "paper, leTF", "LEAPS, leConv", "untrained", "AIS"),
            width=128,
            learning_rate=1e-3,
            n_samples=5000,
        ),
    },
    cells=cells,
    job=lattice_job,
    n_seeds=seeds_of,
    arrays={"*": "{name}/{cell}"},
    extras=exact_answers,
    figure=draw_histograms,
    check=check_ising,
    devices=("cpu", "cuda"),
)
