"""Row drl/marginal-vs-recovery (Figure 2): recovery or marginal likelihood."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebmtut.checks import Count, OneOf, check_range, checked
from ebmtut.data import DENSITIES
from ebmtut.experiments.drl.plane import (
    METHODS,
    PAPER,
    PLANE,
    PlaneConfig,
    exact_log_density,
    exact_row,
    gaussian_fit,
    plane_job,
)
from ebmtut.experiments.experiment import Experiment, Runs, nested
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.plotting import landscape, panel_size
from ebmtut.results import Result

__all__ = ["EXPERIMENT", "MANY", "MarginalConfig"]

#: Recovery likelihood as it is best in the plane.
MANY = "recovery, many starts"


@checked
@dataclass(frozen=True)
class MarginalConfig:
    """What is learned, by which methods, and how.

    Parameters
    ----------
    densities
        Of those of chapter 1; the first is learned by all methods.
    methods, elsewhere
        Of ``plane.METHODS``, for the first density and for the others; all have
        networks of equal size, and about the same CPU time.
    plane
        How they learn.
    n_seeds
        Runs of each cell.
    """

    densities: tuple[Annotated[str, OneOf(DENSITIES)], ...] = ("checkerboard",)
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = tuple(METHODS)
    elsewhere: tuple[Annotated[str, OneOf(METHODS)], ...] = (MANY, "score matching")
    plane: PlaneConfig = field(default_factory=PlaneConfig)
    n_seeds: Count = 1

    def __post_init__(self) -> None:
        check_range("number of densities", len(self.densities), low=1, integer=True)


def cells(config: MarginalConfig) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Name a cell for every method and density."""
    return {
        (method, density): {
            "method": method,
            "density": density,
            "config": config.plane,
            "partition": False,  # log Z is the row of the board's
        }
        for k, density in enumerate(config.densities)
        for method in (config.elsewhere if k else config.methods)
    }


def references(config: MarginalConfig, seed: int) -> Outcome:
    """Return the null row, a Gaussian with the data's moments, and the exact one."""
    n = config.plane.n_samples
    return Outcome(
        {
            "Gaussian fit": {d: gaussian_fit(d, seed, n) for d in config.densities},
            "exact": {d: exact_row(d, seed, n) for d in config.densities},
        }
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


@checked
def draw(
    result: Result, part: Annotated[str, OneOf(("methods", "densities"))] = "methods"
) -> Figure:
    """Draw densities above and samples below, or the laws of all densities.

    Parameters
    ----------
    result
        Of this row.
    part
        "methods", a column each, on the first density; or "densities", a column
        each, with a row for the truth and for each method that learned all.
    """
    if part == "densities":
        return _draw_densities(result)
    density = result.config["densities"][0]
    names = ["exact", *result.config["methods"]]
    figure, axes = plt.subplots(
        2, len(names), figsize=panel_size(2, len(names)), squeeze=False
    )
    for column, name in enumerate(names):
        top, bottom = axes[:, column]
        if name == "exact":
            landscape(top, exact_log_density(density), PLANE.extent, ticks=False)
            bottom.axis("off")
            top.set_title("exact")
            continue
        _draw_law(top, result, name, density)
        above = name.replace(", ", ",\n").replace("score ", "score\n")
        top.set_title(f"{above}\n{top.get_title()}")
        window = (-PLANE.extent, PLANE.extent)
        bottom.set(xlim=window, ylim=window)
        bottom.set(aspect="equal", xticks=[], yticks=[])
        drawn = result.arrays.get(f"samples/{name}/{density}")
        if drawn is not None:
            at = drawn[0].astype(float)
            bottom.plot(at[:, 0], at[:, 1], "k,", alpha=0.6, rasterized=True)
    return figure


def _draw_law(ax: Axes, result: Result, method: str, density: str) -> None:
    """Draw what the first seed has learned, its own divergence above it."""
    row = result.scalars["table"][method].get(density, {})
    kl = row.get("kl", [math.nan])[0]
    ax.set_title(f"KL {kl:.2f}" if np.isfinite(kl) else "lost")
    learned = result.arrays.get(f"density/{method}/{density}")
    if learned is None:
        ax.axis("off")
    else:
        landscape(ax, learned[0].astype(float), PLANE.extent, ticks=False)


def _draw_densities(result: Result) -> Figure:
    names = result.config["densities"]
    rows = ["exact", *result.config["elsewhere"]]
    figure, axes = plt.subplots(
        len(rows), len(names), figsize=panel_size(len(rows), len(names)), squeeze=False
    )
    for k, density in enumerate(names):
        landscape(axes[0, k], exact_log_density(density), PLANE.extent, ticks=False)
        axes[0, k].set_title(density)
        for ax, method in zip(axes[1:, k], rows[1:], strict=True):
            _draw_law(ax, result, method, density)
    for ax, row in zip(axes[:, 0], rows, strict=True):
        ax.set_ylabel(row.replace(", ", ",\n"))
    return figure


def check(result: Result) -> list[Verdict]:
    """Compare recovery likelihood with the null and the short run."""
    table, verdicts = result.scalars["table"], []
    for method in ("recovery", MANY):
        for density, row in table.get(method, {}).items():
            ours, stderr = mean_and_stderr(row["kl"])
            null = result.scalars["Gaussian fit"][density]["kl"]
            # With one start a chain a half of the null's, with many a quarter.
            share = 2 if method == "recovery" else 4
            verdicts.append(
                claim(
                    f"{density}: KL of {method}, beside 1/{share} of the Gaussian's",
                    ours,
                    "at most",
                    round(null / share, 4),
                    stderr=stderr,
                    n_seeds=len(row["kl"]),
                )
            )
    # The rival is the short run whose chains suit it: without it nothing is claimed.
    first, rival = result.config["densities"][0], "short-run, longer"
    if {"recovery", rival} <= set(table):
        ours = mean_and_stderr(table["recovery"][first]["kl"])[0]
        short = mean_and_stderr(table[rival][first]["kl"])[0]
        # A run that was lost has no KL: nothing is at least as bad.
        ratio = short / ours if np.isfinite(short) else None
        verdicts.append(
            claim(
                f"{first}: KL of the short run with longer chains, over recovery's",
                ratio,
                "at least",
                2.0,
                n_seeds=len(table["recovery"][first]["kl"]),
            )
        )
    return verdicts


def null(result: Result) -> Result:
    """Return the result of methods that learned a mean and a covariance only."""
    fits = result.scalars["Gaussian fit"]
    table = {
        method: {
            density: {name: [value] for name, value in fits[density].items()}
            for density in row
        }
        for method, row in result.scalars["table"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="drl/marginal-vs-recovery",
    title="Recovery or marginal likelihood",
    presets={
        "quick": MarginalConfig(
            ("checkerboard", "moons", "pinwheel"),
            plane=PlaneConfig(n_steps=250, n_samples=2000),
        ),
        "full": MarginalConfig(
            ("checkerboard", *(d for d in DENSITIES if d != "checkerboard")),
            plane=PlaneConfig(n_steps=600),
            n_seeds=3,
        ),
        # The paper's two methods; the density, which it does not name, is ours.
        "paper": MarginalConfig(methods=("recovery", "short-run"), plane=PAPER),
    },
    cells=cells,
    job=plane_job,
    gather=gather,
    extras=references,
    figure=draw,
    check=check,
    null=null,
    devices=("cpu", "cuda"),
    parallel=False,  # seconds of the CPU are compared
)
