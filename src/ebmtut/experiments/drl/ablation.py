"""Row drl/ablation (Table 2): levels, steps and objective; and what collapses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebmtut.checks import Count, OneOf, Range, checked
from ebmtut.experiments.drl.fid import image_job
from ebmtut.experiments.drl.images import QUICK, ImageRecipe
from ebmtut.experiments.drl.paper_images import CIFAR10
from ebmtut.experiments.drl.recipes import (
    RECIPES,
    check_recipes,
    distances_of,
    fitted,
    known_distances,
)
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.verdicts import Verdict, claim, compare, mean_and_stderr
from ebmtut.plotting import OKABE_ITO, TEXT_WIDTH, plain_log
from ebmtut.results import Result
from ebmtut.results.tables import Cell, Table

__all__ = [
    "EXPERIMENT",
    "SETTINGS",
    "VARIANTS",
    "AblationConfig",
    "lives_table",
    "settings_table",
]

#: Our setting for each column of Table 2: a sixth of its levels and steps or so.
SETTINGS: Mapping[str, dict[str, Any]] = {
    "T1 K36": {"n_levels": 1, "n_chain_steps": 36},
    "T100 K0": {"n_levels": 100, "n_chain_steps": 0},
    "T100 K0 DSM": {"n_levels": 100, "n_chain_steps": 0, "objective": "score"},
    "T6 K2": {"n_chain_steps": 2},
    "T6 K6": {},
    "T6 K12": {"n_chain_steps": 12},
}
#: The paper's own columns, for its recipe. Those without a chain cost ours as much.
PAPER_SETTINGS: Mapping[str, dict[str, Any]] = {
    "T1 K180": {"n_levels": 1, "n_chain_steps": 180},
    "T1000 K0": {"n_levels": 1000, "n_chain_steps": 0},
    "T1000 K0 DSM": {"n_levels": 1000, "n_chain_steps": 0, "objective": "score"},
    "T6 K10": {"n_chain_steps": 10},
    "T6 K30": {},
    "T6 K50": {"n_chain_steps": 50},
}
_PRINTED = {
    "T1 K36": "T1 K180",
    "T6 K2": "T6 K10",
    "T6 K6": "T6 K30",
    "T6 K12": "T6 K50",
} | {name: name for name in PAPER_SETTINGS}
_ALL = {**SETTINGS, **PAPER_SETTINGS}

#: What each head of the energy learns with at four times the rate, every chain
#: trusted: one change at a time.
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
HEADS = ("denoiser", "signed", "linear")
#: Asked is who lives, however badly: a gap that stays saturated is no alarm here.
_HOTTER = {"trust": 0.0, "learning_rate": 16e-3, "patient": True}
VARIANTS: Mapping[str, dict[str, Any]] = {
    f"{head}, {name}": _HOTTER | {"head": head} | changes
    for head in HEADS
    for name, changes in REMEDIES.items()
}
#: What collapses, and what keeps it alive.
HOT, COOLED = "denoiser, no remedy", "denoiser, saturated gap"
#: What the full run leaves out: the chains that draw from the first leave the finite
#: numbers; the others would change chain or optimiser of a head that lives unchanged.
LEFT_OUT = (
    "signed, spectral norm",
    "linear, acceptance test",
    "linear, clipped gradient",
    "linear, half the step size",
    "linear, twice the steps",
)

_EXCUSE = "digits of 8 x 8 pixels, another network and other features than CIFAR-10's"


@checked
@dataclass(frozen=True)
class AblationConfig:
    """Which settings and variants are learned, all from one recipe.

    Parameters
    ----------
    recipe
        What a setting or a variant changes.
    settings, variants
        Of `SETTINGS`, or `PAPER_SETTINGS`, and of `VARIANTS`.
    variant_steps
        Optimiser steps of a variant. With few, the rate decays before anything
        collapses.
    n_samples, n_seeds
        Judged; trainings.
    recipes, n_draws, n_recipe_seeds
        Of `RECIPES`, which ``recipe`` does not change; sets of samples of each, and
        trainings.
    """

    recipe: ImageRecipe = field(default_factory=ImageRecipe)
    settings: tuple[Annotated[str, OneOf(_ALL)], ...] = tuple(SETTINGS)
    variants: tuple[Annotated[str, OneOf(VARIANTS)], ...] = tuple(VARIANTS)
    variant_steps: Count = 1500
    n_samples: Annotated[int, Range(low=4)] = 500
    n_seeds: Count = 1
    recipes: tuple[Annotated[str, OneOf(RECIPES)], ...] = ()
    n_draws: Count = 8
    n_recipe_seeds: Count = 1


def cells(config: AblationConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every setting and variant."""

    def arguments(changes: Mapping[str, Any]) -> dict[str, Any]:
        recipe = replace(config.recipe, **changes)
        return {"recipe": recipe, "n_samples": config.n_samples}

    named: dict[Names, dict[str, Any]] = {}
    for name in config.settings:
        named["settings", name] = arguments(_ALL[name])
    for name in config.variants:
        of = VARIANTS[name] | {"n_steps": config.variant_steps}
        named["variants", name] = arguments(of)
    for name in config.recipes:
        alike = {"n_samples": config.n_samples, "n_draws": config.n_draws}
        named["recipes", name] = {"recipe": RECIPES[name], **alike}
    return named


def extras(config: AblationConfig, seed: int) -> Outcome:
    """Judge what no model has learned, where recipes stand beside it."""
    if not config.recipes:
        return Outcome()
    return Outcome({"known": known_distances(config.n_samples, seed)})


def seeds_of(config: AblationConfig, names: Names) -> int:
    """How often a cell is learned."""
    return config.n_recipe_seeds if names[0] == "recipes" else config.n_seeds


def draw_ablation(result: Result) -> Figure:
    """Draw the distance of each setting, and how long each variant lived."""
    table = result.scalars["table"]
    changes = _changes(table.get("variants", {}))
    heights = {"settings": len(table.get("settings", {})), "variants": len(changes)}
    parts = [part for part, height in heights.items() if height]
    figure, axes = plt.subplots(
        len(parts),
        1,
        figsize=(TEXT_WIDTH, sum(0.8 + 0.3 * heights[part] for part in parts)),
        height_ratios=[heights[part] + 2 for part in parts],
        squeeze=False,
    )
    for ax, part in zip(axes[:, 0], parts, strict=True):
        if part == "settings":
            names = list(table[part])
            for k, name in enumerate(names):
                found = distances_of(table[part][name])
                ax.plot(found, [k] * len(found), "o", color=OKABE_ITO["blue"], ms=5)
            ax.set_xlabel("distance of the samples from the data")
        else:
            names = changes
            _draw_lives(ax, table[part], changes)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.4, -0.6)
        plain_log(ax.xaxis)
        ax.grid(axis="x")
    return figure


def _draw_lives(ax: Axes, variants: Mapping[str, Any], changes: list[str]) -> None:
    """Draw the steps that every run made, a colour a head; a cross is the alarm's."""
    heads = [head for head in HEADS if any(n.startswith(head) for n in variants)]
    colors = dict(zip(HEADS, ("blue", "orange", "green"), strict=True))
    for shift, head in zip(np.linspace(-0.2, 0.2, len(heads)), heads, strict=True):
        color = OKABE_ITO[colors[head]]
        for k, change in enumerate(changes):
            row = variants.get(f"{head}, {change}", {"steps": []})
            for steps, d in zip(row["steps"], distances_of(row), strict=True):
                marker = "o" if np.isfinite(d) else "x"
                ax.plot(steps, k + shift, marker, color=color, ms=5)
        ax.plot([], [], "s", color=color, label=head)
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), title="head")
    ax.set_xlabel("steps until the alarm (cross) or the end (dot)")


def _changes(variants: Mapping[str, Any]) -> list[str]:
    """List what was changed, each once, in the order of the variants."""
    return list(dict.fromkeys(name.split(", ", 1)[1] for name in variants))


def settings_table(result: Result) -> Table:
    """Distance from the data of every setting of Table 2.

    Parameters
    ----------
    result
        Of this row.
    """
    rows = result.scalars["table"]["settings"]
    distances = [distances_of(row) for row in rows.values()]
    return Table(
        {
            "setting": list(rows),
            "the paper's": [_PRINTED.get(name) for name in rows],
            "distance": [mean_and_stderr(found) for found in distances],
            "CPU s": [
                round(mean_and_stderr(r["seconds"])[0], 1) for r in rows.values()
            ],
        },
        caption="Distance from the data; CPU seconds of a training. Seeds: "
        f"{result.config['n_seeds']}.",
    )


def lives_table(result: Result) -> Table:
    """Who lived at four times the rate, and how good what lived became.

    Parameters
    ----------
    result
        Of this row.

    Returns
    -------
    table
        A row a change; of each head how many runs lived, and their mean distance.
    """
    variants = result.scalars["table"]["variants"]
    changes = _changes(variants)
    columns: dict[str, list[Cell]] = {"one change": [*changes]}
    for head in dict.fromkeys(name.split(", ")[0] for name in variants):
        columns[f"{head} lived"], columns[f"{head} distance"] = [], []
        for change in changes:
            row = variants.get(f"{head}, {change}", {"steps": []})
            lived = [found for found in distances_of(row) if np.isfinite(found)]
            n = len(row["steps"])
            columns[f"{head} lived"].append(f"{len(lived)} of {n}" if n else None)
            columns[f"{head} distance"].append(
                mean_and_stderr(lived) if lived else None
            )
    return Table(
        columns,
        caption="At four times the rate: the runs that lived, and their distance from "
        "the data.",
    )


def check_ablation(result: Result) -> list[Verdict]:
    """Hold the order to the paper's, and the saturated gap to what it is for."""
    table = result.scalars["table"]
    verdicts = []
    settings = table.get("settings", {})
    for name, row in settings.items():
        if name not in _PRINTED:
            continue
        distance, stderr = mean_and_stderr(distances_of(row))
        verdicts.append(
            compare(
                "drl/ablation", "FID", "DRL", _PRINTED[name], distance,
                stderr=stderr, n_seeds=len(row["steps"]), excuse=_EXCUSE,
            )
        )  # fmt: skip

    def mean(name: str) -> float:
        return mean_and_stderr(distances_of(settings[name]))[0]

    base = mean("T6 K6") if "T6 K6" in settings else math.nan
    for name in ("T1 K36", "T6 K2"):
        if {name, "T6 K6"} <= set(settings):
            ratio = mean(name) / base
            label = f"{name} is farther from the data than T6 K6, by a factor of"
            verdicts.append(claim(label, ratio, "at least", 1.25))
    lives = table.get("variants", {})
    if COOLED in lives:
        lived = np.isfinite(distances_of(lives[COOLED]))
        label = f"{COOLED}, at four times the rate: share of runs that live"
        share, n_seeds = float(np.mean(lived)), len(lived)
        verdicts.append(claim(label, share, "at least", 1.0, n_seeds=n_seeds))
    return [*verdicts, *check_recipes(result)]


def nothing_helps(result: Result) -> Result:
    """Return the row had no setting and no remedy made a difference."""
    table = result.scalars["table"]
    settings = table.get("settings", {})
    settings = {name: settings.get("T6 K6", row) for name, row in settings.items()}
    lives = dict(table.get("variants", {}))
    if {HOT, COOLED} <= set(lives):
        lives[COOLED] = lives[HOT]
    table = table | {"settings": settings, "variants": lives}
    return fitted(replace(result, scalars=result.scalars | {"table": table}))


EXPERIMENT = Experiment(
    id="drl/ablation",
    title="Levels, steps, objective, and the collapse",
    presets={
        "quick": AblationConfig(QUICK, settings=(), variants=(HOT,)),
        "full": AblationConfig(
            QUICK,
            settings=(*SETTINGS, "T1000 K0", "T1000 K0 DSM"),
            variants=tuple(name for name in VARIANTS if name not in LEFT_OUT),
            n_seeds=3,
            recipes=tuple(RECIPES),
            n_recipe_seeds=5,
        ),
        # Table 2, by 50,000 samples; the variants are of our recipe's collapse.
        "paper": AblationConfig(
            CIFAR10, settings=tuple(PAPER_SETTINGS), variants=(), n_samples=50_000
        ),
    },
    cells=cells,
    job=image_job,
    n_seeds=seeds_of,
    extras=extras,
    figure=draw_ablation,
    check=check_ablation,
    null=nothing_helps,
    devices=("cpu", "cuda"),
    parallel=False,
)
