"""Experiment ed/w-and-m (Figures 8 to 10): the stabiliser against the negatives."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ebmtut.checks import OneOf, checked
from ebmtut.data import DENSITIES
from ebmtut.experiments.ed import variants
from ebmtut.experiments.ed.evaluation import QUICK_EVALUATION, density_job
from ebmtut.experiments.ed.recipes import ED_METHODS, PAPER_RECIPE, Recipe
from ebmtut.experiments.ed.variants import LIVE, SHORT, AblationConfig, gap_of
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.plotting import DIVERGED_GAP
from ebmtut.results import Result

# What the reader of the chapter's widget can choose.
HYPERPARAMETERS: dict[str, tuple[float, ...]] = {
    "eps": (0.001, 0.01, 0.1, 0.5, 0.9),
    "w": (0, 0.1, 1, 10),
    "M": (1, 4, 16, 64),
}


def draw_w_and_m(result: Result, methods: Sequence[str] = ED_METHODS) -> Figure:
    """Draw the KL to the data over M and w, a map for each method."""
    recipes = [r for r in variants.recipes_of(result) if r.eps == 0.1]
    shown = [method for method in methods if any(r.method == method for r in recipes)]
    n = len(shown)
    figure, axes = plt.subplots(n, 1, figsize=(4.6, 2 * n), squeeze=False)
    for ax, method in zip(axes[:, 0], shown, strict=True):
        at = {(r.stabilizer, r.n_negatives): r for r in recipes if r.method == method}
        ws, ms = (sorted(set(values)) for values in zip(*at, strict=True))
        gaps = np.full((len(ws), len(ms)), np.inf)
        for (w, m), r in at.items():
            gaps[ws.index(w), ms.index(m)] = min(gap_of(result, r), DIVERGED_GAP)
        norm = LogNorm(0.05, 4)
        ax.imshow(gaps.clip(0.05, 2), cmap="Blues", norm=norm, aspect="auto")
        for (i, j), gap in np.ndenumerate(gaps):
            text = f"{gap:.2f}" if gap < DIVERGED_GAP else "diverged"
            color = "white" if gap > 1 else "black"
            ax.text(j, i, text, ha="center", va="center", fontsize=10, color=color)
        ax.set_xticks(range(len(ms)), [f"M = {m}" for m in ms])
        ax.set_yticks(range(len(ws)), [f"w = {w:g}" for w in ws])
        ax.tick_params(length=0, labelsize=10)
        ax.spines[:].set_visible(False)
        ax.set_title(method if n > 1 else "")
    return figure


def check_w_and_m(result: Result) -> Verdicts:
    """w = 0 with few negatives fails, w = 1 does not, w = 10 flattens.

    Few are M = 1 for all methods, and 32, the paper's own limit, for ED-Bern.
    """
    bound = result.scalars["untrained"]
    recipes = [r for r in variants.recipes_of(result) if r.eps == 0.1]
    flat = {
        recipe.method: landscape_entropy(result, recipe)
        for recipe in recipes
        if (recipe.n_negatives, recipe.stabilizer) == (1, 10)
    }
    for recipe in recipes:
        m, w = recipe.n_negatives, recipe.stabilizer
        if m != 1 and (recipe.method, m, w) != ("ED-Bern", 32, 0):
            continue
        gap = min(gap_of(result, recipe), DIVERGED_GAP)
        name = f"{recipe.method}, w = {w:g}, M = {m}: KL to the data"
        if w == 0:
            yield claim(name, gap, "at least", bound)
        elif w == 1:
            yield claim(name, gap, "at most", bound)
            if recipe.method in flat:
                flatter = flat[recipe.method] - landscape_entropy(result, recipe)
                name = f"{recipe.method}, M = 1: entropy at w = 10 minus at w = 1"
                yield claim(name, flatter, "at least", 0.0)


def landscape_entropy(result: Result, recipe: Recipe) -> float:
    """Entropy of a learned landscape over its pixels, in nats."""
    picture = result.arrays[variants.variant_name(recipe)]
    log_p = torch.from_numpy(picture).double().flatten()
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
    """Return ``learn(setting, report)``, which the chapter's widget calls."""

    def learn(
        setting: Mapping[str, float], report: Callable[[float], None]
    ) -> tuple[np.ndarray | None, float]:
        chosen = replace(recipe, **setting)  # type: ignore[arg-type]
        how = (density, chosen, variants.BY_THE_GAP, seed, n_pixels, device)
        outcome = density_job(
            *how, on_step=lambda step, _: report((step + 1) / chosen.n_steps)
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


_MANY = replace(SHORT, n_steps=2000)
# The settings of the chapter's widget that the figures do not hold.
_OTHER_EPS = tuple(
    replace(_MANY, eps=eps, stabilizer=w, n_negatives=int(m))
    for eps, w, m in product(*HYPERPARAMETERS.values())
    if eps != _MANY.eps
)
_ALL_W, _ALL_M = (0, 0.1, 1, 10), (1, 4, 16, 32, 64, 128)

EXPERIMENT = variants.ablation(
    id="ed/w-and-m",
    title="Stabiliser w against negatives M",
    presets={
        "quick": AblationConfig(
            _w_and_m(LIVE, ("ED-Bern",), (0, 1), (1, 8)), evaluation=QUICK_EVALUATION
        ),
        "full": AblationConfig(
            _w_and_m(_MANY, ED_METHODS, _ALL_W, _ALL_M) + _OTHER_EPS
        ),
        "paper": AblationConfig(_w_and_m(PAPER_RECIPE, ED_METHODS, _ALL_W, _ALL_M)),
    },
    figure=draw_w_and_m,
    check=check_w_and_m,
)
