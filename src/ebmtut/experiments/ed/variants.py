"""One density learned in many ways: what ed/epsilon, ed/window, ed/w-and-m share."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.checks import OneOf, checked
from ebmtut.data import DENSITIES, density_extent
from ebmtut.experiments.ed.evaluation import (
    Evaluation,
    density_job,
    density_jobs,
    landscape,
)
from ebmtut.experiments.ed.recipes import Recipe
from ebmtut.experiments.experiment import Cells, Experiment, Outcome, Runs
from ebmtut.plotting import DIVERGED_GAP, panel_size
from ebmtut.plotting import landscape as draw_landscape
from ebmtut.results import Result

# How the variants are evaluated.
BY_THE_GAP = Evaluation(n_uniform=0, n_proposal=50_000, n_repeats=0)
# Short runs: a short memory of the averaged weights.
SHORT = Recipe(n_steps=1200, batch_size=64, ema_decay=0.99)
# Live ones: fewer steps and negatives, for a minute on one core.
LIVE = replace(SHORT, n_steps=800, n_negatives=8)


@checked
@dataclass(frozen=True)
class AblationConfig:
    """One density, learned in many ways."""

    variants: tuple[Recipe, ...]
    density: Annotated[str, OneOf(DENSITIES)] = "2spirals"
    n_pixels: int = 96
    evaluation: Evaluation = BY_THE_GAP


def variant_name(recipe: Recipe) -> str:
    """Name a recipe by what the ablations vary."""
    varied = {"ED-Bern": f"eps{recipe.eps:g}", "ED-Pool": f"window{recipe.window}"}
    noise = varied.get(recipe.method, "")
    return f"{recipe.method}-{noise}-M{recipe.n_negatives}-w{recipe.stabilizer:g}"


def cells(config: AblationConfig) -> Cells:
    """Name an entry for every variant, and one that takes a single, tiny step."""
    start = replace(config.variants[0], method="ED-Bern", eps=0, n_steps=1)
    recipes = {variant_name(recipe): recipe for recipe in config.variants}
    return {
        name: {
            "density": config.density,
            "recipe": recipe,
            "evaluation": config.evaluation,
            "n_pixels": config.n_pixels,
        }
        for name, recipe in (recipes | {"untrained": start}).items()
    }


def gather(config: AblationConfig, runs: Runs) -> Outcome:
    """Put the recipe beside each variant's numbers, the untrained gap beside all."""
    variants, arrays = {}, {}
    for recipe in config.variants:
        name = variant_name(recipe)
        (outcome,) = runs[name,]
        variants[name] = outcome.scalars | {"recipe": asdict(recipe)}
        if "landscape" in outcome.arrays:
            arrays[name] = outcome.arrays["landscape"]
    (start,) = runs["untrained",]
    scalars = {
        "variants": variants,
        "density": config.density,
        "untrained": start.scalars["gap"],
    }
    return Outcome(scalars, arrays)


def truth(config: AblationConfig, seed: int) -> Outcome:
    """Return the true landscape."""
    picture = landscape(None, config.density, n_pixels=config.n_pixels)
    return Outcome(arrays={"truth": picture.clip(-6e4).astype(np.float16)})


def gap_of(result: Result, recipe: Recipe) -> float:
    """Return the KL to the data of a variant; infinite if it diverged."""
    gap = result.scalars["variants"][variant_name(recipe)].get("gap")
    return float("inf") if gap is None or not abs(gap) < DIVERGED_GAP else float(gap)


def recipes_of(result: Result) -> list[Recipe]:
    """Return the recipes that a result holds."""
    return [Recipe(**v["recipe"]) for v in result.scalars["variants"].values()]


def all_untrained(result: Result) -> Result:
    """Return the same variants, none of which has learned anything."""
    variants = result.scalars["variants"]
    gap = {"gap": result.scalars["untrained"]}
    learned = {name: {"recipe": v["recipe"]} | gap for name, v in variants.items()}
    arrays = dict.fromkeys(variants, result.arrays["truth"])  # all alike
    scalars = result.scalars | {"variants": learned}
    return replace(result, scalars=scalars, arrays=arrays)


def draw_variants(
    result: Result, title: Callable[[Recipe], str], order: Callable[[Recipe], float]
) -> Figure:
    """Draw landscapes over their KL to the data, a row for each number of negatives."""
    recipes = sorted(recipes_of(result), key=order)
    ms = sorted({recipe.n_negatives for recipe in recipes})
    rows = [[r for r in recipes if r.n_negatives == m] for m in ms]
    shape = len(rows), max(map(len, rows))
    size = panel_size(*shape, title=0.42)
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False)
    for ax in axes.flat[:]:
        ax.set(xticks=[], yticks=[], box_aspect=1)
        ax.spines[:].set_visible(False)
    for m, line, row in zip(ms, axes, rows, strict=True):
        line[0].set_ylabel(f"M = {m}", fontsize=12)
        for ax, recipe in zip(line, row, strict=False):
            name, gap = variant_name(recipe), gap_of(result, recipe)
            ax.set_title(title(recipe), fontsize=11)
            if name in result.arrays and np.isfinite(gap):
                extent = density_extent(result.scalars["density"])
                draw_landscape(ax, result.arrays[name], extent, ticks=False)
                ax.set_xlabel(f"{gap:.2f}", fontsize=12)
            else:
                ax.text(0.5, 0.5, "diverged", ha="center", va="center", fontsize=11)
    return figure


# An experiment of this kind lacks only its variants, its figure and its check.
ablation = partial(
    Experiment[AblationConfig],
    cells=cells,
    job=density_job,
    batch=density_jobs,
    gather=gather,
    extras=truth,
    baseline=all_untrained,
    devices=("cpu", "cuda"),
)
