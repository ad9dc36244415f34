"""Row dnfs/ising (Figures 5 and 15): sampling the 10x10 Ising model."""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.experiments.dnfs import lattices
from ebmtut.experiments.dnfs.lattices import SHOWN
from ebmtut.experiments.dnfs.recipes import BASELINES, CRITICAL, LEARNED, LatticeConfig
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.verdicts import Verdicts, claim, mean_and_stderr
from ebmtut.plotting import COLORS
from ebmtut.random import make_generator
from ebmtut.results import Cell, Result, Table

# Claimed of the book's recipe: ESS and the error of log Z, of every seed.
TARGETS = {
    "quick": {"10x10, 0.1": (0.99, 0.01), "4x4, critical": (0.98, 0.02)},
    "full": {"10x10, 0.1": (0.999, 0.005), "10x10, critical": (0.99, 0.005)},
}

#: Methods of the figure: title and colour.
_PANELS = {
    "ours": ("flow, 64 steps", COLORS["DNFS"]),
    "AIS": ("AIS, 64 sweeps", COLORS["Gibbs"]),
    "AIS x4": ("AIS ×4, 256 sweeps", COLORS["DMALA"]),
    "AIS x16": ("AIS ×16, 1,024 sweeps", COLORS["GWG"]),
}


def draw_histograms(result: Result) -> Figure:
    """Draw unweighted energies on the last lattice, one panel for each method."""
    table = result.scalars["table"]
    column = list(table["ours"])[-1]
    side, sigma = lattices.lattices_of(result)[column]
    exact = result.scalars["exact"][column]["energy"]
    shown = [m for m in _PANELS if column in table.get(m, {})]
    n_rows = math.ceil(len(shown) / 2)
    how: dict[str, Any] = {"sharex": True, "sharey": True, "squeeze": False}
    figure, axes = plt.subplots(n_rows, 2, figsize=(4.8, 1.8 * n_rows), **how)
    for ax in axes.flat[len(shown) :]:
        ax.set_visible(False)
    found = {m: result.arrays[f"energies/{m}/{column}"] for m in shown}
    bins = energy_bins([*found.values()], sigma)
    levels, chances = lattices.energy_distribution(side, sigma)
    density = np.histogram(levels, bins, weights=chances)[0] / np.diff(bins)
    for ax, (method, values) in zip(axes.flat, found.items(), strict=False):
        title, color = _PANELS[method]
        ax.stairs(density, bins, fill=True, color="#D0D0D0")
        ax.hist(values, bins, density=True, histtype="step", color=color, lw=1.8)
        ax.axvline(exact, color=COLORS["exact"], lw=1.2, ls="--")
        ax.set(yticks=[])
        ax.set_title(title, fontsize=9)
    for ax in axes[-1]:
        ax.set_xlabel("energy")
    for ax in axes[:, 0]:
        ax.set_ylabel("density")
    return figure


def energy_bins(energies: Sequence[np.ndarray], sigma: float) -> list[float]:
    """Edges of bins that hold equally many levels, which lie 8 sigma apart."""
    low = min(float(np.quantile(e, 0.002, method="lower")) for e in energies)
    high = max(float(np.quantile(e, 0.998)) for e in energies)
    level = 8 * abs(sigma)
    width = level * max(1, round((high - low) / level / 30))
    first = low - level / 2
    return [first + k * width for k in range(math.ceil((high - first) / width) + 1)]


def check_ising(result: Result) -> Verdicts:
    """ESS and error of log Z in every seed, and energies; the baselines must fail."""
    table = result.scalars["table"]
    for column, (ess, error) in TARGETS.get(result.scale, {}).items():
        cell = table["ours"].get(column)
        if cell is None:
            continue
        of: dict[str, Any] = {"n_seeds": len(cell["ESS"])}
        exact = result.scalars["exact"][column]["energy"]
        bare = {k: v[0] for k, v in table["untrained"][column].items()}
        worst = min(cell["ESS"])
        name = f"flow, {column}: smallest ESS of the seeds, by path weights"
        yield claim(name, worst, "at least", ess, baseline=bare["ESS"], **of)
        errors = [abs(v) for v in cell["log Z error"]]
        name = f"flow, {column}: largest |error of log Z| of the seeds"
        null = abs(bare["log Z error"])
        yield claim(name, max(errors), "at most", error, baseline=null, **of)
        for kind, words in (("", ""), (" path", ", simulated exactly")):
            mean, stderr = mean_and_stderr(cell[f"weighted energy{kind}"])
            name = f"flow, {column}: relative error of the weighted mean energy{words}"
            off = abs(mean - exact) / abs(exact)
            share = None if stderr is None else stderr / abs(exact)
            null = abs(bare[f"weighted energy{kind}"] - exact) / abs(exact)
            yield claim(name, off, "at most", 0.01, stderr=share, baseline=null, **of)
        name = f"flow, {column}: distance of the first seed's energies from the"
        name += " exact distribution, relative to equally many exact samples"
        off, null = (_in_noise(result, m, column) for m in ("ours", "untrained"))
        yield claim(name, off, "at most", 3.0, baseline=null)
        best = max(
            max(v for v in table[m][column]["ESS"] if math.isfinite(v))
            for m in ("untrained", "AIS", "SMC")
            if m in table
        )
        name = f"{column}: best ESS of a baseline with equally many evaluations"
        yield claim(name, best, "at most", min(worst, ess), sanity=True)


def _noise(
    result: Result, column: str, distribution: lattices.EnergyDistribution
) -> tuple[float, float]:
    """Distance of as many exact draws as a method has, of one fixed seed."""
    n = len(result.arrays[f"energies/ours/{column}"])
    return lattices.drawn_distances(distribution, n, generator=make_generator(0))


def _distributions(result: Result) -> dict[str, lattices.EnergyDistribution]:
    return {
        column: lattices.energy_distribution(*lattice)
        for column, lattice in lattices.lattices_of(result).items()
    }


def _in_noise(result: Result, method: str, column: str) -> float:
    exact = _distributions(result)[column]
    energies = result.arrays[f"energies/{method}/{column}"]
    found = lattices.distribution_distance(energies, exact)
    return found / _noise(result, column, exact)[0]


def distribution_table(result: Result) -> Table:
    """Tabulate the distance of energies from their exact distribution by lattice."""
    rows = list(result.scalars["table"])
    columns: dict[str, list[Cell]] = {
        "method": [*(SHOWN.get(m, m) for m in rows), "long Gibbs", "exact samples"]
    }
    distance, found = lattices.distribution_distance, lattices.lattices_of(result)
    for column, exact in _distributions(result).items():
        noise = _noise(result, column, exact)
        for words in ("", ", weighted"):
            cells: list[Cell] = []
            for method in rows:
                of = f"{method}/{column}"
                x = result.arrays.get(f"energies/{of}")
                weights = result.arrays.get(f"log_weights/{of}") if words else None
                cells.append(None if x is None else distance(x, exact, weights))
            long = distance(result.arrays[f"long Gibbs/{column}"], exact)
            ends: list[Cell] = [None, None] if words else [long, noise]
            columns[found[column].coupling + words] = [*cells, *ends]
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
            methods=("ours", "paper, leConv", *BASELINES),
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
    cells=lattices.cells,
    job=lattices.lattice_job,
    n_seeds=lattices.seeds_of,
    arrays={"*": "{name}/{cell}"},
    extras=lattices.exact_answers,
    figure=draw_histograms,
    check=check_ising,
    devices=("cpu", "cuda"),
)
