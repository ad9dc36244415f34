"""Experiment ed/densities (Figures 3 and 4): landscapes of densities, true and learned.

A seed that diverged has no numbers: NaN in a new result, None in a stored one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.checks import Count, OneOf, Range, checked
from ebmtut.data import DENSITIES, density_extent, exact_entropy
from ebmtut.experiments.ed.evaluation import (
    QUICK_EVALUATION,
    Evaluation,
    density_job,
    density_jobs,
    evaluate_independent_bits,
    landscape,
)
from ebmtut.experiments.ed.recipes import ED_METHODS, METHODS, PAPER_RECIPE, Recipe
from ebmtut.experiments.experiment import Cells, Experiment, with_cells
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.plotting import COLORS, panel_size
from ebmtut.plotting import landscape as draw_landscape
from ebmtut.results import Result


@checked
@dataclass(frozen=True)
class DensityConfig:
    """Densities, seeds of each method, the common recipe, evaluation and pixels."""

    densities: tuple[Annotated[str, OneOf(DENSITIES)], ...] = DENSITIES
    methods: Mapping[Annotated[str, OneOf(METHODS)], Count] = field(
        default_factory=lambda: dict.fromkeys(METHODS, 1)
    )
    recipe: Recipe = field(default_factory=Recipe)
    evaluation: Evaluation = field(default_factory=Evaluation)
    n_pixels: Annotated[int, Range(2, 1024)] = 128


def recipe_of(method: str, recipe: Recipe) -> Recipe:
    """Return the recipe for one method; PCD, whose loss has no bound, is slower."""
    rate = recipe.learning_rate / (5 if method == "PCD" else 1)
    return replace(recipe, method=method, learning_rate=rate)


def cells(config: DensityConfig) -> Cells:
    """Name an entry for every method and density."""
    return {
        (method, density): {
            "density": density,
            "recipe": recipe_of(method, config.recipe),
            "evaluation": config.evaluation,
            "n_pixels": config.n_pixels,
        }
        for method in config.methods
        for density in config.densities
    }


def truth(config: DensityConfig, seed: int) -> Outcome:
    """Return the true landscapes, ``truth/density``, and entropies."""
    pictures = {
        f"truth/{name}": landscape(None, name, n_pixels=config.n_pixels)
        .clip(-6e4)
        .astype(np.float16)
        for name in config.densities
    }
    entropies = {name: exact_entropy(name) for name in config.densities}
    return Outcome({"entropy": entropies}, pictures)


# Largest part of the square for the region of 95 percent of the mass.
AREAS = {"2spirals": 0.40, "circles": 0.45, "checkerboard": 0.45}


def draw_landscapes(result: Result, densities: Sequence[str] = ()) -> Figure:
    """Draw true and learned landscapes, a row per density, or one density in two."""
    densities = list(densities or result.scalars["entropy"])
    columns = ["truth", *result.scalars["table"]]
    shape = (len(densities), len(columns))
    size = panel_size(*shape, title=0.05)
    if shape == (1, 4):  # two by two, so that a phone can show the titles
        shape, size = (2, 2), (4.5, 5.0)
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False)
    for row, density in zip(axes.reshape(len(densities), -1), densities, strict=True):
        images = []
        for ax, column in zip(row, columns, strict=True):
            picture = result.arrays.get(f"{column}/{density}")
            if picture is None:
                ax.set(xticks=[], yticks=[])
                ax.set_box_aspect(1)
                ax.spines[:].set_visible(False)
                ax.text(0.5, 0.5, "diverged", ha="center", va="center", fontsize=9)
            else:
                extent = density_extent(density)
                images.append(draw_landscape(ax, picture, extent, ticks=False))
            if density == densities[0]:
                ax.set_title(column, fontsize=12, color=COLORS.get(column, "black"))
        # A colour stands for the same density in all pictures of a row.
        masses = [np.asarray(image.get_array()).sum() for image in images]
        top = max(i.get_clim()[1] / m for i, m in zip(images, masses, strict=True))
        for image, mass in zip(images, masses, strict=True):
            image.set_clim(0, top * mass)
        if len(densities) > 1:
            row[0].set_ylabel(density)
    return figure


def check_landscapes(result: Result) -> Verdicts:
    """Check coverage: little of the square, and in it, for sanity, most of the data."""
    for method, row in result.scalars["table"].items():
        for density in [density for density in AREAS if density in row]:
            cell = row[density]
            inside, area = (seeds_of(cell, k).mean() for k in ("inside", "area"))
            name = f"{method}, {density}: data in the 95 % region"
            yield claim(name, inside, "at least", 0.90, sanity=True)
            name = f"{method}, {density}: fraction of the square in the 95 % region"
            yield claim(name, area, "at most", AREAS[density])


def independent_bits(result: Result) -> Result:
    """Return what independent bits with the data's means would have got."""

    def as_bits(cell: dict[str, Any], method: str, density: str) -> dict[str, Any]:
        return {k: [v] for k, v in evaluate_independent_bits(density).items()}

    return with_cells(result, as_bits)


def seeds_of(cell: dict[str, Any], metric: str) -> np.ndarray:
    """Return a number per seed, NaN where it diverged."""
    return np.array(cell.get(metric, [math.nan]), dtype=float)


QUICK = DensityConfig(
    densities=("checkerboard",),
    methods=dict.fromkeys(("ED-Bern", "ED-Grid"), 1),
    recipe=Recipe(n_steps=4_000, batch_size=64, n_negatives=8, ema_decay=0.99),
    evaluation=QUICK_EVALUATION,
    n_pixels=96,
)
# Half the paper's batch and a fifth of its steps: 84 runs of four minutes of a core.
FULL = DensityConfig(
    methods=dict.fromkeys(METHODS, 3), recipe=Recipe(n_steps=20_000, batch_size=64)
)
# The paper's own protocol; the average of the weights is that of the authors' notebook.
PAPER = DensityConfig(
    methods=dict.fromkeys(METHODS, 3),
    recipe=PAPER_RECIPE,
    evaluation=Evaluation(n_uniform=1_000_000),
)

EXPERIMENT = Experiment(
    id="ed/densities",
    title="Learned landscapes of densities",
    presets={
        "quick": QUICK,
        "full": replace(FULL, methods=dict.fromkeys(ED_METHODS, 1)),
        "paper": replace(PAPER, methods=dict.fromkeys(ED_METHODS, 1)),
    },
    cells=cells,
    n_seeds=lambda config, cell: config.methods[cell[0]],
    job=density_job,
    arrays={"landscape": "{cell}", "losses": "losses/{cell}"},
    extras=truth,
    baseline=independent_bits,
    figure=draw_landscapes,
    check=check_landscapes,
    devices=("cpu", "cuda"),
    batch=density_jobs,
)
