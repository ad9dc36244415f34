"""Rows ed/epsilon, ed/window and ed/w-and-m (Figures 5 to 10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebmtut.checks import check_choice
from ebmtut.data import DENSITIES, density_extent
from ebmtut.experiments.energy_discrepancy.densities import density_job
from ebmtut.experiments.energy_discrepancy.judging import Evaluation, landscape
from ebmtut.experiments.energy_discrepancy.recipes import Recipe
from ebmtut.experiments.jobs import commits_of, run_jobs
from ebmtut.experiments.registry import Experiment
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import landscape as draw_landscape
from ebmtut.plotting import panel_size
from ebmtut.results import Result

__all__ = [
    "EPSILON",
    "WINDOW",
    "W_AND_M",
    "AblationConfig",
    "draw_variants",
    "gap_of",
    "run_variants",
    "untrained_gap",
    "variant_name",
]

METHODS = ("ED-Bern", "ED-Grid", "ED-Pool")


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


def variant_name(recipe: Recipe) -> str:
    """Name a recipe by what the ablations vary."""
    knob = {
        "ED-Bern": f"eps{recipe.eps:g}",
        "ED-Pool": f"window{recipe.window}",
    }.get(recipe.method, "")
    return f"{recipe.method}-{knob}-M{recipe.n_negatives}-w{recipe.stabilizer:g}"


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
            "evaluation": Evaluation(n_uniform=0, n_proposal=50_000, n_repeats=0),
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


# A gap beyond this many nats is no model: the uniform law is about 2 away.
DIVERGED = 100.0


def gap_of(result: Result, recipe: Recipe) -> float:
    """NLL minus entropy of a variant; infinite if it diverged."""
    gap = result.scalars["variants"][variant_name(recipe)].get("gap")
    return float("inf") if gap is None or not abs(gap) < DIVERGED else float(gap)


def recipes_of(result: Result) -> list[Recipe]:
    """Return the recipes that a result holds."""
    return [Recipe(**v["recipe"]) for v in result.scalars["variants"].values()]


def _panel(ax: Axes, result: Result, recipe: Recipe) -> None:
    """Draw one landscape with its gap, or say that it diverged."""
    name = variant_name(recipe)
    gap = gap_of(result, recipe)
    ax.set(xticks=[], yticks=[])
    ax.set_box_aspect(1)
    if name in result.arrays and np.isfinite(gap):
        extent = density_extent(result.scalars["density"])
        draw_landscape(ax, result.arrays[name], extent, ticks=False)
        ax.set_xlabel(f"{gap:.2f}", fontsize=8)
    else:
        ax.text(0.5, 0.5, "diverged", ha="center", va="center", fontsize=8)


def draw_variants(
    result: Result,
    rows: Iterable[tuple[str, list[tuple[str, Recipe]]]],
) -> Figure:
    """Draw landscapes in rows, each under its title and over its gap.

    Parameters
    ----------
    result
        Of `run_variants`.
    rows
        Pairs of a row's label and its (title, recipe) entries.
    """
    rows = list(rows)
    n_columns = max(len(entries) for _, entries in rows)
    figure, axes = plt.subplots(
        len(rows),
        n_columns,
        figsize=panel_size(len(rows), n_columns, title=0.42),
        squeeze=False,
    )
    for line, (label, entries) in zip(axes, rows, strict=True):
        for ax in line[len(entries) :]:
            ax.set_visible(False)
        for ax, (title, recipe) in zip(line, entries, strict=False):
            _panel(ax, result, recipe)
            ax.set_title(title, fontsize=8)
        line[0].set_ylabel(label, fontsize=8)
    return figure


def draw_epsilon(result: Result) -> Figure:
    """Draw the landscapes over eps, a row for each number of negatives."""
    recipes = recipes_of(result)
    rows = []
    for m in sorted({r.n_negatives for r in recipes}):
        row = sorted((r for r in recipes if r.n_negatives == m), key=lambda r: -r.eps)
        rows.append((f"M = {m}", [(f"eps = {r.eps:g}", r) for r in row]))
    return draw_variants(result, rows)


def draw_window(result: Result) -> Figure:
    """Draw the landscapes over the window, a row for each M."""
    recipes = recipes_of(result)
    rows = []
    for m in sorted({r.n_negatives for r in recipes}):
        row = [r for r in recipes if r.n_negatives == m]
        rows.append((f"M = {m}", [(f"{r.window}x1", r) for r in row]))
    return draw_variants(result, rows)


def draw_w_and_m(result: Result, method: str = "ED-Bern", eps: float = 0.1) -> Figure:
    """Draw one method's landscapes: w down, M across."""
    recipes = [
        r
        for r in recipes_of(result)
        if r.method == method and (method != "ED-Bern" or r.eps == eps)
    ]
    rows = []
    for w in sorted({r.stabilizer for r in recipes}):
        row = sorted(
            (r for r in recipes if r.stabilizer == w), key=lambda r: r.n_negatives
        )
        rows.append((f"w = {w:g}", [(f"M = {r.n_negatives}", r) for r in row]))
    return draw_variants(result, rows)


# Part of the untrained network's gap that a landscape must have lost to count
# as learned.
LEARNED = 0.25


def untrained_gap(result: Result) -> float:
    """Gap of the network that has learned nothing: that of its base, mostly."""
    return float(result.scalars.get("untrained", 1.19))  # of the two spirals


def check_epsilon(result: Result) -> list[Verdict]:
    """All but eps in {0, 1} learn; those two do not."""
    verdicts = []
    bound = (1 - LEARNED) * untrained_gap(result)
    for recipe in recipes_of(result):
        rule: Literal["at least", "at most"]
        rule = "at least" if recipe.eps in (0, 1) else "at most"
        name = f"eps = {recipe.eps:g}, M = {recipe.n_negatives}: gap"
        verdicts.append(claim(name, gap_of(result, recipe), rule, bound))
    return verdicts


def check_window(result: Result) -> list[Verdict]:
    """The smallest window stays behind the largest, whatever M is."""
    recipes = recipes_of(result)
    verdicts = []
    for m in sorted({r.n_negatives for r in recipes}):
        row = sorted((r for r in recipes if r.n_negatives == m), key=lambda r: r.window)
        behind = gap_of(result, row[0]) - gap_of(result, row[-1])
        name = f"M = {m}: gap of {row[0].window}x1 minus that of {row[-1].window}x1"
        verdicts.append(claim(name, behind, "at least", 0.1))
    return verdicts


def check_w_and_m(result: Result) -> list[Verdict]:
    """w = 0 with few negatives fails; w = 1 learns even with one."""
    verdicts = []
    bound = untrained_gap(result)
    for recipe in recipes_of(result):
        if recipe.n_negatives != 1 or recipe.eps != 0.1:
            continue
        gap = gap_of(result, recipe)
        # Divergence is a gap without bound; a program needs a number.
        gap = min(gap, DIVERGED)
        name = f"{recipe.method}, w = {recipe.stabilizer:g}, M = 1: gap"
        if recipe.stabilizer == 0:
            verdicts.append(claim(name, gap, "at least", bound))
        elif recipe.stabilizer == 1:
            verdicts.append(claim(name, gap, "at most", bound))
    return verdicts


_BASE = Recipe(n_steps=1000, batch_size=64)
_MANY = replace(_BASE, n_steps=700)
_QUICK = replace(_BASE, n_steps=500)


def _epsilon(base: Recipe, usual: Iterable[float], extreme: Iterable[float]) -> tuple:
    return tuple(replace(base, eps=eps) for eps in usual) + tuple(
        replace(base, eps=eps, n_negatives=8 * base.n_negatives) for eps in extreme
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
        "full": AblationConfig(_epsilon(_BASE, _USUAL, _EXTREME)),
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
