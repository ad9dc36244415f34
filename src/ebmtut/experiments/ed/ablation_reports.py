"""Figures and verdicts of the ablations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ebmtut.data import density_extent
from ebmtut.experiments.ed.recipes import Recipe
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import DIVERGED_GAP, panel_size
from ebmtut.plotting import landscape as draw_landscape
from ebmtut.results import Result

__all__ = [
    "check_epsilon",
    "check_w_and_m",
    "check_window",
    "draw_epsilon",
    "draw_variants",
    "draw_w_and_m",
    "draw_window",
    "gap_of",
    "recipes_of",
    "untrained_gap",
    "variant_name",
]


def variant_name(recipe: Recipe) -> str:
    """Name a recipe by what the ablations vary."""
    knob = {
        "ED-Bern": f"eps{recipe.eps:g}",
        "ED-Pool": f"window{recipe.window}",
    }.get(recipe.method, "")
    return f"{recipe.method}-{knob}-M{recipe.n_negatives}-w{recipe.stabilizer:g}"


def gap_of(result: Result, recipe: Recipe) -> float:
    """NLL minus entropy of a variant; infinite if it diverged."""
    gap = result.scalars["variants"][variant_name(recipe)].get("gap")
    return float("inf") if gap is None or not abs(gap) < DIVERGED_GAP else float(gap)


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
        ax.spines[:].set_visible(False)
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


# Nats by which a landscape that counts as learned may miss the entropy: half
# of what the untrained network misses on the two spirals.
LEARNED = 0.6


def untrained_gap(result: Result) -> float:
    """Gap of the network that has learned nothing: that of its base, mostly."""
    return float(result.scalars["untrained"])


def check_epsilon(result: Result) -> list[Verdict]:
    """All but eps in {0, 1} learn; those two do not."""
    verdicts = []
    for recipe in recipes_of(result):
        rule: Literal["at least", "at most"]
        rule = "at least" if recipe.eps in (0, 1) else "at most"
        name = f"eps = {recipe.eps:g}, M = {recipe.n_negatives}: gap"
        verdicts.append(claim(name, gap_of(result, recipe), rule, LEARNED))
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
