"""Row drl/samples (Figures 1, 4, 10 and 16): images from white noise, by levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.checks import Count, Range, checked
from ebmtut.experiments.drl.image_sets import (
    as_pictures,
    image_set,
    measure,
    null_images,
)
from ebmtut.experiments.drl.images import (
    FULL,
    QUICK,
    ImageRecipe,
    draw_images,
    trained_once,
)
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, mean_and_stderr
from ebmtut.metrics import nearest_neighbors
from ebmtut.plotting import image_grid, panel_size
from ebmtut.random import make_generator
from ebmtut.results import Result

__all__ = ["EXPERIMENT", "SamplesConfig"]


@checked
@dataclass(frozen=True)
class SamplesConfig:
    """Which sets are learned, each by its recipe."""

    recipes: tuple[ImageRecipe, ...] = field(default_factory=lambda: (ImageRecipe(),))
    n_samples: Annotated[int, Range(low=64)] = 500
    n_seeds: Count = 1


def samples_job(
    recipe: ImageRecipe, n_samples: int, seed: int, checkpoint: Path | None = None
) -> Outcome:
    """Learn, draw through all levels, and find each sample's nearest datum."""
    trained = trained_once(recipe, seed, checkpoint)
    if trained.message:
        return Outcome(trained.cost)
    drawn = draw_images(
        trained.energy, recipe, n_samples, generator=make_generator(seed + 2)
    )
    data = image_set(recipe.data).images
    nearest = data[nearest_neighbors(drawn[0, :16], data).place]
    return Outcome(
        trained.cost | measure(drawn[0], recipe.data),
        {
            "levels": np.stack([as_pictures(level[:16]) for level in drawn]),
            "samples": as_pictures(drawn[0, :64]),
            "nearest": as_pictures(nearest),
        },
    )


def cells(config: SamplesConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every set."""
    return {
        (recipe.data,): {"recipe": recipe, "n_samples": config.n_samples}
        for recipe in config.recipes
    }


def gaussian_rows(config: SamplesConfig, seed: int) -> Outcome:
    """Judge the null: samples of a Gaussian fitted to the pixels."""
    rows = {}
    for name in (recipe.data for recipe in config.recipes):
        made = null_images(
            image_set(name), config.n_samples, generator=make_generator(seed)
        )
        rows[name] = measure(made["Gaussian fit"], name)
    return Outcome({"Gaussian fit": rows})


def draw_samples(result: Result) -> Figure:
    """Show samples on their way down the levels, and the nearest data below."""
    names = [recipe["data"] for recipe in result.config["recipes"]]
    names = [name for name in names if f"levels/{name}" in result.arrays]
    n_rows = [len(result.arrays[f"levels/{name}"]) + 1 for name in names]
    figure, axes = plt.subplots(
        sum(n_rows), 1, figsize=panel_size(sum(n_rows), 1, aspect=0.066, title=0.02)
    )
    place = 0
    for name in names:
        levels = result.arrays[f"levels/{name}"]
        rows = [
            ("white noise", levels[-1]),
            *((f"level {t}", levels[t + 1]) for t in reversed(range(len(levels) - 2))),
            ("denoised", levels[0]),
            ("nearest datum", result.arrays[f"nearest/{name}"]),
        ]
        for label, images in rows:
            ax = axes[place]
            image_grid(ax, images, 16, vmin=0, vmax=1)
            ax.text(-0.01, 0.5, label, ha="right", va="center", fontsize=8,
                    transform=ax.transAxes)  # fmt: skip
            place += 1
    return figure


def check_samples(result: Result) -> list[Verdict]:
    """Ask for ten classes, told with confidence, and no copies."""
    verdicts = []
    for name, row in result.scalars["table"].items():
        if "confidence" not in row:
            verdicts.append(claim(f"{name}: confidence", None, "at least", 0.9))
            continue
        n_seeds = len(row["confidence"])
        bounds: tuple[tuple[str, Literal["at least", "at most"], float], ...] = (
            ("confidence", "at least", 0.9),
            ("rarest class", "at least", 0.04),
            ("commonest class", "at most", 0.2),
            ("nearest", "at least", 0.5),
        )
        for metric, rule, target in bounds:
            mean, stderr = mean_and_stderr(row[metric])
            of: dict[str, Any] = {"stderr": stderr, "n_seeds": n_seeds}
            # A Gaussian's samples are of all classes, and no copies either.
            of["sanity"] = metric != "confidence"
            verdicts.append(claim(f"{name}: {metric}", mean, rule, target, **of))
    return verdicts


def gaussian_fit(result: Result) -> Result:
    """Return the row with the samples of a Gaussian in place of the energy's."""
    table = {
        name: {metric: [value] for metric, value in row.items()}
        for name, row in result.scalars["Gaussian fit"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="drl/samples",
    title="Images from white noise",
    presets={
        "quick": SamplesConfig((QUICK,)),
        "full": SamplesConfig((FULL,)),
    },
    cells=cells,
    job=samples_job,
    arrays={"*": "{name}/{cell}"},
    extras=gaussian_rows,
    figure=draw_samples,
    check=check_samples,
    null=gaussian_fit,
    parallel=False,
)
