"""Rows ed/epsilon, ed/window and ed/w-and-m (Figures 5 to 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ebmtut.checks import check_choice
from ebmtut.data import DENSITIES
from ebmtut.experiments.ed.ablation_reports import (
    check_epsilon,
    check_w_and_m,
    check_window,
    draw_epsilon,
    draw_w_and_m,
    draw_window,
    variant_name,
)
from ebmtut.experiments.ed.densities import density_job
from ebmtut.experiments.ed.judging import Evaluation, landscape
from ebmtut.experiments.ed.recipes import Recipe
from ebmtut.experiments.jobs import commits_of, run_jobs
from ebmtut.experiments.registry import Experiment
from ebmtut.results import Result

__all__ = [
    "EPSILON",
    "WINDOW",
    "W_AND_M",
    "AblationConfig",
    "learner",
    "run_variants",
]

METHODS = ("ED-Bern", "ED-Grid", "ED-Pool")

# By the gap alone.
_JUDGED = Evaluation(n_uniform=0, n_proposal=50_000, n_repeats=0)


@dataclass(frozen=True)
class AblationConfig:
    """One density, learned in many ways.

    Parameters
    ----------
    variants
        The recipes; each must differ from the others in `variant_name`.
    density
        One of `ebmtut.data.DENSITIES`.
    n_pixels
        Pixels a side of the landscapes.
    """

    variants: tuple[Recipe, ...]
    density: str = "2spirals"
    n_pixels: int = 96

    def __post_init__(self) -> None:
        check_choice("density", self.density, DENSITIES)


def run_variants(
    config: AblationConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
    checkpoints: Path | None = None,
    id: str,
) -> Result:
    """Learn the density by every variant, all from one seed.

    Returns
    -------
    Result
        ``scalars["variants"][name]`` holds each variant's numbers and its
        recipe; array ``name`` its landscape, ``truth`` the true one.
        ``scalars["untrained"]`` is the gap after a single, tiny step.
    """
    start = replace(config.variants[0], method="ED-Bern", eps=0, n_steps=1)
    recipes = {variant_name(recipe): recipe for recipe in config.variants}
    jobs = {
        name: {
            "density": config.density,
            "recipe": recipe,
            "evaluation": _JUDGED,
            "seed": seed,
            "n_pixels": config.n_pixels,
            "device": device,
        }
        for name, recipe in (recipes | {"untrained": start}).items()
    }
    outcomes = run_jobs(
        density_job,
        jobs,
        folder=checkpoints,
        n_workers=1 if device == "cuda" else None,
        progress=progress,
        label=id,
    )
    truth = landscape(None, config.density, n_pixels=config.n_pixels)
    arrays = {"truth": truth.clip(-6e4).astype(np.float16)}
    variants: dict[str, Any] = {}
    for name, recipe in recipes.items():
        outcome = outcomes[name]
        variants[name] = outcome.scalars | {"recipe": asdict(recipe)}
        if "landscape" in outcome.arrays:
            arrays[name] = outcome.arrays["landscape"]
    scalars = {
        "variants": variants,
        "density": config.density,
        "untrained": outcomes["untrained"].scalars["gap"],
        "commits": commits_of(outcomes),
    }
    return Result(id, "quick", asdict(config), scalars, arrays)


def learner(
    recipe: Recipe,
    density: str = "2spirals",
    *,
    seed: int = 0,
    device: str = "cpu",
    n_pixels: int = 96,
) -> Callable[
    [Mapping[str, float], Callable[[float], None]], tuple[np.ndarray | None, float]
]:
    """Return what `ebmtut.widgets.landscape_explorer` calls in a live kernel.

    Parameters
    ----------
    recipe
        All that the sliders do not choose.
    density, seed, device, n_pixels
        As for `AblationConfig` and `run_variants`.

    Returns
    -------
    callable
        ``learn(setting, report)``: ``setting`` replaces fields of the recipe,
        ``report`` hears which part of the steps is done, between 0 and 1.
        It returns the log density, shape (n_pixels, n_pixels), None if the
        run diverged, and the gap in nats.
    """
    check_choice("density", density, DENSITIES)

    def learn(
        setting: Mapping[str, float], report: Callable[[float], None]
    ) -> tuple[np.ndarray | None, float]:
        chosen = replace(recipe, **setting)  # type: ignore[arg-type]
        outcome = density_job(
            density,
            chosen,
            _JUDGED,
            seed,
            n_pixels,
            device,
            on_step=lambda step, _: report((step + 1) / chosen.n_steps),
        )
        gap = outcome.scalars.get("gap", float("inf"))
        return outcome.arrays.get("landscape"), gap

    return learn


# Short runs: a short memory of the averaged weights.
_QUICK = Recipe(n_steps=1200, batch_size=64, ema_decay=0.99)
_BASE = replace(_QUICK, n_steps=3000)
_MANY = replace(_QUICK, n_steps=2000)
# Rare flips are rare contrasts: large batches, whose unmoved negatives are free,
# and at the extremes more negatives and more steps.
_FLIPS = replace(_QUICK, n_steps=5000, batch_size=512)


def _epsilon(base: Recipe, usual: Iterable[float], extreme: Iterable[float]) -> tuple:
    longer = replace(base, n_negatives=8 * base.n_negatives, n_steps=4 * base.n_steps)
    return tuple(replace(base, eps=eps) for eps in usual) + tuple(
        replace(longer, eps=eps) for eps in extreme
    )


def _windows(base: Recipe, windows: Iterable[int], ms: Iterable[int]) -> tuple:
    return tuple(
        replace(base, method="ED-Pool", window=window, n_negatives=m)
        for m, window in product(ms, windows)
    )


def _w_and_m(
    base: Recipe, methods: Iterable[str], ws: Iterable[float], ms: Iterable[int]
) -> tuple:
    return tuple(
        replace(base, method=method, stabilizer=w, n_negatives=m)
        for method, w, m in product(methods, ws, ms)
    )


def _knobs(base: Recipe) -> tuple:
    """Variants of the chapter's widget that w-and-m does not hold."""
    return tuple(
        replace(base, eps=eps, stabilizer=w, n_negatives=int(m))
        for eps, w, m in product(KNOBS["eps"], KNOBS["w"], KNOBS["M"])
        if eps != base.eps
    )


# What the reader of the widget can choose.
KNOBS: dict[str, tuple[float, ...]] = {
    "eps": (0.001, 0.01, 0.1, 0.5, 0.9),
    "w": (0, 0.1, 1, 10),
    "M": (1, 4, 16, 64),
}
_USUAL = (0.999, 0.9, 0.5, 0.1, 0.01, 0.001)
_EXTREME = (1, 0.9999, 0.0001, 0)
_ALL_W, _ALL_M = (0, 0.1, 1, 10), (1, 4, 16, 32, 64, 128)

EPSILON = Experiment(
    id="ed/epsilon",
    title="ED-Bern over the noise level eps",
    presets={
        "quick": AblationConfig(_epsilon(_QUICK, (0.9, 0.1, 0), ())),
        "full": AblationConfig(_epsilon(_FLIPS, _USUAL, _EXTREME)),
    },
    run=partial(run_variants, id="ed/epsilon"),
    figure=draw_epsilon,
    check=check_epsilon,
    resumes=True,
)
WINDOW = Experiment(
    id="ed/window",
    title="ED-Pool over the window size",
    presets={
        "quick": AblationConfig(_windows(_QUICK, (2, 32), (32,))),
        "full": AblationConfig(_windows(_BASE, (2, 4, 8, 16, 32), (32, 128))),
    },
    run=partial(run_variants, id="ed/window"),
    figure=draw_window,
    check=check_window,
    resumes=True,
)
W_AND_M = Experiment(
    id="ed/w-and-m",
    title="Stabiliser w against negatives M",
    presets={
        "quick": AblationConfig(_w_and_m(_QUICK, ("ED-Bern",), (0, 1), (1, 32))),
        "full": AblationConfig(
            _w_and_m(_MANY, METHODS, _ALL_W, _ALL_M) + _knobs(_MANY)
        ),
    },
    run=partial(run_variants, id="ed/w-and-m"),
    figure=draw_w_and_m,
    check=check_w_and_m,
    resumes=True,
)
