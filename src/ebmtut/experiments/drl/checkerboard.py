"""drl/checkerboard (Figure 3): a checkerboard at every level."""

from dataclasses import dataclass, field, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.ndimage import find_objects, label

from ebmtut.checks import Count, checked
from ebmtut.experiments.drl import plane as shared
from ebmtut.experiments.drl.plane import METRICS, PLANE, exact_log_density
from ebmtut.experiments.experiment import Experiment, Outcome, with_cells
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.plotting import panel_size
from ebmtut.results import Cell, Result, Table

#: Three levels in place of four, so that a third of the batch, not a quarter, learns
#: the lowest; the highest of four is nearly white.
BOARD = shared.PlaneConfig(n_levels=3)
#: Method and density of the only cell.
LEARNED = {"method": "recovery, many starts", "density": "checkerboard"}


@checked
@dataclass(frozen=True)
class CheckerboardConfig:
    """How the checkerboard is learned, and how often."""

    plane: shared.PlaneConfig = field(default_factory=shared.PlaneConfig)
    n_seeds: Count = 1


def references(config: CheckerboardConfig, seed: int) -> Outcome:
    """Return the baselines, a Gaussian with the data's moments, and the exact one."""
    of = ("checkerboard", seed, config.plane.n_samples)
    rows = {"Gaussian fit": shared.gaussian_fit(*of), "exact": shared.exact_row(*of)}
    return Outcome(rows)


def draw(result: Result) -> Figure:
    """Draw a row for each level, the highest first: samples, and the density."""
    density = result.arrays["density/recovery"].astype(float)
    samples = result.arrays["samples/recovery"].astype(float)
    shown = range(len(density))[::-1]
    size = panel_size(len(shown), 2, aspect=0.8)
    figure, axes = plt.subplots(len(shown), 2, figsize=size, squeeze=False)
    for row, t in zip(axes, shown, strict=True):
        row[0].plot(*samples[t].T, "k.", ms=1.5, rasterized=True)
        _density(row[1], density[t], numbered=t == 0)
        for ax, name in zip(row, ("samples", "density"), strict=True):
            ax.set(xlim=row[1].get_xlim(), ylim=row[1].get_ylim(), aspect="equal")
            ax.spines[:].set_visible(True)
            ax.set(xticks=[], yticks=[])
            ax.set_title(f"level {t}: {name}", fontsize=12)
    return figure


def _density(ax: Axes, log_q: np.ndarray, numbered: bool) -> None:
    """Draw a density, and where asked the numbers of the squares."""
    # As in the page's widget: blue is the root of the density. The scale is the same
    # for all levels and trainings, and ends at four times the board's density.
    board = float(exact_log_density("checkerboard").max())
    blue = np.sqrt(np.exp(log_q - board) / 4)
    of: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": 1, "origin": "lower"}
    ax.imshow(blue, extent=(-PLANE.extent, PLANE.extent) * 2, **of)
    for k, (left, right, low, high) in enumerate(squares() if numbered else (), 1):
        x, y = (left + right) / 2, (low + high) / 2
        i, j = (int((u / PLANE.extent + 1) / 2 * PLANE.n) for u in (y, x))
        color = "white" if blue[i, j] > 0.7 else "black"
        ax.text(x, y, f"{k}", ha="center", va="center", color=color)


def check(result: Result) -> Verdicts:
    """Hold every seed to the board, and log Z to the grid's."""
    row = result.scalars["table"]["recovery"]
    n_seeds = len(row["kl"])
    for metric, target in (("samples on support", 0.95), ("on support", 0.97)):
        yield claim(f"checkerboard: {metric}", row[metric], "at least", target)
    yield claim("checkerboard: KL to the data", row["kl"], "at most", 0.05)
    if n_seeds > 1:
        worst = "checkerboard: largest KL of all seeds"
        yield claim(worst, max(row["kl"]), "at most", 0.05, n_seeds=n_seeds)
    # Of the estimators: it says nothing of what was learned.
    for metric, by in (
        ("log Z error", "the chain of ratios"),
        ("log Z error by particles", "weighted particles"),
    ):
        if metric in row:
            largest = max(abs(error) for error in row[metric])
            label = f"checkerboard: largest error of log Z by {by}"
            yield claim(label, largest, "at most", 0.01, n_seeds=n_seeds, sanity=True)


def nothing_learned(result: Result) -> Result:
    """Return the result of a model that learned a mean and a covariance only."""
    n_seeds = len(result.scalars["table"]["recovery"]["kl"])
    fit = {k: [value] * n_seeds for k, value in result.scalars["Gaussian fit"].items()}
    return with_cells(result, lambda cell, name: fit)


EXPERIMENT = Experiment(
    id="drl/checkerboard",
    title="A checkerboard at every level",
    presets={
        "quick": CheckerboardConfig(replace(BOARD, n_steps=250, n_samples=2000)),
        "full": CheckerboardConfig(
            replace(BOARD, n_steps=4000, n_langevin=5, n_samples=100_000), n_seeds=5
        ),
        "paper": CheckerboardConfig(shared.PAPER),
    },
    cells=lambda config: {"recovery": LEARNED | {"config": config.plane}},
    job=shared.plane_job,
    arrays={"step_sizes": "step sizes", "*": "{name}/{cell}"},
    extras=references,
    figure=draw,
    check=check,
    baseline=nothing_learned,
    devices=("cpu", "cuda"),
)


def board_table(result: Result) -> Table:
    """Tabulate every training beside the Gaussian fit and the board."""
    row = result.scalars["table"]["recovery"]
    seeds = [f"learned, seed {seed}" for seed in range(len(row["kl"]))]
    columns: dict[str, list[Cell]] = {
        "distribution": [*seeds, "Gaussian fit", "the board"]
    }
    for head, metric in METRICS.items():
        known = [result.scalars[name][metric] for name in ("Gaussian fit", "exact")]
        columns[head] = [round(value, 3) for value in (*row[metric], *known)]
    for head, kind in (("ratios", ""), ("particles", " by particles")):
        pairs = zip(row[f"log Z error{kind}"], row[f"log Z stderr{kind}"], strict=True)
        columns[f"error of log Z, {head}"] = [*pairs, None, None]
    return Table(
        columns,
        caption=f"{result.config['plane']['n_steps']} updates. Density on the grid; "
        "samples within 0.04 of a square count.",
        kinds=[""] * len(seeds) + ["null", "exact"],
    )


def squares() -> list[list[float]]:
    """List the board's squares as x from, x to, y from, y to."""
    marked, n = label(exact_log_density("checkerboard").isfinite().numpy())
    cell = 2 * PLANE.extent / PLANE.n
    return [
        [edge * cell - PLANE.extent for edge in (x.start, x.stop, y.start, y.stop)]
        for y, x in find_objects(marked)[:n]
    ]


def draw_squares(result: Result) -> Figure:
    """Draw the density of level 0, and the masses of its numbered squares."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(4.8, 2.4))
    log_q = result.arrays["density/recovery"][0].astype(float)
    _density(left, log_q, numbered=True)
    # The squares are all that is to be seen.
    reach = max(squares()[-1]) + 0.3
    left.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[])
    left.spines[:].set_visible(True)
    left.set_title("energy: density")
    x, y = result.arrays["samples/recovery"][0].T
    edges = np.linspace(-PLANE.extent, PLANE.extent, PLANE.n + 1)
    counts = np.histogram2d(y, x, [edges, edges])[0]
    marked, n = label(exact_log_density("checkerboard").isfinite().numpy())
    place = np.arange(1, n + 1)
    for mass, shift, color in ((np.exp(log_q), -0.2, "C0"), (counts, 0.2, "C1")):
        of_squares = [mass[marked == k].sum() / mass.sum() for k in place]
        right.bar(place + shift, of_squares, 0.4, color=color)
    right.axhline(1 / len(place), color="k", lw=0.8, ls="--")
    of: dict[str, Any] = {"ha": "center", "transform": right.transAxes}
    right.text(0.5, 0.85, "energy", color="C0", **of)
    right.text(0.5, 0.7, "samples", color="C1", **of)
    right.text(0.5, 0.55, "data (dashed)", **of)
    right.set(title="mass of each square", xlabel="square", xticks=place, ylim=(0, 0.4))
    return figure


def level_table(result: Result) -> Table:
    """Tabulate how far each level is from the board with that level's noise."""
    plane = EXPERIMENT.config(result.scale).plane
    noise = shared.plane_noise("recovery, many starts", plane)
    rows = []
    for level, log_q in enumerate(result.arrays["density/recovery"]):
        exact = shared.noised_log_density("checkerboard", noise, level)
        learned = PLANE.kl(exact, torch.from_numpy(log_q).double())
        fit = PLANE.kl(exact, shared.gaussian_with_moments_of(exact))
        width = noise.noises[level]
        rows.append((f"{level}", f"{width:.2f}", f"{learned:.3f}", f"{fit:.3f}"))
    heads = ("level", "noise", "recovery likelihood", "Gaussian")
    columns = dict(zip(heads, zip(*rows, strict=True), strict=True))
    return Table(columns, caption="KL divergence from the board with noise, nats.")
