"""drl/ablation (Table 2): levels, steps and objective; and what collapses."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Annotated, Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.checks import Count, OneOf, Range, checked
from ebmtut.energies.images import HEADS
from ebmtut.experiments.drl import images as shared
from ebmtut.experiments.experiment import Cells, Outcome
from ebmtut.experiments.pivot import Pivot
from ebmtut.experiments.verdicts import Verdicts, claim, compare, mean_and_stderr
from ebmtut.plotting import OKABE_ITO, TEXT_WIDTH, plain_log
from ebmtut.results import Cell, Result, Table

_LONGER = replace(shared.QUICK, n_steps=shared.FULL.n_steps)
#: The recipes of the pages; and trainings of ten times the steps at the usual rate.
RECIPES: Mapping[str, shared.ImageRecipe] = {
    "1500 steps at 0.004": shared.QUICK,
    "6000 steps at 0.003, averaged noise": shared.LIVE,
    "15,000 steps at 0.004": _LONGER,
    "15,000 steps at 0.004, every chain trusted": replace(_LONGER, trust=0.0),
}
#: What a page trains live.
LIVE = "6000 steps at 0.003, averaged noise"


def _ended(row: Mapping[str, Any]) -> tuple[list[float], Cell, Cell]:
    """Distances of the runs that finished, how many these are, and their mean."""
    kept = [found for found in shared.distances_of(row) if np.isfinite(found)]
    n = len(row["steps"])
    finished = f"{len(kept)} of {n}" if n else None
    return kept, finished, mean_and_stderr(kept) if kept else None


def recipes_table(result: Result) -> Table:
    """How the recipes' trainings ended, and how far their digits are from the data."""
    heads = ("training", "finished", "distance", "range", "CPU s")
    rows: list[tuple[Cell, ...]] = []
    for name, row in result.scalars["table"]["recipes"].items():
        kept, finished, mean = _ended(row)
        ends = f"{min(kept):.1f} to {max(kept):.1f}" if kept else None
        rows.append((name, finished, mean, ends, round(fmean(row["seconds"]))))
    known = result.scalars["known"].items()
    rows += [(name, None, distance, None, None) for name, distance in known]
    return Table(
        {head: [row[k] for row in rows] for k, head in enumerate(heads)},
        kinds=[""] * (len(rows) - 2) + ["exact", "null"],
        caption="Distance from the data, of each training the mean of {n_draws} sets "
        "of {n_samples} images.".format_map(result.config),
    )


class Setting(NamedTuple):
    """Levels, Langevin steps and objective, and the column of Table 2 it stands for."""

    n_levels: int
    n_chain_steps: int
    column: str | None = None
    objective: str = "recovery"

    def of(self, recipe: shared.ImageRecipe) -> shared.ImageRecipe:
        """Change a recipe."""
        n, k, _, objective = self
        return replace(recipe, n_levels=n, n_chain_steps=k, objective=objective)


#: With a sixth of the levels and steps of a column of Table 2 or so.
SMALL = {
    "T1 K36": Setting(1, 36, "T1 K180"),
    "T100 K0": Setting(100, 0),
    "T100 K0 DSM": Setting(100, 0, None, "score"),
    "T6 K2": Setting(6, 2, "T6 K10"),
    "T6 K6": Setting(6, 6, "T6 K30"),
    "T6 K12": Setting(6, 12, "T6 K50"),
}
#: The paper's own columns, for its recipe. Without a chain they cost the book no more.
PRINTED_SETTINGS = {
    "T1 K180": Setting(1, 180, "T1 K180"),
    "T1000 K0": Setting(1000, 0, "T1000 K0"),
    "T1000 K0 DSM": Setting(1000, 0, "T1000 K0 DSM", "score"),
    "T6 K10": Setting(6, 10, "T6 K10"),
    "T6 K30": Setting(6, 30, "T6 K30"),
    "T6 K50": Setting(6, 50, "T6 K50"),
}
SETTINGS: Mapping[str, Setting] = SMALL | PRINTED_SETTINGS


#: One change at a time, at four times the rate and without clipping.
REMEDIES: Mapping[str, dict[str, Any]] = {
    "no remedy": {},
    "acceptance test": {"adjusted": True},
    "clipped gradient": {"clip_norm": 1.0},
    "regulariser 0.001": {"regulariser": 1e-3},
    "half the step size": {"step_size": 0.35},
    "twice the steps": {"n_chain_steps": 12},
    "spectral norm": {"spectral_norm": True},
    "a quarter of the scale": {"energy_scale": 0.25},
    "four times the scale": {"energy_scale": 4.0},
    "saturated gap": {"trust": 10.0},
    "the usual rate": {"learning_rate": 4e-3},
}
#: The question is which runs reach the end: no check on a loss that stays clipped.
_HOTTER = {"trust": 0.0, "learning_rate": 16e-3, "patient": True}
VARIANTS: Mapping[str, dict[str, Any]] = {
    f"{head}, {name}": _HOTTER | {"head": head} | changes
    for head in HEADS
    for name, changes in REMEDIES.items()
}
#: What collapses, and what prevents it.
HOT, COOLED = "denoiser, no remedy", "denoiser, saturated gap"
#: What the full run leaves out: samples of the first are not finite; the others would
#: change chain or optimiser of a parameterisation that needs no change.
LEFT_OUT = (
    *("signed, spectral norm", "linear, acceptance test", "linear, clipped gradient"),
    *("linear, half the step size", "linear, twice the steps"),
)

_EXCUSE = "digits of 8 x 8 pixels, another network and other features than CIFAR-10's"


@checked
@dataclass(frozen=True)
class AblationConfig:
    """Which settings and variants are learned, all from one recipe."""

    recipe: shared.ImageRecipe = field(default_factory=shared.ImageRecipe)
    settings: tuple[Annotated[str, OneOf(SETTINGS)], ...] = tuple(SMALL)
    variants: tuple[Annotated[str, OneOf(VARIANTS)], ...] = tuple(VARIANTS)
    variant_steps: Count = 1500
    n_samples: Annotated[int, Range(low=4)] = 500
    n_seeds: Count = 1
    recipes: tuple[Annotated[str, OneOf(RECIPES)], ...] = ()
    n_draws: Count = 8
    n_recipe_seeds: Count = 1


def cells(config: AblationConfig) -> Cells:
    """Name a cell for every setting, variant and recipe."""
    n, draws = {"n_samples": config.n_samples}, {"n_draws": config.n_draws}
    settings = {k: SETTINGS[k].of(config.recipe) for k in config.settings}
    short = replace(config.recipe, n_steps=config.variant_steps)
    variants = {k: replace(short, **VARIANTS[k]) for k in config.variants}
    return (
        {("settings", k): n | {"recipe": recipe} for k, recipe in settings.items()}
        | {("variants", k): n | {"recipe": recipe} for k, recipe in variants.items()}
        | {("recipes", k): n | draws | {"recipe": RECIPES[k]} for k in config.recipes}
    )


def extras(config: AblationConfig, seed: int) -> Outcome:
    """Evaluate what no model has learned, where recipes stand beside it."""
    if not config.recipes:
        return Outcome()
    known = shared.evaluated_baselines(shared.QUICK.data, config.n_samples, seed)
    return Outcome({"known": known.distances()})


def draw_ablation(result: Result) -> Figure:
    """Draw the distance of every run; what diverged has none."""
    table = result.scalars["table"]
    rows = {name: row for part in table.values() for name, row in part.items()}
    figure, ax = plt.subplots(figsize=(TEXT_WIDTH, 0.8 + 0.25 * len(rows)))
    for name, row in rows.items():
        found = shared.distances_of(row)
        ax.plot(found, [name] * len(found), "o", color=OKABE_ITO["blue"])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel("distance of the samples from the data")
    plain_log(ax.xaxis)
    return figure


settings_table = Pivot(
    head="setting",
    rows={"{setting}": "table/settings/{setting}"},
    columns={"distance": "distance", "CPU s": "seconds"},
    caption="Distance from the data; CPU seconds of a training. Seeds: {n_seeds}.",
)


#: How the pages call some of the remedies.
PRINTED = {
    "acceptance test": "Metropolis test",
    "saturated gap": "clipped loss term",
    "the usual rate": "the usual rate, 0.004",
}


def remedies_table(
    result: Result,
    heads: tuple[str, ...] = HEADS,
    changes: tuple[str, ...] = tuple(REMEDIES),
) -> Table:
    """Tabulate how many runs finished at four times the rate, and how far they got."""
    variants = result.scalars["table"]["variants"]
    columns: dict[str, list[Cell]] = {
        "one change": [PRINTED.get(change, change) for change in changes]
    }
    for head in heads:
        before = f"{head}: " if len(heads) > 1 else ""
        rows = [variants.get(f"{head}, {name}", {"steps": []}) for name in changes]
        ended = [_ended(row) for row in rows]
        columns[f"{before}finished"] = [finished for _, finished, _ in ended]
        columns[f"{before}distance"] = [distance for *_, distance in ended]
    return Table(
        columns,
        caption="1,500 updates at four times the usual rate: runs that reached the end "
        "without divergence, and their distance from the data (mean ± standard error).",
    )


def check_ablation(result: Result) -> Verdicts:
    """Hold the order to the paper's, and the clipped loss term to what it is for."""
    table = result.scalars["table"]
    rows = table.get("settings", {})
    settings = {name: shared.distances_of(row) for name, row in rows.items()}
    for name, distances in settings.items():
        if column := SETTINGS[name].column:
            cell = ("drl/ablation", "FID", "DRL", column)
            yield compare(*cell, distances, excuse=_EXCUSE)
    for name in ("T1 K36", "T6 K2"):
        if {name, "T6 K6"} <= set(settings):
            label = f"{name} distance from the data relative to T6 K6"
            ratio = float(np.mean(settings[name]) / np.mean(settings["T6 K6"]))
            yield claim(label, ratio, "at least", 1.25)
    variants = table.get("variants", {})
    if COOLED in variants:
        finished = np.isfinite(shared.distances_of(variants[COOLED]))
        label = f"{COOLED}, at four times the rate: fraction of runs that reach the end"
        n = len(finished)
        yield claim(label, float(finished.mean()), "at least", 1.0, n_seeds=n)
    recipes = table.get("recipes", {})
    if LIVE in recipes:  # what a page trains live
        found, known = shared.distances_of(recipes[LIVE]), result.scalars["known"]
        held_out = known["held-out data"]
        left = float(np.max(found) - held_out) / (known["Gaussian fit"] - held_out)
        label = f"{LIVE}: fraction left of the difference from a Gaussian fit, "
        label += "in the worst seed"
        yield claim(label, left, "at most", 0.05, n_seeds=len(found))


def nothing_helps(result: Result) -> Result:
    """Return the result had no setting and no remedy made a difference."""
    table = dict(result.scalars["table"])
    settings = table.get("settings", {})
    table["settings"] = {k: settings.get("T6 K6", row) for k, row in settings.items()}
    variants = table.get("variants", {})
    if {HOT, COOLED} <= set(variants):
        table["variants"] = variants | {COOLED: variants[HOT]}
    recipes = table.get("recipes", {})
    if LIVE in recipes:  # samples of a Gaussian fit
        fit = result.scalars["known"]["Gaussian fit"]
        row = recipes[LIVE] | {"distance": [fit] * len(recipes[LIVE]["steps"])}
        table["recipes"] = recipes | {LIVE: row}
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = shared.image_row(
    id="drl/ablation",
    title="Levels, steps, objective, and the collapse",
    presets={
        "quick": AblationConfig(shared.QUICK, settings=(), variants=(HOT, COOLED)),
        "full": AblationConfig(
            shared.QUICK,
            settings=(*SMALL, "T1000 K0", "T1000 K0 DSM"),
            variants=tuple(name for name in VARIANTS if name not in LEFT_OUT),
            n_seeds=3,
            recipes=tuple(RECIPES),
            n_recipe_seeds=5,
        ),
        # Table 2, by 50,000 samples; the variants are of our recipe's collapse.
        "paper": AblationConfig(
            shared.CIFAR10, tuple(PRINTED_SETTINGS), variants=(), n_samples=50_000
        ),
    },
    cells=cells,
    job=shared.image_job,
    n_seeds=lambda config, names: (
        config.n_recipe_seeds if names[0] == "recipes" else config.n_seeds
    ),
    extras=extras,
    figure=draw_ablation,
    check=check_ablation,
    baseline=nothing_helps,
)
