"""Row drl/checkerboard (Figure 3): a checkerboard at every level."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from ebmtut.checks import Count, checked
from ebmtut.experiments.drl.plane import (
    PAPER,
    PLANE,
    PlaneConfig,
    exact_row,
    gaussian_fit,
    gaussian_with_moments_of,
    noised_log_density,
    plane_job,
    plane_noise,
)
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.plotting import landscape, panel_size
from ebmtut.results import Result
from ebmtut.results.tables import Table

__all__ = ["EXPERIMENT", "CheckerboardConfig", "level_table"]

#: Three levels in place of four, so that a third of the batch, not a quarter, learns
#: the lowest; the highest of four is nearly white.
BOARD = PlaneConfig(n_levels=3)


@checked
@dataclass(frozen=True)
class CheckerboardConfig:
    """How the checkerboard is learned, and how often.

    Parameters
    ----------
    plane
        How it is learned.
    n_seeds
        Runs.
    """

    plane: PlaneConfig = field(default_factory=PlaneConfig)
    n_seeds: Count = 1


def cells(config: CheckerboardConfig) -> Mapping[str, Mapping[str, Any]]:
    """Name the only cell."""
    method = "recovery, many starts"
    board = {"method": method, "density": "checkerboard", "config": config.plane}
    return {"recovery": board}


def references(config: CheckerboardConfig, seed: int) -> Outcome:
    """Return the null row, a Gaussian with the data's moments, and the exact one."""
    n = config.plane.n_samples
    return Outcome(
        {
            "Gaussian fit": gaussian_fit("checkerboard", seed, n),
            "exact": exact_row("checkerboard", seed, n),
        }
    )


def draw(result: Result) -> Figure:
    """Draw samples above and densities below, from white noise to data."""
    density = result.arrays["density/recovery"].astype(float)
    samples = result.arrays["samples/recovery"].astype(float)
    n_levels = len(density)
    figure, axes = plt.subplots(2, n_levels, figsize=panel_size(2, n_levels))
    for column, t in enumerate(reversed(range(n_levels))):
        top, bottom = axes[:, column]
        top.plot(samples[t][:, 0], samples[t][:, 1], "k,", alpha=0.6, rasterized=True)
        window = (-PLANE.extent, PLANE.extent)
        top.set(xlim=window, ylim=window)
        top.set(aspect="equal", xticks=[], yticks=[], title=f"level {t}")
        landscape(bottom, density[t], PLANE.extent, ticks=False)
    return figure


def check(result: Result) -> list[Verdict]:
    """Hold every seed to the board, and log Z to the grid's."""
    row = result.scalars["table"]["recovery"]
    verdicts = []
    for metric, rule, target in (
        ("samples on support", "at least", 0.95),
        ("on support", "at least", 0.97),
        ("kl", "at most", 0.05),
    ):
        mean, stderr = mean_and_stderr(row[metric])
        verdicts.append(
            claim(
                f"checkerboard: {metric}",
                mean,
                rule,  # type: ignore[arg-type]
                target,
                stderr=stderr,
                n_seeds=len(row[metric]),
            )
        )
    n_seeds = len(row["kl"])
    if n_seeds > 1:
        label = "checkerboard: largest KL of all seeds"
        verdicts.append(claim(label, max(row["kl"]), "at most", 0.05, n_seeds=n_seeds))
    for metric, way in (
        ("log Z error", "the chain of ratios"),
        ("log Z error by particles", "weighted particles"),
    ):
        if metric not in row:
            continue
        worst = max(abs(error) for error in row[metric])
        verdicts.append(
            claim(
                f"checkerboard: largest error of log Z by {way}",
                worst,
                "at most",
                0.01,
                n_seeds=n_seeds,
                sanity=True,  # of the estimator: it says nothing of what was learned
            )
        )
    return verdicts


def null(result: Result) -> Result:
    """Return the result of a model that learned a mean and a covariance only."""
    row = result.scalars["table"]["recovery"]
    n_seeds = len(row["kl"])  # the fit is the same for every seed
    fit = result.scalars["Gaussian fit"].items()
    row = row | {name: [value] * n_seeds for name, value in fit}
    return replace(result, scalars=result.scalars | {"table": {"recovery": row}})


EXPERIMENT = Experiment(
    id="drl/checkerboard",
    title="A checkerboard at every level",
    presets={
        "quick": CheckerboardConfig(replace(BOARD, n_steps=250, n_samples=2000)),
        "full": CheckerboardConfig(
            replace(BOARD, n_steps=4000, n_langevin=5, n_samples=100_000), n_seeds=5
        ),
        "paper": CheckerboardConfig(PAPER),
    },
    cells=cells,
    job=plane_job,
    arrays={"step_sizes": "step sizes", "*": "{name}/{cell}"},
    extras=references,
    figure=draw,
    check=check,
    null=null,
    devices=("cpu", "cuda"),
)


def level_table(result: Result) -> Table:
    """Tabulate how far each level is from the board with that level's noise.

    Parameters
    ----------
    result
        Of this row. The first seed is judged.

    Returns
    -------
    table
        Nats, on the grid; the null is a Gaussian with the noised board's mean and
        covariance.
    """
    plane = EXPERIMENT.config(result.scale).plane
    noise = plane_noise("recovery, many starts", plane)
    columns: dict[str, list[str]] = {"KL in nats": ["recovery likelihood", "Gaussian"]}
    for level, log_q in enumerate(result.arrays["density/recovery"]):
        exact = noised_log_density("checkerboard", noise, level)
        laws = (torch.from_numpy(log_q).double(), gaussian_with_moments_of(exact))
        title = f"level {level}, noise {noise.noises[level]:.2f}"
        columns[title] = [f"{PLANE.kl(exact, law):.3f}" for law in laws]
    return Table(columns, kinds=["", "null"])
