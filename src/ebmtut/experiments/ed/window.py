"""Experiment ed/window (Figure 7): ED-Pool over the size of the window."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from matplotlib.figure import Figure

from ebmtut.experiments.ed import variants
from ebmtut.experiments.ed.evaluation import QUICK_EVALUATION
from ebmtut.experiments.ed.recipes import PAPER_RECIPE, Recipe
from ebmtut.experiments.ed.variants import LIVE, SHORT, AblationConfig
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.results import Result


def draw_window(result: Result) -> Figure:
    """Draw the landscapes over the window."""
    return variants.draw_variants(result, lambda r: f"{r.window}x1", lambda r: r.window)


def check_window(result: Result) -> Verdicts:
    """The smallest window stays behind the largest, whatever M is."""
    recipes = variants.recipes_of(result)
    for m in sorted({r.n_negatives for r in recipes}):
        row = sorted((r for r in recipes if r.n_negatives == m), key=lambda r: r.window)
        first, last = (variants.gap_of(result, row[k]) for k in (0, -1))
        name = f"M = {m}: KL to the data, {row[0].window}x1 minus {row[-1].window}x1"
        yield claim(name, first - last, "at least", 0.1)


def _windows(base: Recipe, windows: Iterable[int], ms: Iterable[int]) -> tuple:
    return tuple(
        replace(base, method="ED-Pool", window=window, n_negatives=m)
        for m, window in product(ms, windows)
    )


_LONGER = replace(SHORT, n_steps=3000)

EXPERIMENT = variants.ablation(
    id="ed/window",
    title="ED-Pool over the window size",
    presets={
        "quick": AblationConfig(
            _windows(LIVE, (2, 32), (LIVE.n_negatives,)), evaluation=QUICK_EVALUATION
        ),
        "full": AblationConfig(_windows(_LONGER, (2, 4, 8, 16, 32), (32, 128))),
        "paper": AblationConfig(_windows(PAPER_RECIPE, (2, 4, 8, 16, 32), (32,))),
    },
    figure=draw_window,
    check=check_window,
)
