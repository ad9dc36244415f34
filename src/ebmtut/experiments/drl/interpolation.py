"""drl/interpolation (Figures 5, 11, 12 and 13): images between two images."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import numpy as np
import torch
from matplotlib.figure import Figure

from ebmtut.checks import Count, Range, checked
from ebmtut.experiments.drl import images as shared
from ebmtut.experiments.experiment import Outcome, by_seed
from ebmtut.experiments.verdicts import Verdicts, claim, mean_and_stderr
from ebmtut.random import make_generator
from ebmtut.results import Cell, Result, Table
from ebmtut.samplers import denoised, interpolate


@checked
@dataclass(frozen=True)
class InterpolationConfig:
    """What is learned, and how many arcs are drawn."""

    recipe: shared.ImageRecipe = field(default_factory=shared.ImageRecipe)
    n_arcs: Annotated[int, Range(low=4)] = 200
    n_points: Annotated[int, Range(low=3)] = 9
    n_seeds: Count = 1


def interpolation_job(
    config: InterpolationConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Draw arcs of images, and blends of their ends, pixel by pixel, beside them."""
    recipe, noise = config.recipe, config.recipe.noise
    energy = shared.trained_once(recipe, seed, checkpoint, device).energy
    like = torch.empty(config.n_arcs, *shared.image_set(recipe.data).images.shape[1:])
    sources = make_generator(seed + 2), make_generator(seed + 3)
    how = (recipe.chain, config.n_points)
    arcs = interpolate(energy, noise, like, *how, generators=sources)
    arcs = torch.stack([denoised(energy, noise, x).clamp(-1, 1) for x in arcs])
    parts = torch.linspace(0, 1, config.n_points)
    blends = [(1 - part) * arcs[0] + part * arcs[-1] for part in parts]
    # Every number at every point of the arc.
    scalars: dict[str, Any] = {}
    of = (recipe.data, shared.classifier_of(recipe.data))
    for name, images in (("arc", arcs), ("blend", blends)):
        found = [shared.measure(x, *of) for x in images]
        scalars[name] = {metric: [row[metric] for row in found] for metric in found[0]}
    pictures = np.stack([shared.as_pictures(x[:8]) for x in arcs], 1)
    return Outcome(scalars, {"arcs": pictures})


def draw_interpolation(result: Result, pairs: tuple[int, ...] = (0, 1)) -> Figure:
    """Show pairs of images: the arc between them, and below it the blend."""
    arcs = result.arrays["arcs"].astype(float)
    part = np.linspace(0, 1, arcs.shape[1])[:, None, None]
    rows = {}
    for k, arc in enumerate(arcs[list(pairs)], 1):
        rows[f"pair {k}: along an arc of the noise"] = arc
        rows[f"pair {k}: pixel by pixel"] = (1 - part) * arc[0] + part * arc[-1]
    return shared.image_rows(rows, n=arcs.shape[1])


def check_interpolation(result: Result) -> Verdicts:
    """Ask that the middle of an arc is an image, where a blend is none."""
    middle = result.config["n_points"] // 2
    arc, blend = (along(result, name, middle) for name in ("arc", "blend"))
    pairs = zip(arc["distance"], blend["distance"], strict=True)
    ratios = [one / other for one, other in pairs]
    label = "middle: distance of arcs over that of blends"
    return [
        claim(label, ratios, "at most", 0.5),
        claim("middle: confidence", arc["confidence"], "at least", 0.85),
    ]


def along(result: Result, name: str, *places: int) -> dict[str, list[float]]:
    """Every number at some places of the arcs, their mean, of each seed."""
    return {
        metric: [fmean(points[place] for place in places) for points in found]
        for metric, found in result.scalars[name].items()
    }


def middle_table(result: Result) -> Table:
    """Images halfway between two others, in both ways, and those others."""
    middle = result.config["n_points"] // 2
    rows = {
        "halfway along the arc": along(result, "arc", middle),
        "halfway pixel by pixel": along(result, "blend", middle),
        "ends of the arcs": along(result, "arc", 0, -1),
    }
    columns: dict[str, list[Cell]] = {"images": [*rows]}
    for metric in ("distance", "confidence"):
        columns[metric] = [mean_and_stderr(row[metric]) for row in rows.values()]
    caption = "{n_arcs} pairs. Seeds: {n_seeds}.".format_map(result.config)
    return Table(columns, caption=caption, kinds=["", "null", ""])


EXPERIMENT = shared.image_row(
    id="drl/interpolation",
    title="Images between images",
    presets={
        "quick": InterpolationConfig(shared.LIVE),
        "full": InterpolationConfig(shared.FULL, n_seeds=3),
        # Churches of 64 x 64 pixels for Figure 12's of 128; nine images in a row.
        "paper": InterpolationConfig(shared.CHURCHES),
    },
    cells=lambda config: {"arcs": {"config": replace(config, n_seeds=1)}},
    job=interpolation_job,
    gather=by_seed,
    figure=draw_interpolation,
    check=check_interpolation,
    # Blends of pixels in place of arcs of noise.
    baseline=lambda result: replace(
        result, scalars=result.scalars | {"arc": result.scalars["blend"]}
    ),
)
