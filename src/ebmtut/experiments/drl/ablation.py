"""Row drl/ablation (Table 2): levels, steps and objective; and what collapses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ebmtut.checks import Count, OneOf, Range, checked
from ebmtut.experiments.drl.fid import image_job
from ebmtut.experiments.drl.images import QUICK, ImageRecipe
from ebmtut.experiments.experiment import Experiment, Names
from ebmtut.experiments.verdicts import Verdict, claim, compare, mean_and_stderr
from ebmtut.plotting import OKABE_ITO, TEXT_WIDTH
from ebmtut.results import Result

__all__ = ["EXPERIMENT", "SETTINGS", "VARIANTS", "AblationConfig"]

#: Our setting for each column of Table 2: a sixth of its levels and steps or so.
SETTINGS: Mapping[str, dict[str, Any]] = {
    "T1 K36": {"n_levels": 1, "n_chain_steps": 36},
    "T100 K0": {"n_levels": 100, "n_chain_steps": 0},
    "T100 K0 DSM": {"n_levels": 100, "n_chain_steps": 0, "objective": "score"},
    "T6 K2": {"n_chain_steps": 2},
    "T6 K6": {},
    "T6 K12": {"n_chain_steps": 12},
}
_PRINTED = dict(
    zip(
        SETTINGS,
        ("T1 K180", "T1000 K0", "T1000 K0 DSM", "T6 K10", "T6 K30", "T6 K50"),
        strict=True,
    )
)

_SIGNED: dict[str, Any] = {"head": "signed", "trust": 0.0}
_PLAIN: dict[str, Any] = {"trust": 0.0}
#: Our default for long training.
LONG = "denoiser, ten times as long, a quarter of the rate"
#: Where the saturated gap is what keeps a run alive.
HOT = "denoiser, four times the rate, saturated"
#: One factor at a time against the collapse, from the signed head and from ours.
VARIANTS: Mapping[str, dict[str, Any]] = {
    "signed head": _SIGNED,
    "signed, MALA": _SIGNED | {"adjusted": True},
    "signed, clipped gradient": _SIGNED | {"clip_norm": 1.0},
    "signed, regulariser 1e-3": _SIGNED | {"regulariser": 1e-3},
    "signed, half the step": _SIGNED | {"step_size": 0.35},
    "signed, a quarter of the rate": _SIGNED | {"learning_rate": 1e-3},
    "signed, saturated gap": {"head": "signed"},
    "denoiser": _PLAIN,
    "denoiser, four times the rate": _PLAIN | {"learning_rate": 16e-3},
    HOT: {"learning_rate": 16e-3},
    "denoiser, saturated gap": {},
    "denoiser, saturated, ten times as long": {"n_steps": 10},
    LONG: {"n_steps": 10, "learning_rate": 1e-3},
}
TEN = ("denoiser, saturated, ten times as long", LONG)

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
        Of `SETTINGS` and `VARIANTS`.
    n_samples, n_seeds
        Judged; trainings.
    """

    recipe: ImageRecipe = field(default_factory=ImageRecipe)
    settings: tuple[Annotated[str, OneOf(*SETTINGS)], ...] = tuple(SETTINGS)
    variants: tuple[Annotated[str, OneOf(*VARIANTS)], ...] = tuple(VARIANTS)
    n_samples: Annotated[int, Range(low=4)] = 500
    n_seeds: Count = 1


def cells(config: AblationConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every setting and variant."""

    def arguments(changes: Mapping[str, Any]) -> dict[str, Any]:
        recipe = replace(config.recipe, **changes)
        if "n_steps" in changes:
            longer = changes["n_steps"] * config.recipe.n_steps
            recipe = replace(recipe, n_steps=longer)
        return {"recipe": recipe, "n_samples": config.n_samples}

    named: dict[Names, dict[str, Any]] = {}
    for name in config.settings:
        named["settings", name] = arguments(SETTINGS[name])
    for name in config.variants:
        named["variants", name] = arguments(VARIANTS[name])
    return named


def draw_ablation(result: Result) -> Figure:
    """Draw the distance of each setting, and how long each variant lived."""
    table = result.scalars["table"]
    parts = [p for p in ("settings", "variants") if table.get(p)]
    figure, axes = plt.subplots(
        len(parts),
        1,
        figsize=(TEXT_WIDTH, sum(0.7 + 0.26 * len(table[p]) for p in parts)),
        height_ratios=[len(table[p]) + 2 for p in parts],
        squeeze=False,
    )
    for ax, part in zip(axes[:, 0], parts, strict=True):
        names = list(table[part])[::-1]
        metric = "distance" if part == "settings" else "steps"
        for k, name in enumerate(names):
            row = table[part][name]
            values = row.get(metric, [math.nan])
            lived = np.isfinite(row.get("distance", [math.nan] * len(values)))
            for value, alive in zip(values, lived, strict=True):
                color = OKABE_ITO["blue" if alive else "vermillion"]
                ax.plot(value, k, "o" if alive else "x", color=color, ms=5)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(-0.6, len(names) - 0.4)
        ax.set_xscale("log")
        ax.grid(axis="x")
        ax.set_xlabel(
            "distance of the samples from the data"
            if part == "settings"
            else "steps until the alarm (cross) or the end (dot)"
        )
    return figure


def check_ablation(result: Result) -> list[Verdict]:
    """Hold the order to the paper's, and our default to its long life."""
    table = result.scalars["table"]
    verdicts = []
    settings = table.get("settings", {})
    for name, row in settings.items():
        distance, stderr = mean_and_stderr(row.get("distance", [math.nan]))
        verdicts.append(
            compare(
                "drl/ablation", "FID", "DRL", _PRINTED[name], distance,
                stderr=stderr, n_seeds=len(row["steps"]), excuse=_EXCUSE,
            )
        )  # fmt: skip

    def mean(name: str) -> float:
        return mean_and_stderr(settings[name].get("distance", [math.nan]))[0]

    if {"T1 K36", "T6 K6", "T6 K2"} <= set(settings):
        base = mean("T6 K6")
        for name in ("T1 K36", "T6 K2"):
            ratio = mean(name) / base
            label = f"{name} is farther from the data than T6 K6, by a factor of"
            verdicts.append(claim(label, ratio, "at least", 1.25))
    lives = table.get("variants", {})
    if HOT in lives:
        row = lives[HOT]
        lived = np.isfinite(row.get("distance", [math.nan] * len(row["steps"])))
        label = f"{HOT}: share of runs that live"
        share, n_seeds = float(np.mean(lived)), len(lived)
        verdicts.append(claim(label, share, "at least", 1.0, n_seeds=n_seeds))
    short = "denoiser, saturated gap"
    if {LONG, short} <= set(lives):
        ratio = (
            mean_and_stderr(lives[LONG].get("distance", [math.nan]))[0]
            / mean_and_stderr(lives[short].get("distance", [math.nan]))[0]
        )
        label = "ten times as long: distance over that of the recipe"
        verdicts.append(claim(label, ratio, "at most", 1.0))
    return verdicts


def nothing_helps(result: Result) -> Result:
    """Return the row had no setting and no remedy made a difference."""
    table = result.scalars["table"]
    settings = table.get("settings", {})
    settings = {name: settings.get("T6 K6", row) for name, row in settings.items()}
    lives = dict(table.get("variants", {}))
    for name, without in (
        (HOT, "denoiser, four times the rate"),
        (LONG, "denoiser, saturated, ten times as long"),
    ):
        if {name, without} <= set(lives):
            lives[name] = lives[without]
    table = table | {"settings": settings, "variants": lives}
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="drl/ablation",
    title="Levels, steps, objective, and the collapse",
    presets={
        "quick": AblationConfig(
            QUICK,
            settings=(),
            variants=(
                "denoiser, four times the rate",
                "denoiser, four times the rate, saturated",
            ),
        ),
        # Ten times as long is what the row drl/long-run shows, with five seeds.
        "full": AblationConfig(
            QUICK, variants=tuple(v for v in VARIANTS if v not in TEN), n_seeds=3
        ),
    },
    cells=cells,
    job=image_job,
    figure=draw_ablation,
    check=check_ablation,
    null=nothing_helps,
    parallel=False,
)
