"""Experiment ed/w-and-m (Figures 8 to 10): the stabiliser against the negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from ebmtut.checks import OneOf, checked
from ebmtut.data import DENSITIES
from ebmtut.experiments.ed.densities import ED_METHODS, PAPER, density_job
from ebmtut.experiments.ed.judging import QUICK_LOOK
from ebmtut.experiments.ed.recipes import Recipe
from ebmtut.experiments.ed.variants import (
    BY_THE_GAP,
    LIVE,
    SHORT,
    AblationConfig,
    ablation,
    gap_of,
    recipes_of,
    untrained_gap,
    variant_name,
)
from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import DIVERGED_GAP, figure_size
from ebmtut.results import Result

# What the reader of the chapter's widget can choose.
KNOBS: dict[str, tuple[float, ...]] = {
    "eps": (0.001, 0.01, 0.1, 0.5, 0.9),
    "w": (0, 0.1, 1, 10),
    "M": (1, 4, 16, 64),
}


def draw_w_and_m(result: Result, methods: Sequence[str] = ED_METHODS) -> Figure:
    """Draw the KL to the data over M and w, a map for each method."""
    at_noise = [r for r in recipes_of(result) if r.eps == 0.1 and r.method in methods]
    shown = [method for method in methods if any(r.method == method for r in at_noise)]
    width, height = figure_size("wide")
    size = (width, 0.8 * height * len(shown))
    figure, axes = plt.subplots(len(shown), 1, figsize=size, squeeze=False)
    for ax, method in zip(axes[:, 0], shown, strict=True):
        recipes = [r for r in at_noise if r.method == method]
        ws = sorted({r.stabilizer for r in recipes})
        ms = sorted({r.n_negatives for r in recipes})
        gaps = np.full((len(ws), len(ms)), np.inf)
        for r in recipes:
            place = ws.index(r.stabilizer), ms.index(r.n_negatives)
            gaps[place] = min(gap_of(result, r), DIVERGED_GAP)
        colors = np.log(gaps.clip(0.05, 2))
        ax.imshow(
            colors, cmap="Blues", vmin=np.log(0.05), vmax=np.log(4), aspect="auto"
        )
        for (i, j), gap in np.ndenumerate(gaps):
            text = f"{gap:.2f}" if gap < DIVERGED_GAP else "diverged"
            ax.text(j, i, text, ha="center", va="center", fontsize=11,
                    color="white" if gap > 1 else "black")  # fmt: skip
        ax.set_xticks(range(len(ms)), [f"M = {m}" for m in ms])
        ax.set_yticks(range(len(ws)), [f"w = {w:g}" for w in ws])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        if len(shown) > 1:
            ax.set_title(method)
    return figure


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
    """Return ``learn(setting, report)``, which trains with some fields replaced.

    `ebmtut.widgets.landscape_explorer` calls it in a live kernel. It returns the log
    density, None if the run diverged, and the KL to the data in nats.
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
        "quick": AblationConfig(
            _w_and_m(LIVE, ("ED-Bern",), (0, 1), (1, 8)), evaluation=QUICK_LOOK
        ),
        "full": AblationConfig(
            _w_and_m(_MANY, ED_METHODS, _ALL_W, _ALL_M) + _knobs(_MANY)
        ),
        "paper": AblationConfig(_w_and_m(PAPER.recipe, ED_METHODS, _ALL_W, _ALL_M)),
    },
    figure=draw_w_and_m,
    check=check_w_and_m,
)
