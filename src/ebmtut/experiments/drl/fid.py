"""drl/fid (Tables 1 and 3): how far samples are from data, in a named network."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from matplotlib.figure import Figure

from ebmtut.checks import Count, Natural, Range, checked
from ebmtut.experiments.drl import images as shared
from ebmtut.experiments.experiment import Cells, Outcome
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import Verdicts, claim, compare, mean_and_stderr
from ebmtut.random import make_generator
from ebmtut.results import Result, Table

UNTRAINED = "untrained network"
_EXCUSE = (
    "the paper's FID is measured on CIFAR-10 in Inception's features, this distance "
    "on digits in those of a small network"
)


@checked
@dataclass(frozen=True)
class FidConfig:
    """Which sets are learned, how, and how many samples are evaluated."""

    recipe: shared.ImageRecipe = field(default_factory=shared.ImageRecipe)
    # Updates of score matching per update of recovery likelihood, for equal CPU time: 3
    # in the stored runs; 2 since chains evaluate gradients alone. 0 leaves it out.
    score_factor: Natural = 2
    n_samples: Annotated[int, Range(low=4)] = 500
    n_draws: Count = 1
    n_seeds: Count = 1
    more: tuple[shared.ImageRecipe, ...] = ()  # of other sets


def cells(config: FidConfig) -> Cells:
    """Name a cell for every method and set."""
    first = config.recipe
    recipes = {("recovery likelihood", first.data): first}
    if config.score_factor:
        n_steps = config.score_factor * first.n_steps
        scored = replace(first, objective="score", n_steps=n_steps)
        recipes[("score matching", first.data)] = scored
    recipes |= {("recovery likelihood", recipe.data): recipe for recipe in config.more}
    alike = {"n_samples": config.n_samples, "n_draws": config.n_draws}
    return {cell: {"recipe": recipe, **alike} for cell, recipe in recipes.items()}


def baselines(config: FidConfig, seed: int) -> Outcome:
    """Evaluate what no model has learned, and the classifier itself."""
    table: dict[str, Any] = {}
    arrays, accuracy, n = {}, {}, config.n_samples
    for recipe in (config.recipe, *config.more):
        name = recipe.data
        shape = tuple(shared.image_set(name).images.shape[1:])
        of = (recipe.energy(shape, seed), recipe, n)
        drawn = shared.draw_images(*of, generator=make_generator(seed))[0]
        found = shared.evaluated_baselines(name, n, seed, (UNTRAINED, drawn))
        accuracy[name] = found.accuracy
        for baseline, row in found.rows.items():
            table.setdefault(baseline, {})[name] = row
            pictures = shared.as_pictures(found.images[baseline][:64])
            arrays[f"images/{baseline}/{name}"] = pictures
    return Outcome({"nulls": table, "judge's accuracy": accuracy}, arrays)


def draw_table(result: Result) -> Figure:
    """Show samples of every method and baseline of the first set."""
    name, (first, *others) = result.config["recipe"]["data"], shared.BASELINES
    names = (first, *result.scalars["table"], *others, UNTRAINED)
    return shared.image_rows({k: result.arrays[f"images/{k}/{name}"] for k in names})


def fid_table(
    result: Result,
    metrics: tuple[str, ...] = ("distance", "confidence", "nearest"),
    shown: tuple[str, ...] | None = None,
) -> Table:
    """Tabulate methods and baselines on the first set; "seconds" are of the CPU."""
    name = result.config["recipe"]["data"]
    parts = {part: result.scalars[part] for part in ("table", "nulls")}
    return Pivot(
        head="images",
        rows={
            row: f"{part}/{row}/{name}"
            for part, rows in parts.items()
            for row in rows
            if shown is None or row in shown
        },
        columns={"CPU s" if m == "seconds" else m: m for m in metrics},
        kinds=dict.fromkeys(parts["nulls"], "null") | {shared.BASELINES[0]: "exact"},
        caption="{n_samples} images of each; mean ± standard error of {n_seeds} "
        "trainings.",
    )(result)


def check_fid(result: Result) -> Verdicts:
    """Hold the digits between the baselines; the paper's numbers do not compare."""
    table, baseline = result.scalars["table"], result.scalars["nulls"]
    for name, row in table["recovery likelihood"].items():
        quarter = baseline["Gaussian fit"][name]["distance"] / 4
        near = ("distance", "distance from the data", "at most", quarter, False)
        for metric, words, rule, target, sanity in (near, *shared.CLASS_BOUNDS):
            yield claim(f"{name}: {words}", row[metric], rule, target, sanity=sanity)
    first = table["recovery likelihood"][result.config["recipe"]["data"]]
    for printed, column, metric in (
        ("CIFAR-10", "FID", "distance"),
        ("CIFAR-10 inception score", "IS", "class score"),
    ):
        mean, n_seeds = mean_and_stderr(first[metric])[0], len(first[metric])
        place = ("drl/fid", printed, "T6, K30", column)
        yield compare(*place, mean, excuse=_EXCUSE, n_seeds=n_seeds)


def gaussian_fit(result: Result) -> Result:
    """Return the result with samples of a Gaussian in place of the energy's."""
    fits = {
        name: {metric: [value] for metric, value in row.items()}
        for name, row in result.scalars["nulls"]["Gaussian fit"].items()
    }
    table = result.scalars["table"] | {"recovery likelihood": fits}
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = shared.image_row(
    id="drl/fid",
    title="Distance of samples from data",
    presets={
        "quick": FidConfig(shared.LIVE, n_draws=8),
        "full": FidConfig(shared.FULL, score_factor=3, n_seeds=3),
        # 50,000 samples, as in the paper. Its number is of Inception's features, whose
        # weights the experiment does not have (`ebmtut.metrics.inception_features`).
        "paper": FidConfig(
            shared.CIFAR10, score_factor=0, n_samples=50_000, more=shared.OTHERS
        ),
    },
    cells=cells,
    job=shared.image_job,
    arrays={"images": "images/{cell}"},
    extras=baselines,
    figure=draw_table,
    check=check_fid,
    baseline=gaussian_fit,
)
