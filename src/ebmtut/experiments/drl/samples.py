"""drl/samples (Figures 1, 4, 10 and 16): images from white noise, by levels."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from matplotlib.figure import Figure

from ebmtut.checks import Count, Range, checked
from ebmtut.experiments.drl import images as shared
from ebmtut.experiments.experiment import Cells, Outcome
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.results import Result, Table

#: In the name of what score matching learned of a set.
SCORED = ", score matching"


@checked
@dataclass(frozen=True)
class SamplesConfig:
    """Which sets are learned, each by its recipe."""

    recipes: tuple[shared.ImageRecipe, ...] = (shared.ImageRecipe(),)
    n_samples: Annotated[int, Range(low=64)] = 500
    n_seeds: tuple[Count, ...] = (1,)  # one number for all recipes, or one for each


def name_of(recipe: shared.ImageRecipe) -> str:
    """Return the set, and the objective where it is not recovery likelihood."""
    return recipe.data + (SCORED if recipe.objective == "score" else "")


def cells(config: SamplesConfig) -> Cells:
    """Name a cell for every set."""
    n = {"n_samples": config.n_samples}
    return {(name_of(recipe),): {"recipe": recipe} | n for recipe in config.recipes}


def known_rows(config: SamplesConfig, seed: int) -> Outcome:
    """Evaluate what no model has learned, and the classifiers themselves."""
    rows: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(recipe.data for recipe in config.recipes):
        found = shared.evaluated_baselines(name, config.n_samples, seed)
        of_set = found.rows | {"judge's accuracy": found.accuracy}
        for row, value in (of_set | {"sources": shared.image_set(name).source}).items():
            rows.setdefault(row, {})[name] = value
    return Outcome(rows)


def draw_samples(result: Result, name: str | None = None) -> Figure:
    """Show samples of a set on some levels and without noise, and the nearest data."""
    name = name or next(iter(result.scalars["table"]))
    levels = result.arrays[f"levels/{name}"]
    top = len(levels) - 2
    rows = {"white noise": levels[-1]} if levels.shape[-1] == 8 else {}
    if rows:
        rows |= {f"level {t}": levels[t + 1] for t in range(top - 2, -1, -2)}
    rows["samples"] = levels[0]
    if name in result.scalars[shared.BASELINES[0]]:  # a set, not its baseline
        rows["nearest training images"] = result.arrays[f"nearest/{name}"]
    # Ink is dark, and so is what is dark in a photograph.
    cmap = "gray" if levels.shape[-1] == 32 else "gray_r"
    return shared.image_rows(rows, cmap=cmap)


def samples_table(result: Result, name: str) -> Table:
    """Samples of a set, beside score matching's and what no model has learned."""
    learned = {"recovery likelihood": name, "score matching": name + SCORED}
    baselines = {row: f"{row}/{name}" for row in shared.BASELINES}
    metrics = ("distance", "confidence", "rarest class", "commonest class", "nearest")
    n_seeds = len(result.scalars["table"][name]["steps"])
    source = result.scalars["sources"][name]
    return Pivot(
        head="images",
        rows={row: f"table/{named}" for row, named in learned.items()} | baselines,
        columns={metric.removesuffix(" class"): metric for metric in metrics}
        | {"CPU s": "seconds"},
        kinds=dict.fromkeys(baselines, "null") | {shared.BASELINES[0]: "exact"},
        caption=f"{name} ({source}): {{n_samples}} images of each, and CPU seconds of "
        f"a training. Trainings: {n_seeds}.",
    )(result)


def check_samples(result: Result) -> Verdicts:
    """Ask for images near the data, of all classes and classified with confidence."""
    fitted, held_out = (result.scalars[n] for n in ("Gaussian fit", "held-out data"))
    for name, row in result.scalars["table"].items():
        if name not in held_out:  # score matching: of a baseline nothing is claimed
            continue
        quarter = fitted[name]["distance"] / 4
        near = "distance to the nearest training image, relative to held-out data"
        bounds: list[tuple[str, str, Any, float, bool]] = [
            ("distance", "distance from the data", "at most", quarter, False),
            ("nearest", near, "at most", 1.25, False),
            # A sanity check: samples of a Gaussian fit are no copies either.
            ("nearest", near, "at least", 0.5, True),
            *shared.CLASS_BOUNDS,
        ]
        if name not in shared.TEN_CLASSES:
            bounds = bounds[:3]  # of forty people, or without classes
        if held_out[name]["distance"] >= quarter:
            bounds = bounds[1:]  # the classifier of forty people has no such distance
        for metric, words, rule, target, sanity in bounds:
            found, label = shared.distances_of(row, metric), f"{name}: {words}, {rule}"
            yield claim(label, found, rule, target, sanity=sanity)


def gaussian_fit(result: Result) -> Result:
    """Return the result with samples of a Gaussian in place of the energy's."""
    table = {
        name: {metric: [value] for metric, value in row.items()} | {"steps": [0]}
        for name, row in result.scalars["Gaussian fit"].items()
    }
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = shared.image_row(
    id="drl/samples",
    title="Images from white noise",
    presets={
        "quick": SamplesConfig((shared.LIVE,)),
        "full": SamplesConfig((shared.FULL, *shared.LARGER), n_seeds=(3, 2, 1, 1, 2)),
        # Of Figures 1, 4, 10 and 16 the sets that `PaperRecipe` knows.
        "paper": SamplesConfig(
            (shared.CIFAR10, shared.CELEBA, shared.CHURCHES, shared.CHURCHES_128),
            n_samples=2500,
        ),
    },
    cells=cells,
    job=shared.image_job,
    n_seeds=lambda config, names: config.n_seeds[
        [name_of(recipe) for recipe in config.recipes].index(names[0])
        % len(config.n_seeds)
    ],
    arrays={"images": "samples/{cell}", "*": "{name}/{cell}"},
    extras=known_rows,
    figure=draw_samples,
    check=check_samples,
    baseline=gaussian_fit,
)
