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
    judge_of,
    measure,
    null_images,
)
from ebmtut.experiments.drl.images import (
    FULL,
    LARGER,
    LIVE,
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
from ebmtut.results.tables import Cell, Table

__all__ = ["EXPERIMENT", "SamplesConfig", "samples_table"]

#: What no model has learned, beside each set: `null_images`.
NULLS = ("held-out data", "Gaussian fit", "independent pixels")


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


def known_rows(config: SamplesConfig, seed: int) -> Outcome:
    """Judge what no model has learned, and the judges themselves."""
    rows: dict[str, dict[str, Any]] = {null: {} for null in NULLS}
    accuracy = {}
    for name in (recipe.data for recipe in config.recipes):
        data = image_set(name)
        made = null_images(data, config.n_samples, generator=make_generator(seed))
        for null, images in made.items():
            rows[null][name] = measure(images, name)
        told = judge_of(name).probabilities(data.held_out).argmax(1)
        accuracy[name] = float((told == data.held_out_labels).double().mean())
    return Outcome({**rows, "judge's accuracy": accuracy})


def draw_samples(result: Result) -> Figure:
    """Show samples on their way down the levels, and the nearest data below.

    Of the sets after the first only the clean samples are shown.
    """
    names = [recipe["data"] for recipe in result.config["recipes"]]
    names = [name for name in names if f"levels/{name}" in result.arrays]
    rows: list[tuple[str, np.ndarray]] = []
    for name in names:
        levels = result.arrays[f"levels/{name}"]
        if not rows:
            rows.append(("white noise", levels[-1]))
            rows += [
                (f"level {t}", levels[t + 1]) for t in reversed(range(len(levels) - 2))
            ]
        rows += [
            (name, levels[0]),
            ("nearest datum", result.arrays[f"nearest/{name}"]),
        ]
    figure, axes = plt.subplots(
        len(rows), 1, figsize=panel_size(len(rows), 1, aspect=0.066, title=0.02)
    )
    for ax, (label, images) in zip(axes, rows, strict=True):
        image_grid(ax, images, 16, vmin=0, vmax=1)
        ax.text(-0.01, 0.5, label, ha="right", va="center", fontsize=8,
                transform=ax.transAxes)  # fmt: skip
    return figure


def samples_table(result: Result, name: str) -> Table:
    """Samples of a set, beside what no model has learned.

    Parameters
    ----------
    result
        Of this row.
    name
        Of the set, one of those that were learned.
    """
    learned = result.scalars["table"][name]
    nulls = {n: result.scalars[n][name] for n in NULLS if n in result.scalars}
    columns: dict[str, list[Cell]] = {"images": ["ours", *nulls]}
    for metric, head in {
        "distance": "distance",
        "confidence": "confidence",
        "rarest class": "rarest",
        "commonest class": "commonest",
        "nearest": "nearest",
    }.items():
        found = mean_and_stderr(learned.get(metric, [np.nan]))
        columns[head] = [found, *(row[metric] for row in nulls.values())]
    seconds, _ = mean_and_stderr(learned["seconds"])
    return Table(
        columns,
        caption=f"{name}: {result.config['n_samples']} images a row; the energy took "
        f"{seconds / 60:.1f} minutes of one core.",
        kinds=["", *("exact" if n == NULLS[0] else "null" for n in nulls)],
    )


Bound = tuple[str, Literal["at least", "at most"], float, bool]


def check_samples(result: Result) -> list[Verdict]:
    """Ask for images near the data, of all classes and told with confidence."""
    verdicts = []
    fitted = result.scalars["Gaussian fit"]
    for name, row in result.scalars["table"].items():
        # A Gaussian's samples are of all classes, and no copies either.
        bounds: list[Bound] = [
            ("distance", "at most", fitted[name]["distance"] / 4, False),
            ("nearest", "at most", 1.25, False),
            ("nearest", "at least", 0.5, True),
        ]
        if not name.startswith("faces"):  # Those are of forty people.
            bounds += [
                ("confidence", "at least", 0.9, False),
                ("rarest class", "at least", 0.04, True),
                ("commonest class", "at most", 0.2, True),
            ]
        for metric, rule, target, sanity in bounds:
            found = row.get(metric)
            mean, stderr = mean_and_stderr(found) if found else (None, None)
            label = f"{name}: {metric} {rule}"
            n_seeds = len(row["steps"])
            verdicts.append(
                claim(
                    label, mean, rule, target,
                    stderr=stderr, n_seeds=n_seeds, sanity=sanity,
                )
            )  # fmt: skip
    return verdicts


def gaussian_fit(result: Result) -> Result:
    """Return the row with the samples of a Gaussian in place of the energy's."""
    table = {
        name: {metric: [value] for metric, value in row.items()} | {"steps": [0]}
        for name, row in result.scalars["Gaussian fit"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="drl/samples",
    title="Images from white noise",
    presets={
        "quick": SamplesConfig((LIVE,)),
        "full": SamplesConfig((FULL, *LARGER)),
    },
    cells=cells,
    job=samples_job,
    arrays={"*": "{name}/{cell}"},
    extras=known_rows,
    figure=draw_samples,
    check=check_samples,
    null=gaussian_fit,
    parallel=False,
)
