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
from ebmtut.experiments.drl.paper_images import CIFAR10
from ebmtut.experiments.experiment import Experiment, Names
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
_PRINTED = dict(
    zip(
        SETTINGS,
        ("T1 K180", "T1000 K0", "T1000 K0 DSM", "T6 K10", "T6 K30", "T6 K50"),
        strict=True,
    )
)

#: The paper's own columns, for its recipe.
PAPER_SETTINGS: Mapping[str, dict[str, Any]] = {
    "T1 K180": {"n_levels": 1, "n_chain_steps": 180},
    "T1000 K0": {"n_levels": 1000, "n_chain_steps": 0},
    "T1000 K0 DSM": {"n_levels": 1000, "n_chain_steps": 0, "objective": "score"},
    "T6 K10": {"n_chain_steps": 10},
    "T6 K30": {},
    "T6 K50": {"n_chain_steps": 50},
}
_PRINTED |= {name: name for name in PAPER_SETTINGS}
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
    "saturated gap": {"trust": 10.0},
    "the usual rate": {"learning_rate": 4e-3},
}
#: Asked is who lives, however badly: a gap that stays saturated is no alarm here.
_HOTTER = {"trust": 0.0, "learning_rate": 16e-3, "patient": True}
VARIANTS: Mapping[str, dict[str, Any]] = {
    f"{head}, {name}": _HOTTER | {"head": head} | changes
    for head in ("denoiser", "signed")
    for name, changes in REMEDIES.items()
}
#: What collapses, and what keeps it alive.
HOT, COOLED = "denoiser, no remedy", "denoiser, saturated gap"

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
    """

    recipe: ImageRecipe = field(default_factory=ImageRecipe)
    settings: tuple[Annotated[str, OneOf(_ALL)], ...] = tuple(SETTINGS)
    variants: tuple[Annotated[str, OneOf(VARIANTS)], ...] = tuple(VARIANTS)
    variant_steps: Count = 1500
    n_samples: Annotated[int, Range(low=4)] = 500
    n_seeds: Count = 1


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
            distances = _distances(row)
            values = distances if metric == "distance" else row[metric]
            for value, alive in zip(values, np.isfinite(distances), strict=True):
                color = OKABE_ITO["blue" if alive else "vermillion"]
                ax.plot(value, k, "o" if alive else "x", color=color, ms=5)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(-0.6, len(names) - 0.4)
        plain_log(ax.xaxis)
        ax.grid(axis="x")
        ax.set_xlabel(
            "distance of the samples from the data"
            if part == "settings"
            else "steps until the alarm (cross) or the end (dot)"
        )
    return figure


def _distances(row: Mapping[str, Any]) -> list[float]:
    """Return the distance of every run, NaN where the alarm stopped it."""
    found = row.get("distance", [None] * len(row["steps"]))
    return [math.nan if value is None else float(value) for value in found]


def settings_table(result: Result) -> Table:
    """Distance from the data of every setting of Table 2.

    Parameters
    ----------
    result
        Of this row.
    """
    rows = result.scalars["table"]["settings"]
    distances = [_distances(row) for row in rows.values()]
    return Table(
        {
            "setting": list(rows),
            "the paper's": [_PRINTED[name] for name in rows],
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
    names = [name.split(", ", 1) for name in variants]
    changes = list(dict.fromkeys(change for _, change in names))
    columns: dict[str, list[Cell]] = {"one change": [*changes]}
    for head in dict.fromkeys(head for head, _ in names):
        columns[f"{head} lived"], columns[f"{head} distance"] = [], []
        for change in changes:
            row = variants.get(f"{head}, {change}", {"steps": []})
            lived = [found for found in _distances(row) if np.isfinite(found)]
            columns[f"{head} lived"].append(f"{len(lived)} of {len(row['steps'])}")
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
        distance, stderr = mean_and_stderr(_distances(row))
        verdicts.append(
            compare(
                "drl/ablation", "FID", "DRL", _PRINTED[name], distance,
                stderr=stderr, n_seeds=len(row["steps"]), excuse=_EXCUSE,
            )
        )  # fmt: skip

    def mean(name: str) -> float:
        return mean_and_stderr(_distances(settings[name]))[0]

    base = mean("T6 K6") if "T6 K6" in settings else math.nan
    for name in ("T1 K36", "T6 K2"):
        if {name, "T6 K6"} <= set(settings):
            ratio = mean(name) / base
            label = f"{name} is farther from the data than T6 K6, by a factor of"
            verdicts.append(claim(label, ratio, "at least", 1.25))
    lives = table.get("variants", {})
    if COOLED in lives:
        lived = np.isfinite(_distances(lives[COOLED]))
        label = f"{COOLED}, at four times the rate: share of runs that live"
        share, n_seeds = float(np.mean(lived)), len(lived)
        verdicts.append(claim(label, share, "at least", 1.0, n_seeds=n_seeds))
    return verdicts


def nothing_helps(result: Result) -> Result:
    """Return the row had no setting and no remedy made a difference."""
    table = result.scalars["table"]
    settings = table.get("settings", {})
    settings = {name: settings.get("T6 K6", row) for name, row in settings.items()}
    lives = dict(table.get("variants", {}))
    if {HOT, COOLED} <= set(lives):
        lives[COOLED] = lives[HOT]
    table = table | {"settings": settings, "variants": lives}
    return replace(result, scalars=result.scalars | {"table": table})


EXPERIMENT = Experiment(
    id="drl/ablation",
    title="Levels, steps, objective, and the collapse",
    presets={
        "quick": AblationConfig(QUICK, settings=(), variants=(HOT,)),
        # The marginal likelihood, with six times the steps a chain, is left out.
        "full": AblationConfig(
            QUICK, settings=tuple(s for s in SETTINGS if s != "T1 K36"), n_seeds=3
        ),
        # Table 2, by 50,000 samples; the variants are of our recipe's collapse.
        "paper": AblationConfig(
            CIFAR10, settings=tuple(PAPER_SETTINGS), variants=(), n_samples=50_000
        ),
    },
    cells=cells,
    job=image_job,
    figure=draw_ablation,
    check=check_ablation,
    null=nothing_helps,
    devices=("cpu", "cuda"),
    parallel=False,
)
