"""Experiment ed/epsilon (Figures 5 and 6): ED-Bern over the flip probability."""

from collections.abc import Iterable
from dataclasses import replace

from matplotlib.figure import Figure

from ebmtut.experiments.ed import variants
from ebmtut.experiments.ed.evaluation import QUICK_EVALUATION
from ebmtut.experiments.ed.recipes import PAPER_RECIPE, Recipe
from ebmtut.experiments.ed.variants import LIVE, SHORT, AblationConfig
from ebmtut.experiments.verdicts import Verdicts, claim
from ebmtut.plotting import DIVERGED_GAP
from ebmtut.results import Result

# A landscape counts as learned if this fraction of the untrained KL is left at most.
LEARNED = {"quick": 0.5, "full": 0.1, "paper": 0.1}


def draw_epsilon(result: Result) -> Figure:
    """Draw the landscapes over eps."""
    return variants.draw_variants(result, lambda r: f"ε = {r.eps:g}", lambda r: -r.eps)


def check_epsilon(result: Result) -> Verdicts:
    """All but eps in {0, 1} learn; that those two do not is no more than sanity."""
    recipes = variants.recipes_of(result)
    bound = LEARNED[result.scale] * result.scalars["untrained"]
    for recipe in recipes:
        eps, m = recipe.eps, recipe.n_negatives
        if eps > 0.98 and result.provenance.device.startswith("cpu"):
            continue  # the CPU mirrors rare flips: one run with that at 1 - eps
        gap = min(variants.gap_of(result, recipe), DIVERGED_GAP)
        name = f"eps = {eps:g}, M = {m}: KL to the data"
        limit = eps in (0, 1)
        yield claim(name, gap, "at least" if limit else "at most", bound, sanity=limit)


def _epsilon(
    base: Recipe, usual: Iterable[float], extreme: Iterable[float], times: int = 4
) -> tuple:
    more = replace(base, n_negatives=8 * base.n_negatives, n_steps=times * base.n_steps)
    return tuple(replace(base, eps=eps) for eps in usual) + tuple(
        replace(more, eps=eps) for eps in extreme
    )


# Rare flips are rare contrasts: large batches, and at the extremes longer runs.
_FLIPS = replace(SHORT, n_steps=5000, batch_size=512)
_USUAL = (0.999, 0.9, 0.5, 0.1, 0.01, 0.001)
_EXTREME = (1, 0.9999, 0.0001, 0)
# Live, a few steps show as well as many that eps = 0 teaches nothing.
_LIVE = (*_epsilon(LIVE, (0.9, 0.1), ()), replace(LIVE, eps=0, n_steps=100))

EXPERIMENT = variants.ablation(
    id="ed/epsilon",
    title="ED-Bern over the noise level eps",
    presets={
        "quick": AblationConfig(_LIVE, evaluation=QUICK_EVALUATION),
        "full": AblationConfig(_epsilon(_FLIPS, _USUAL, _EXTREME)),
        # The paper says "a large value of M", without a number: 256 is our choice.
        "paper": AblationConfig(_epsilon(PAPER_RECIPE, _USUAL, _EXTREME, times=1)),
    },
    figure=draw_epsilon,
    check=check_epsilon,
)
