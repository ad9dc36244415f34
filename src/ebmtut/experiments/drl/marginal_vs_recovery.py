"""drl/marginal-vs-recovery (Figure 2): recovery or marginal likelihood."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
    """Draw what methods learned of the first density, two a row; "data" is it."""
    density = result.config["densities"][0]
    names = methods or tuple(result.config["methods"])
    n_rows = -(-len(names) // 2)
    size = panel_size(n_rows, 2, aspect=0.8)
    figure, axes = plt.subplots(n_rows, 2, figsize=size, squeeze=False)
    for ax in axes.flat[len(names) :]:
        ax.axis("off")
    for ax, name in zip(axes.flat, names, strict=False):
        _draw_density(ax, result, name, density)
        before = f"{METHODS[name].printed}: " if name in METHODS else ""
        ax.set_title(before + ax.get_title(), fontsize=12)
    return figure


def draw_densities(result: Result) -> Figure:
    """Draw the exact densities, and what the methods learned that learned all."""
    names, methods = result.config["densities"], result.config["elsewhere"]
    shape, size = (len(names), 1 + len(methods)), panel_size(len(names), 3)
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False)
    for row, density in zip(axes, names, strict=True):
        for ax, method in zip(row, ("data", *methods), strict=True):
            _draw_density(ax, result, method, density)
    return figure


def _draw_density(ax: Axes, result: Result, method: str, density: str) -> None:
    """Draw the data, or what the first training learned, with its own divergence."""
    if method == "data":
        ax.set_title(density)
        landscape(ax, exact_log_density(density), PLANE.extent, ticks=False)
        return
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
    """Results of `studies/drl/levels.py` by method, and the data's Gaussian fit.

    Modes at -2 and 2 with masses 0.6 and 0.4 that do not overlap have the variance
    ``width``^2 + 3.84.
    """
    studies = Path(__file__).parents[4] / "studies"
    result = load_result(f"drl/levels-{d}d", "full", studies)
    entropy_of_masses = -0.6 * math.log(0.6) - 0.4 * math.log(0.4)
    kl = 0.5 * math.log(1 + 3.84 / width**2) - entropy_of_masses
    return result.scalars["table"][str(width)] | {"Gaussian fit": {"kl": [kl]}}


def dimensions_table(result: Result | None = None, width: float = 0.35) -> Table:
    """Tabulate levels and resampling: two modes in 1-D and 8-D, and the checkerboard.

    The trainings on the checkerboard are those of ``result``, where it is given.
    """
    data = {f"{d}-D modes": [*_modes(width, d).values()] for d in (1, 8)}
    if result is not None:
        names = [name for name in METHODS if name != "score matching"]
        board = [result.scalars["table"][name]["checkerboard"] for name in names]
        board.append({"kl": [result.scalars["Gaussian fit"]["checkerboard"]["kl"]]})
        data = {"1-D modes": data["1-D modes"], "2-D board": board, **data}
    shown = {  # where the method is in a column
        "one level, short chains": 1,
        "several levels, short chains": 0,
        "one level, resampled": 4,
        "several levels, resampled": 3,
        "one level, longer chains": 2,
        "Gaussian fit": 5,
    }
    columns: dict[str, list[Cell]] = {"method": [*shown]}
    for head, rows in data.items():
        seconds = np.mean([np.mean(row["seconds"]) for row in rows[:-1]])
        runs = [row["kl"] for row in rows]
        kl = ["diverged" if max(run) > 5 else mean_and_stderr(run) for run in runs]
        columns[f"{head}, {seconds:.1f} s"] = [kl[k] for k in shown.values()]
    return Table(
        columns,
        caption="KL divergence from the data in nats: mean ± standard error of three "
        "trainings, diverged if one is above 5. The seconds are the mean CPU time of a "
        "training, which is about the same for all methods of a column.",
        kinds=[""] * (len(shown) - 1) + ["null"],
    )


def densities_table(result: Result) -> Table:
    """Tabulate the divergences of all densities, by method."""
    noise = shared.plane_noise("score matching")
    noisy = {
        density: PLANE.kl(
            exact_log_density(density), shared.noised_log_density(density, noise)
        )
        for density in result.config["densities"]
    }
    learned = {
        METHODS[name].printed: f"/table/{name}/{{density}}/kl"
        for name in result.config["elsewhere"]
    }
    return Pivot(
        head="density",
        rows={"{density}": "Gaussian fit/{density}"},
        columns={**learned, "its noise": "/noisy/{density}", "Gaussian fit": "kl"},
        caption="KL divergence from the density, nats. Trainings of each: {n_seeds}.",
    )(replace(result, scalars=result.scalars | {"noisy": noisy}))


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
            plane=shared.PlaneConfig(),
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
