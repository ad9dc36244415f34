"""Row ed/epsilon (Figure 5): ED-Bern over the noise level."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from matplotlib.figure import Figure

from ebmtut.experiments.ed.recipes import Recipe
from ebmtut.experiments.ed.variants import (
    SHORT,
    AblationConfig,
    ablation,
    draw_variants,
    gap_of,
    recipes_of,
)
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.results import Result

__all__ = ["EXPERIMENT"]


# Nats by which a landscape that counts as learned may miss the entropy: half
# of what the untrained network misses on the two spirals.
LEARNED = 0.6


def draw_epsilon(result: Result) -> Figure:
    """Draw the landscapes over eps, a row for each number of negatives."""
    recipes = recipes_of(result)
    rows = []
    for m in sorted({r.n_negatives for r in recipes}):
        row = sorted((r for r in recipes if r.n_negatives == m), key=lambda r: -r.eps)
        rows.append((f"M = {m}", [(f"eps = {r.eps:g}", r) for r in row]))
    return draw_variants(result, rows)


def check_epsilon(result: Result) -> list[Verdict]:
    """All but eps in {0, 1} learn; those two do not."""
    verdicts = []
    for recipe in recipes_of(result):
        rule: Literal["at least", "at most"]
        rule = "at least" if recipe.eps in (0, 1) else "at most"
        name = f"eps = {recipe.eps:g}, M = {recipe.n_negatives}: gap"
        verdicts.append(claim(name, gap_of(result, recipe), rule, LEARNED))
    return verdicts


def _epsilon(base: Recipe, usual: Iterable[float], extreme: Iterable[float]) -> tuple:
    longer = replace(base, n_negatives=8 * base.n_negatives, n_steps=4 * base.n_steps)
    return tuple(replace(base, eps=eps) for eps in usual) + tuple(
        replace(longer, eps=eps) for eps in extreme
    )


# Rare flips are rare contrasts: large batches, whose unmoved negatives are free,
# and at the extremes more negatives and more steps.
_FLIPS = replace(SHORT, n_steps=5000, batch_size=512)
_USUAL = (0.999, 0.9, 0.5, 0.1, 0.01, 0.001)
_EXTREME = (1, 0.9999, 0.0001, 0)

EXPERIMENT = ablation(
    id="ed/epsilon",
    title="ED-Bern over the noise level eps",
    presets={
        "quick": AblationConfig(_epsilon(SHORT, (0.9, 0.1, 0), ())),
        "full": AblationConfig(_epsilon(_FLIPS, _USUAL, _EXTREME)),
    },
    figure=draw_epsilon,
    check=check_epsilon,
)
