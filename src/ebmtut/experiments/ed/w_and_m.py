"""Row ed/w-and-m (Figures 8 to 10): the stabiliser against the negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Annotated

import numpy as np
import torch
from matplotlib.figure import Figure

from ebmtut.checks import OneOf, checked
from ebmtut.data import DENSITIES
from ebmtut.experiments.ed.densities import ED_METHODS, PAPER
from ebmtut.experiments.ed.density_jobs import density_job
from ebmtut.experiments.ed.recipes import Recipe
from ebmtut.experiments.ed.variants import (
    BY_THE_GAP,
    LIVE,
    SHORT,
    AblationConfig,
    ablation,
    draw_variants,
    gap_of,
    live_config,
    recipes_of,
    untrained_gap,
    variant_name,
)
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import DIVERGED_GAP
from ebmtut.results import Result

__all__ = ["EXPERIMENT", "KNOBS", "landscape_entropy", "learner"]

# What the reader of the chapter's widget can choose.
KNOBS: dict[str, tuple[float, ...]] = {
    "eps": (0.001, 0.01, 0.1, 0.5, 0.9),
    "w": (0, 0.1, 1, 10),
    "M": (1, 4, 16, 64),
}


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


def check_w_and_m(result: Result) -> list[Verdict]:
    """w = 0 with few negatives fails, w = 1 does not, w = 10 flattens.

    Few are M = 1 for all methods, and 32, the paper's own limit, for ED-Bern.
    """
    verdicts = []
    bound = untrained_gap(result)
    flat = {
        recipe.method: landscape_entropy(result, recipe)
        for recipe in recipes_of(result)
        if recipe.n_negatives == 1 and recipe.eps == 0.1 and recipe.stabilizer == 10
    }
    for recipe in recipes_of(result):
        m, w = recipe.n_negatives, recipe.stabilizer
        limit = (recipe.method, m, w) == ("ED-Bern", 32, 0)
        if recipe.eps != 0.1 or not (m == 1 or limit):
            continue
        gap = gap_of(result, recipe)
        # Divergence is a gap without bound; a program needs a number.
        gap = min(gap, DIVERGED_GAP)
        name = f"{recipe.method}, w = {w:g}, M = {m}: gap"
        if w == 0:
            verdicts.append(claim(name, gap, "at least", bound))
        elif w == 1:
            verdicts.append(claim(name, gap, "at most", bound))
            if recipe.method in flat:
                flatter = flat[recipe.method] - landscape_entropy(result, recipe)
                name = f"{recipe.method}, M = 1: entropy at w = 10 minus at w = 1"
                verdicts.append(claim(name, flatter, "at least", 0.0))
    return verdicts


def landscape_entropy(result: Result, recipe: Recipe) -> float:
    """Entropy of a learned landscape over its pixels, in nats."""
    log_p = torch.from_numpy(result.arrays[variant_name(recipe)]).double().flatten()
    return float(torch.distributions.Categorical(logits=log_p).entropy())


@checked
def learner(
    recipe: Recipe,
    density: Annotated[str, OneOf(DENSITIES)] = "2spirals",
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
        As for `AblationConfig` and `Experiment.run`.

    Returns
    -------
    function
        ``learn(setting, report)``: ``setting`` replaces fields of the recipe,
        ``report`` hears which part of the steps is done, between 0 and 1.
        It returns the log density, shape (n_pixels, n_pixels), None if the
        run diverged, and the gap in nats.
    """

    def learn(
        setting: Mapping[str, float], report: Callable[[float], None]
    ) -> tuple[np.ndarray | None, float]:
        chosen = replace(recipe, **setting)  # type: ignore[arg-type]
        outcome = density_job(
            density,
            chosen,
            BY_THE_GAP,
            seed,
            n_pixels,
            device,
            on_step=lambda step, _: report((step + 1) / chosen.n_steps),
        )
        gap = outcome.scalars.get("gap", float("inf"))
        return outcome.arrays.get("landscape"), gap

    return learn


def _w_and_m(
    base: Recipe, methods: Iterable[str], ws: Iterable[float], ms: Iterable[int]
) -> tuple:
    return tuple(
        replace(base, method=method, stabilizer=w, n_negatives=m)
        for method, w, m in product(methods, ws, ms)
    )


def _knobs(base: Recipe) -> tuple:
    """Variants of the chapter's widget that the figures do not hold."""
    return tuple(
        replace(base, eps=eps, stabilizer=w, n_negatives=int(m))
        for eps, w, m in product(KNOBS["eps"], KNOBS["w"], KNOBS["M"])
        if eps != base.eps
    )


_MANY = replace(SHORT, n_steps=2000)
_ALL_W, _ALL_M = (0, 0.1, 1, 10), (1, 4, 16, 32, 64, 128)

EXPERIMENT = ablation(
    id="ed/w-and-m",
    title="Stabiliser w against negatives M",
    presets={
        "quick": live_config(_w_and_m(LIVE, ("ED-Bern",), (0, 1), (1, 8))),
        "full": AblationConfig(
            _w_and_m(_MANY, ED_METHODS, _ALL_W, _ALL_M) + _knobs(_MANY)
        ),
        "paper": AblationConfig(_w_and_m(PAPER.recipe, ED_METHODS, _ALL_W, _ALL_M)),
    },
    figure=draw_w_and_m,
    check=check_w_and_m,
)
