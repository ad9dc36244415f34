"""drl/fid (Tables 1 and 3): how far samples are from data, in a named network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal

from matplotlib.figure import Figure

from ebmtut.checks import Count, DivergenceError, OneOf, Range, checked
from ebmtut.experiments.drl.image_sets import (
    as_pictures,
    image_rows,
    image_set,
    judge_of,
    measure,
    null_images,
)
from ebmtut.experiments.drl.images import (
    FULL,
    LIVE,
    ImageRecipe,
    draw_images,
    trained_once,
)
from ebmtut.experiments.drl.paper_images import (
    BEDROOMS,
    BEDROOMS_128,
    CELEBA,
    CHURCHES,
    CHURCHES_128,
    CIFAR10,
)
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, compare, mean_and_stderr
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

NULLS = (
    "held-out data",
    "Gaussian fit",
    "independent pixels",
    "untrained network",
)
METHODS = {"recovery likelihood": "recovery", "score matching": "score"}
#: Steps of score matching that cost the CPU about as much as one of ours: as the stored
#: runs were made, and since chains ask for gradients alone.
SCORE_STEPS, LIVE_SCORE_STEPS = 3, 2
_EXCUSE = (
    "the paper's FID is measured on CIFAR-10 in Inception's features, this distance "
    "on digits in those of a small network of ours"
)


@checked
@dataclass(frozen=True)
class FidConfig:
    """Which sets are learned, how, and how many samples are evaluated."""

    recipe: ImageRecipe = field(default_factory=ImageRecipe)
    data: tuple[str, ...] = ("digits 8x8",)
    steps: tuple[tuple[Annotated[str, OneOf(METHODS)], Count], ...] = (
        ("recovery likelihood", 2000),
        ("score matching", 6000),
    )
    n_samples: Annotated[int, Range(low=4)] = 500
    n_draws: Count = 1
    n_seeds: Count = 1
    more: tuple[ImageRecipe, ...] = ()

    def by_set(self) -> dict[str, ImageRecipe]:
        """Give the recipe of each set, but for its objective and its steps."""
        known = {name: replace(self.recipe, data=name) for name in self.data}
        return known | {recipe.data: recipe for recipe in self.more}


def sets_of(result: Result) -> list[str]:
    """List the sets of a result; it may have been stored before there were more."""
    more = [recipe["data"] for recipe in result.config.get("more", ())]
    return [*result.config["data"], *more]


def image_job(
    recipe: ImageRecipe,
    n_samples: int,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
    n_draws: int = 1,
) -> Outcome:
    """Learn, sample and evaluate; of several sets, means and the spread."""
    trained = trained_once(recipe, seed, checkpoint, device)
    if trained.message:
        return Outcome(trained.cost)
    generator = make_generator(seed + 2, device)
    try:
        draws = [
            draw_images(trained.energy, recipe, n_samples, generator=generator)[0]
            for _ in range(n_draws)
        ]
    except (
        DivergenceError
    ):  # nothing to classifier: as good as stopped by the divergence check
        return Outcome(trained.cost)
    judged = [measure(images, recipe.data) for images in draws]
    # Of images that are not finite nothing but that is known.
    shared = [name for name in judged[0] if all(name in one for one in judged)]
    found = {name: fmean(one[name] for one in judged) for name in shared}
    if n_draws > 1:
        found["spread"] = stdev(one["distance"] for one in judged)
    return Outcome(found | trained.cost, {"images": as_pictures(draws[0][:64])})


def cells(config: FidConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and set."""
    known = config.by_set()
    recipes = {
        (method, data): replace(known[data], objective=METHODS[method], n_steps=n_steps)
        for method, n_steps in config.steps
        for data in config.data
    } | {("recovery likelihood", recipe.data): recipe for recipe in config.more}
    alike = {"n_samples": config.n_samples, "n_draws": config.n_draws}
    return {cell: {"recipe": recipe, **alike} for cell, recipe in recipes.items()}


def nulls(config: FidConfig, seed: int) -> Outcome:
    """Evaluate what no model has learned, and the classifier itself."""
    table: dict[str, Any] = {}
    arrays, accuracy = {}, {}
    for name, recipe in config.by_set().items():
        data = image_set(name)
        made = null_images(data, config.n_samples, generator=make_generator(seed))
        shape = tuple(data.images.shape[1:])
        made["untrained network"] = draw_images(
            recipe.energy(shape, seed),
            recipe,
            config.n_samples,
            generator=make_generator(seed),
        )[0]
        for null, images in made.items():
            table.setdefault(null, {})[name] = measure(images, name)
            arrays[f"images/{null}/{name}"] = as_pictures(images[:64])
        told = judge_of(name).probabilities(data.held_out).argmax(1)
        accuracy[name] = float((told == data.held_out_labels).double().mean())
    return Outcome({"nulls": table, "judge's accuracy": accuracy}, arrays)


def draw_table(result: Result) -> Figure:
    """Show samples of every method and baseline of the first set."""
    name = result.config["data"][0]
    names = [*NULLS[:1], *result.scalars["table"], *NULLS[1:]]
    return image_rows({row: result.arrays[f"images/{row}/{name}"] for row in names})


def fid_table(
    result: Result,
    metrics: tuple[str, ...] = ("distance", "confidence", "nearest"),
    shown: tuple[str, ...] | None = None,
) -> Table:
    """Tabulate methods and baselines on the first set; "seconds" are of the CPU."""
    name = result.config["data"][0]
    learned, nulls = result.scalars["table"], result.scalars["nulls"]
    names = [n for n in (*learned, *nulls) if shown is None or n in shown]
    columns: dict[str, list[Cell]] = {"images": [*names]}
    for metric in metrics:
        columns["CPU s" if metric == "seconds" else metric] = [
            mean_and_stderr(learned[n][name][metric])
            if n in learned
            else nulls[n][name].get(metric)
            for n in names
        ]
    if "CPU s" in columns:
        seconds = [learned[n][name]["seconds"] for n in names if n in learned]
        columns["CPU s"][: len(seconds)] = [round(fmean(s)) for s in seconds]
    kinds = {n: "exact" if n == NULLS[0] else "null" for n in nulls}
    return Table(
        columns,
        caption=f"{result.config['n_samples']} images of each. Trainings: "
        f"{result.config['n_seeds']}.",
        kinds=[kinds.get(n, "") for n in names],
    )


def check_fid(result: Result) -> list[Verdict]:
    """Hold the digits between the baselines; the paper's numbers do not compare."""
    verdicts = []
    table, null = result.scalars["table"], result.scalars["nulls"]
    for name in sets_of(result):
        row = table["recovery likelihood"][name]
        n_seeds = len(row["distance"])
        bounds: tuple[tuple[str, Literal["at least", "at most"], float], ...] = (
            ("distance", "at most", null["Gaussian fit"][name]["distance"] / 4),
            ("confidence", "at least", 0.9),
            ("rarest class", "at least", 0.04),
            ("commonest class", "at most", 0.2),
        )
        for metric, rule, target in bounds:
            mean, stderr = mean_and_stderr(row[metric])
            of: dict[str, Any] = {"stderr": stderr, "n_seeds": n_seeds}
            # A Gaussian's samples are of all classes, too.
            of["sanity"] = metric.endswith("class")
            verdicts.append(claim(f"{name}: {metric}", mean, rule, target, **of))
    for printed, column in (("CIFAR-10", "FID"), ("CIFAR-10 inception score", "IS")):
        metric = "distance" if column == "FID" else "class score"
        first = table["recovery likelihood"][result.config["data"][0]][metric]
        mean, _ = mean_and_stderr(first)
        verdicts.append(
            compare(
                "drl/fid", printed, "T6, K30", column, mean,
                n_seeds=len(first), excuse=_EXCUSE,
            )
        )  # fmt: skip
    return verdicts


def gaussian_fit(result: Result) -> Result:
    """Return the result with the samples of a Gaussian in place of the energy's."""
    scalars = dict(result.scalars)
    table = {
        name: {metric: [value] for metric, value in row.items()}
        for name, row in scalars["nulls"]["Gaussian fit"].items()
    }
    scalars["table"] = scalars["table"] | {"recovery likelihood": table}
    return replace(result, scalars=scalars)


EXPERIMENT = Experiment(
    id="drl/fid",
    title="Distance of samples from data",
    presets={
        "quick": FidConfig(
            LIVE,
            steps=(
                ("recovery likelihood", LIVE.n_steps),
                ("score matching", LIVE_SCORE_STEPS * LIVE.n_steps),
            ),
            n_draws=8,
        ),
        "full": FidConfig(
            FULL,
            steps=(
                ("recovery likelihood", FULL.n_steps),
                ("score matching", SCORE_STEPS * FULL.n_steps),
            ),
            n_seeds=3,
        ),
        # 50,000 samples, as the paper classifiers. Its number is of Inception's
        # features,
        # whose weights the experiment does not have
        # (`ebmtut.metrics.inception_features`).
        "paper": FidConfig(
            CIFAR10,
            data=("CIFAR-10",),
            steps=(("recovery likelihood", CIFAR10.n_steps),),
            n_samples=50_000,
            more=(CELEBA, CHURCHES, BEDROOMS, CHURCHES_128, BEDROOMS_128),
        ),
    },
    cells=cells,
    job=image_job,
    arrays={"images": "images/{cell}"},
    extras=nulls,
    figure=draw_table,
    check=check_fid,
    null=gaussian_fit,
    devices=("cpu", "cuda"),
    parallel=False,  # seconds of the CPU are compared
)
