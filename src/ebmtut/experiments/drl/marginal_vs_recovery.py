"""drl/marginal-vs-recovery (Figure 2): recovery or marginal likelihood."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebmtut.checks import Count, OneOf, check_range, checked
from ebmtut.data import DENSITIES
from ebmtut.experiments.drl import plane as shared
from ebmtut.experiments.drl.plane import METHODS, PLANE, exact_log_density
from ebmtut.experiments.experiment import Experiment, Outcome, Runs, nested
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import Verdicts, claim, mean_and_stderr
from ebmtut.plotting import landscape, panel_size
from ebmtut.results import Cell, Result, Table, load_result

#: Recovery likelihood as it is best in the plane.
MANY = "recovery, many starts"


@checked
@dataclass(frozen=True)
class MarginalConfig:
    """What is learned, by which methods, and how."""

    densities: tuple[Annotated[str, OneOf(DENSITIES)], ...] = ("checkerboard",)
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = tuple(METHODS)
    elsewhere: tuple[Annotated[str, OneOf(METHODS)], ...] = (MANY, "score matching")
    plane: shared.PlaneConfig = field(default_factory=shared.PlaneConfig)
    n_seeds: Count = 1

    def __post_init__(self) -> None:
        check_range("number of densities", len(self.densities), low=1, integer=True)


def cells(config: MarginalConfig) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Name a cell for every method and density."""
    # log Z belongs to the board's experiment.
    alike = {"config": config.plane, "partition": False}
    return {
        (method, density): {"method": method, "density": density, **alike}
        for k, density in enumerate(config.densities)
        for method in (config.elsewhere if k else config.methods)
    }


def references(config: MarginalConfig, seed: int) -> Outcome:
    """Return the baselines, a Gaussian with the data's moments, and the exact one."""
    n = config.plane.n_samples
    rows = {"Gaussian fit": shared.gaussian_fit, "exact": shared.exact_row}
    return Outcome(
        {row: {d: of(d, seed, n) for d in config.densities} for row, of in rows.items()}
    )


def gather(config: MarginalConfig, runs: Runs) -> Outcome:
    """Return the table, and of the first seed what a figure shows: level 0 alone."""
    arrays = {
        f"{name}/{'/'.join(cell)}": found[0].arrays[name][:1]
        for cell, found in runs.items()
        for name in ("density", "samples")
        if name in found[0].arrays
    }
    return Outcome({"table": nested(runs)}, arrays)


def draw(result: Result, methods: tuple[str, ...] | None = None) -> Figure:
    """Draw the densities that the methods learned on the first density, two a row."""
    density = result.config["densities"][0]
    names = methods or tuple(result.config["methods"])
    n_rows = -(-len(names) // 2)
    size = panel_size(n_rows, 2, aspect=0.8)
    figure, axes = plt.subplots(n_rows, 2, figsize=size, squeeze=False)
    for ax, name in zip_longest(axes.flat, names):
        if name is None:
            ax.axis("off")
        else:
            _draw_density(ax, result, name, density)
            title = f"{METHODS[name].printed}: {ax.get_title()}"
            ax.set_title(title, fontsize=12)
    return figure


def draw_densities(result: Result) -> Figure:
    """Draw the exact densities, and what the methods learned that learned all."""
    names, methods = result.config["densities"], result.config["elsewhere"]
    shape, size = (len(names), 1 + len(methods)), panel_size(len(names), 3)
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False)
    for row, density in zip(axes, names, strict=True):
        landscape(row[0], exact_log_density(density), PLANE.extent, ticks=False)
        row[0].set_title(density)
        for ax, method in zip(row[1:], methods, strict=True):
            _draw_density(ax, result, method, density)
    return figure


def _draw_density(ax: Axes, result: Result, method: str, density: str) -> None:
    """Draw what the first training has learned, with its own divergence."""
    row = result.scalars["table"][method].get(density, {})
    kl = row.get("kl", [math.nan])[0]
    ax.set_title(f"KL {kl:.2f}" if np.isfinite(kl) else "diverged")
    learned = result.arrays.get(f"density/{method}/{density}")
    if learned is None:
        ax.axis("off")
    else:
        landscape(ax, learned[0].astype(float), PLANE.extent, ticks=False)


#: The methods on the checkerboard, beside the Gaussian fit and the data.
methods_table = Pivot(
    head="method",
    rows={how.printed: f"table/{name}/checkerboard" for name, how in METHODS.items()}
    | {name: f"{name}/checkerboard" for name in ("Gaussian fit", "exact")},
    columns={**shared.METRICS, "CPU time [s]": "seconds"},
    caption="{plane[n_steps]} updates of recovery likelihood, the other methods "
    "in about equal CPU time. Trainings of each: {n_seeds}.",
    kinds={"Gaussian fit": "null", "exact": "exact"},
)


def _modes(width: float, d: int) -> Mapping[str, Any]:
    """Results of `studies/drl/levels.py`, by method."""
    studies = Path(__file__).parents[4] / "studies"
    result = load_result(f"drl/levels-{d}d", "full", studies)
    return result.scalars["table"][str(width)]


def _kl_of_modes(width: float, d: int) -> list[Cell]:
    """KL of the study's methods, of the baseline, and zero."""
    kl = [_kl_or_diverged(row["kl"]) for row in _modes(width, d).values()]
    return [*kl, _gaussian_fit_of_modes(width), 0.0]


def _with_seconds(head: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Name a column, with the mean CPU time of its trainings."""
    return f"{head}, {np.mean([np.mean(row['seconds']) for row in rows]):.1f} s"


def _kl_or_diverged(runs: list[float]) -> Cell:
    """Mean and error; beyond five nats a number says only that training diverged."""
    return "diverged" if max(runs) > 5 else mean_and_stderr(runs)


def levels_table(width: float) -> Table:
    """Tabulate `studies/drl/levels.py`: two modes in one and in eight dimensions."""
    methods = [*_modes(width, 1)]
    return Table(
        {
            "method": [*methods, "Gaussian fit", "exact"],
            "KL, 1-D [nats]": _kl_of_modes(width, 1),
            "KL, 8-D [nats]": _kl_of_modes(width, 8),
        },
        caption="Two modes, equal CPU time; three trainings of each method.",
        kinds=[""] * len(methods) + ["null", "exact"],
    )


def dimensions_table(result: Result) -> Table:
    """Tabulate levels and resampling: two modes in 1-D and 8-D, and the checkerboard.

    The trainings on the checkerboard are those of ``result``.
    """
    names = [name for name in METHODS if name != "score matching"]
    rows = [result.scalars["table"][name]["checkerboard"] for name in names]
    fit = result.scalars["Gaussian fit"]["checkerboard"]["kl"]
    columns = {
        _with_seconds("1-D modes", _modes(0.35, 1).values()): _kl_of_modes(0.35, 1),
        _with_seconds("2-D board", rows): [
            *(_kl_or_diverged(row["kl"]) for row in rows),
            fit,
        ],
        _with_seconds("8-D modes", _modes(0.35, 8).values()): _kl_of_modes(0.35, 8),
    }
    shown = {  # where the method is in a column
        "one level, short chains": 1,
        "several levels, short chains": 0,
        "one level, resampled": 4,
        "several levels, resampled": 3,
        "one level, longer chains": 2,
        "Gaussian fit": 5,
    }
    return Table(
        {
            "method": [*shown],
            **{head: [kl[k] for k in shown.values()] for head, kl in columns.items()},
        },
        caption="KL divergence from the data in nats: mean ± standard error of three "
        "trainings, diverged if one is above 5. The seconds are the mean CPU time of a "
        "training, which is about the same for all methods of a column.",
        kinds=[""] * len(rows) + ["null"],
    )


def _gaussian_fit_of_modes(width: float) -> float:
    """KL of the Gaussian with the moments of the study's data, on its first axis."""
    x = np.linspace(-2 - 10 * width, 2 + 10 * width, 20_001)
    modes = [np.exp(-((x - m) ** 2) / (2 * width**2)) for m in (-2, 2)]
    p = (0.6 * modes[0] + 0.4 * modes[1]) / (width * math.sqrt(2 * math.pi))
    mass = p * (x[1] - x[0])
    variance = float(mass @ x**2 - (mass @ x) ** 2)
    entropy = -float(mass @ np.log(np.maximum(p, 1e-300)))
    return 0.5 * math.log(2 * math.pi * math.e * variance) - entropy


def densities_table(result: Result) -> Table:
    """Tabulate the divergences of all densities, by method."""
    densities, noise = result.config["densities"], shared.plane_noise("score matching")
    columns: dict[str, list[Cell]] = {"density": list(densities)}
    for name in result.config["elsewhere"]:
        learned = result.scalars["table"][name]
        rows = [learned.get(density, {}).get("kl", [None]) for density in densities]
        columns[METHODS[name].printed] = [mean_and_stderr(row) for row in rows]
    columns["its noise"] = [
        PLANE.kl(exact_log_density(d), shared.noised_log_density(d, noise))
        for d in densities
    ]
    fits = result.scalars["Gaussian fit"]
    columns["Gaussian fit"] = [fits[density]["kl"] for density in densities]
    return Table(
        columns,
        caption="KL divergence from the density, nats. Trainings of each: "
        f"{result.config['n_seeds']}.",
    )


def check(result: Result) -> Verdicts:
    """Compare recovery likelihood with a Gaussian fit and the short run."""
    table = result.scalars["table"]
    # With one start per chain a half of the Gaussian's, with many a quarter.
    for method, part in (("recovery", 2), (MANY, 4)):
        for density, row in table.get(method, {}).items():
            target = round(result.scalars["Gaussian fit"][density]["kl"] / part, 4)
            label = (
                f"{density}: KL of {method}, bounded by 1/{part} of the Gaussian fit's"
            )
            yield claim(label, row["kl"], "at most", target)
    # The baseline is the short run whose chains suit it: without it nothing is claimed.
    first, short = result.config["densities"][0], "short-run, longer"
    if {"recovery", short} <= set(table):
        kl = [mean_and_stderr(table[k][first]["kl"])[0] for k in (short, "recovery")]
        label = f"{first}: KL of the short run with longer chains, over recovery's"
        n_seeds = len(table["recovery"][first]["kl"])
        # A run that diverged has no KL, and is compared with nothing.
        ratio = kl[0] / kl[1] if np.isfinite(kl[0]) else None
        yield claim(label, ratio, "at least", 2.0, n_seeds=n_seeds)


def nothing_learned(result: Result) -> Result:
    """Return the result of methods that learned a mean and a covariance only."""
    fits = {
        density: {name: [value] for name, value in row.items()}
        for density, row in result.scalars["Gaussian fit"].items()
    }
    learned = result.scalars["table"].items()
    table = {
        method: {density: fits[density] for density in row} for method, row in learned
    }
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="drl/marginal-vs-recovery",
    title="Recovery or marginal likelihood",
    presets={
        "quick": MarginalConfig(
            ("checkerboard", "moons", "pinwheel"),
            plane=shared.PlaneConfig(n_steps=250, n_samples=2000),
        ),
        "full": MarginalConfig(
            ("checkerboard", *(d for d in DENSITIES if d != "checkerboard")),
            plane=shared.PlaneConfig(n_steps=600),
            n_seeds=3,
        ),
        # The paper's two methods; the density, which it does not name, is our choice.
        "paper": MarginalConfig(methods=("recovery", "short-run"), plane=shared.PAPER),
    },
    cells=cells,
    job=shared.plane_job,
    gather=gather,
    extras=references,
    figure=draw,
    check=check,
    baseline=nothing_learned,
    devices=("cpu", "cuda"),
    parallel=False,  # seconds of the CPU are compared
)
