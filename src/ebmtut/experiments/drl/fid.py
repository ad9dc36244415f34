"""drl/fid (Tables 1 and 3): how far samples are from data, in a named network."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from matplotlib.figure import Figure

from ebmtut.checks import Count, OneOf, Range, checked
from ebmtut.experiments.drl import images as shared
from ebmtut.experiments.drl.paper_images import CIFAR10, OTHERS
from ebmtut.experiments.experiment import Cells, Outcome
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import Verdicts, claim, compare, mean_and_stderr
from ebmtut.random import make_generator
from ebmtut.results import Result, Table

UNTRAINED = "untrained network"
METHODS = {"recovery likelihood": "recovery", "score matching": "score"}
_EXCUSE = (
    "the paper's FID is measured on CIFAR-10 in Inception's features, this distance "
    "on digits in those of a small network of ours"
)


@checked
@dataclass(frozen=True)
class FidConfig:
    """Which sets are learned, how, and how many samples are evaluated."""

    recipe: shared.ImageRecipe = field(default_factory=shared.ImageRecipe)
    data: tuple[str, ...] = ("digits 8x8",)
    steps: tuple[tuple[Annotated[str, OneOf(METHODS)], Count], ...] = (
        ("recovery likelihood", 2000),
        ("score matching", 6000),
    )
    n_samples: Annotated[int, Range(low=4)] = 500
    n_draws: Count = 1
    n_seeds: Count = 1
    more: tuple[shared.ImageRecipe, ...] = ()

    def by_set(self) -> dict[str, shared.ImageRecipe]:
        """Give the recipe of each set, but for its objective and its steps."""
        known = {name: replace(self.recipe, data=name) for name in self.data}
        return known | {recipe.data: recipe for recipe in self.more}


def _steps(recipe: shared.ImageRecipe, factor: int) -> tuple[tuple[str, int], ...]:
    """Give score matching the updates of equal CPU time."""
    # 3 to 1 in the stored runs; 2 to 1 since chains evaluate gradients alone.
    n = recipe.n_steps
    return ("recovery likelihood", n), ("score matching", factor * n)


def cells(config: FidConfig) -> Cells:
    """Name a cell for every method and set."""
    known = config.by_set()
    recipes = {
        (method, data): replace(known[data], objective=METHODS[method], n_steps=n_steps)
        for method, n_steps in config.steps
        for data in config.data
    } | {("recovery likelihood", recipe.data): recipe for recipe in config.more}
    alike = {"n_samples": config.n_samples, "n_draws": config.n_draws}
    return {cell: {"recipe": recipe, **alike} for cell, recipe in recipes.items()}


def baselines(config: FidConfig, seed: int) -> Outcome:
    """Evaluate what no model has learned, and the classifier itself."""
    table: dict[str, Any] = {}
    arrays, n, recipes = {}, config.n_samples, config.by_set()
    for name, recipe in recipes.items():
        data = shared.image_set(name)
        made = shared.baseline_images(data, n, generator=make_generator(seed))
        untrained = recipe.energy(tuple(data.images.shape[1:]), seed)
        drawn = shared.draw_images(untrained, recipe, n, generator=make_generator(seed))
        for baseline, images in (made | {UNTRAINED: drawn[0]}).items():
            table.setdefault(baseline, {})[name] = shared.measure(images, name)
            arrays[f"images/{baseline}/{name}"] = shared.as_pictures(images[:64])
    accuracy = {name: shared.accuracy_of(name) for name in recipes}
    return Outcome({"nulls": table, "judge's accuracy": accuracy}, arrays)


def draw_table(result: Result) -> Figure:
    """Show samples of every method and baseline of the first set."""
    name, (first, *others) = result.config["data"][0], shared.BASELINES
    names = (first, *result.scalars["table"], *others, UNTRAINED)
    return shared.image_rows({k: result.arrays[f"images/{k}/{name}"] for k in names})


def fid_table(
    result: Result,
    metrics: tuple[str, ...] = ("distance", "confidence", "nearest"),
    shown: tuple[str, ...] | None = None,
) -> Table:
    """Tabulate methods and baselines on the first set; "seconds" are of the CPU."""
    name = result.config["data"][0]
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
    first = table["recovery likelihood"][result.config["data"][0]]
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
        "quick": FidConfig(shared.LIVE, steps=_steps(shared.LIVE, 2), n_draws=8),
        "full": FidConfig(shared.FULL, steps=_steps(shared.FULL, 3), n_seeds=3),
        # 50,000 samples, as in the paper. Its number is of Inception's features, whose
        # weights the experiment does not have (`ebmtut.metrics.inception_features`).
        "paper": FidConfig(
            CIFAR10,
            data=("CIFAR-10",),
            steps=(("recovery likelihood", CIFAR10.n_steps),),
            n_samples=50_000,
            more=OTHERS,
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
