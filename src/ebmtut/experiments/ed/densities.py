"""Row ed/densities (Figures 3 and 4): landscapes of densities, true and learned.

A seed that diverged has no numbers: NaN in a fresh result, None in a stored one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.checks import Count, OneOf, Range, checked
from ebmtut.data import DENSITIES, density_extent, exact_entropy
from ebmtut.experiments.ed.density_jobs import density_job, density_jobs
from ebmtut.experiments.ed.judging import (
    QUICK_LOOK,
    Evaluation,
    judge_independent_bits,
    landscape,
)
from ebmtut.experiments.ed.recipes import METHODS, Recipe
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, panel_size
from ebmtut.plotting import landscape as draw_landscape
from ebmtut.results import Result

ED_METHODS = ("ED-Bern", "ED-Grid", "ED-Pool")


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
    """Return the recipe for one method.

    PCD needs a smaller step: its gradient has no lower bound to rest on.
    """
    recipe = replace(recipe, method=method)
    if method == "PCD":
        recipe = replace(recipe, learning_rate=recipe.learning_rate / 5)
    return recipe


def cells(config: DensityConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and density."""
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
        # Half precision is enough for a picture; it ends at -65504.
        f"truth/{name}": landscape(None, name, n_pixels=config.n_pixels)
        .clip(-6e4)
        .astype(np.float16)
        for name in config.densities
    }
    entropies = {name: exact_entropy(name) for name in config.densities}
    return Outcome({"entropy": entropies}, pictures)


# Largest part of the square for the region of 95 percent of the mass. The truth has 17,
# 29 and 31 percent, independent bits 48, 55 and 79, a flat square over the whole
# checkerboard 60.
AREAS = {"2spirals": 0.40, "circles": 0.45, "checkerboard": 0.45}


def draw_landscapes(result: Result, densities: Sequence[str] = ()) -> Figure:
    """Draw true and learned landscapes, a row per density, or one density in two."""
    densities = list(densities or result.scalars["entropy"])
    columns = ["truth", *result.scalars["table"]]
    shape = (len(densities), len(columns))
    if shape[0] == 1 and shape[1] % 2 == 0:
        shape = (2, shape[1] // 2)
    size = panel_size(*shape, title=0.3 if len(densities) == 1 else 0.05)
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False)
    for row, density in zip(axes.reshape(len(densities), -1), densities, strict=True):
        for ax, column in zip(row, columns, strict=True):
            picture = result.arrays.get(f"{column}/{density}")
            if picture is None:
                ax.set(xticks=[], yticks=[])
                ax.set_box_aspect(1)
                ax.spines[:].set_visible(False)
                ax.text(0.5, 0.5, "diverged", ha="center", va="center", fontsize=9)
            else:
                draw_landscape(ax, picture, density_extent(density), ticks=False)
            if density == densities[0]:
                ax.set_title(column, color=COLORS.get(column, "black"))
        if len(densities) > 1:
            row[0].set_ylabel(density)
    return figure


def check_landscapes(result: Result) -> list[Verdict]:
    """Judge coverage: little of the square, and in it, for sanity, most of the data.

    Independent bits cover most of the data, too, with a larger region.
    """
    verdicts = []
    for method, row in result.scalars["table"].items():
        for density, most in AREAS.items():
            if density not in row:
                continue
            cell = row[density]
            inside, area = (seeds_of(cell, k).mean() for k in ("inside", "area"))
            name = f"{method}, {density}: "
            verdicts += [
                claim(
                    name + "data in the 95 % region",
                    inside,
                    "at least",
                    0.90,
                    sanity=True,
                ),
                claim(name + "region's part of the square", area, "at most", most),
            ]
    return verdicts


def independent_bits(result: Result) -> Result:
    """Return what independent bits with the data's means would have got."""
    table = {
        method: {
            density: cell
            | {key: [v] for key, v in judge_independent_bits(density).items()}
            for density, cell in row.items()
        }
        for method, row in result.scalars["table"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


def seeds_of(cell: dict[str, Any], metric: str) -> np.ndarray:
    """One number a seed, NaN where it diverged."""
    return np.array(cell.get(metric, [math.nan]), dtype=float)


# A fifth of the steps, a quarter of the negatives, two of the methods and the density
# with edges. With half as many steps one bit stays unlearned in every other run.
QUICK = DensityConfig(
    densities=("checkerboard",),
    methods=dict.fromkeys(("ED-Bern", "ED-Grid"), 1),
    recipe=Recipe(n_steps=4_000, batch_size=64, n_negatives=8, ema_decay=0.99),
    evaluation=QUICK_LOOK,
    n_pixels=96,
)
# Half the paper's batch and a fifth of its steps: four minutes of a core a run, and
# 84 of them for the table.
FULL = DensityConfig(
    methods=dict.fromkeys(METHODS, 3),
    recipe=Recipe(n_steps=20_000, batch_size=64),
)
# The paper's own protocol; a GPU's work. Neither an average of the weights nor a decay
# is in the text; the authors' notebook averages so.
PAPER = DensityConfig(
    methods=dict.fromkeys(METHODS, 3),
    recipe=Recipe(
        n_steps=100_000,
        learning_rate=2e-3,
        decay="constant",
        ema_decay=0.999,
        n_backward=None,
    ),
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
    null=independent_bits,
    figure=draw_landscapes,
    check=check_landscapes,
    devices=("cpu", "cuda"),
    batch=density_jobs,
)
