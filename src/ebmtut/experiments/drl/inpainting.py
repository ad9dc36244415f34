"""drl/inpainting (Figures 6, 14 and 15): the missing half of an image."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import torch
from matplotlib.figure import Figure

from ebmtut.checks import Count, Range, checked
from ebmtut.experiments.drl import images as shared
from ebmtut.experiments.experiment import Outcome, by_seed
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.metrics import nearest_neighbors
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.samplers import denoised, inpaint


@checked
@dataclass(frozen=True)
class InpaintingConfig:
    """What is learned, and what it completes."""

    recipe: shared.ImageRecipe = field(default_factory=shared.ImageRecipe)
    n_images: Annotated[int, Range(low=16)] = 300
    n_seeds: Count = 1


def inpainting_job(
    config: InpaintingConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Complete held-out images twice, and by the mean and the nearest image."""
    recipe = config.recipe
    energy = shared.trained_once(recipe, seed, checkpoint, device).energy
    data, classifier = shared.image_set(recipe.data), shared.classifier_of(recipe.data)
    images = data.held_out[: config.n_images]
    free = torch.zeros_like(images)
    free[:, :, images.shape[2] // 2 :] = 1
    filled = {}
    for k in (1, 2):
        generator, of = make_generator(seed + 1 + k), (free, recipe.chain)
        found = inpaint(energy, recipe.noise, images, *of, generator=generator)
        clean = denoised(energy, recipe.noise, found).clamp(-1, 1)
        filled[f"inpainted {k}"] = torch.where(free > 0, clean, images)
    filled["mean"] = torch.where(free > 0, data.images.mean(0), images)
    known = 1 - free[0]
    place = nearest_neighbors(known * images, known * data.images).place
    filled["nearest"] = torch.where(free > 0, data.images[place], images)
    filled["truth"] = images
    table, labels = {}, data.held_out_labels[: config.n_images]
    for name, completed in filled.items():
        kept = classifier.probabilities(completed).argmax(1) == labels
        wrong = ((completed - images) * free).square().sum() / free.sum()
        table[name] = {
            "class kept": float(kept.double().mean()),
            "squared error": float(wrong),
            "distance": shared.measure(completed, recipe.data, classifier)["distance"],
        }
    arrays = {name: shared.as_pictures(x[:16]) for name, x in filled.items()}
    arrays["masked"] = shared.as_pictures(torch.where(free > 0, 0.0, images)[:16])
    # The baselines have no seed, and the same numbers for all.
    return Outcome({"rows": table}, arrays)


#: What a figure calls the images.
SHOWN = {
    "masked": "known half",
    "inpainted 1": "completed by the energy",
    "inpainted 2": "the same, with other random numbers",
    "nearest": "nearest training image",
    "mean": "mean image",
    "truth": "truth",
}


def draw_inpainting(result: Result, rows: tuple[str, ...] = tuple(SHOWN)) -> Figure:
    """Show the known halves, two completions, baselines and the truth."""
    return shared.image_rows({SHOWN[name]: result.arrays[name] for name in rows})


painting_table = Pivot(
    head="completed by",
    rows={"{images}": "rows/{images}"},
    columns={name: name for name in ("class kept", "squared error", "distance")},
    kinds={"truth": "exact"},
    caption="{n_images} held-out digits, completed twice by each energy. "
    "Seeds: {n_seeds}.",
)


def check_inpainting(result: Result) -> Verdicts:
    """Ask that completions are images, unlike the mean."""
    rows = result.scalars["rows"]
    pairs = zip(rows["inpainted 1"]["distance"], rows["mean"]["distance"], strict=True)
    ratios = [found / mean for found, mean in pairs]
    return [claim("distance over that of the mean", ratios, "at most", 0.5)]


def mean_image(result: Result) -> Result:
    """Return the result with the mean image in place of what the energy completes."""
    rows = result.scalars["rows"]
    rows = rows | {"inpainted 1": rows["mean"]}
    return replace(result, scalars=result.scalars | {"rows": rows})


EXPERIMENT = shared.image_row(
    id="drl/inpainting",
    title="Half an image completed",
    presets={
        "quick": InpaintingConfig(shared.LIVE),
        "full": InpaintingConfig(shared.FULL, n_images=500, n_seeds=3),
        # Churches of 64 x 64 pixels for Figure 15's of 128, and half of each for its
        # masks. 300 are held out; a classifier without classes tells which way up they
        # are.
        "paper": InpaintingConfig(shared.CHURCHES),
    },
    cells=lambda config: {"completions": {"config": replace(config, n_seeds=1)}},
    job=inpainting_job,
    gather=by_seed,
    figure=draw_inpainting,
    check=check_inpainting,
    baseline=mean_image,
)
