"""The larger images of drl/samples once more, and by score matching.

That row has one training of MNIST in 28 x 28 pixels and none by score matching of what
is larger than 14 x 14. A study of ours and no row of the facts: it is stored
beside the benchmarks, and `benchmarks/image_studies.py` runs it.
"""

from __future__ import annotations

from dataclasses import replace

from ebmtut.experiments.drl import samples
from ebmtut.experiments.drl.images import LARGER, ImageRecipe
from ebmtut.experiments.drl.samples import SamplesConfig

__all__ = ["AGAIN", "AGAIN_SEED"]

#: The row has seed 0, and 1 where it trains twice.
AGAIN_SEED = 1


def _by_score_matching(recipe: ImageRecipe) -> ImageRecipe:
    """Three times the steps take about the same seconds, as in 14 x 14 pixels."""
    return replace(recipe, objective="score", n_steps=3 * recipe.n_steps)


*_, _MNIST28, _FACES = LARGER
#: The longest first: two cores share them.
_RECIPES = (
    _MNIST28,
    _by_score_matching(_MNIST28),
    _FACES,
    _by_score_matching(_FACES),
)

AGAIN = replace(
    samples.EXPERIMENT,
    id="drl/samples-again",
    title="Larger images once more, and by score matching",
    presets={
        "quick": SamplesConfig(
            tuple(replace(r, hidden=8, n_steps=20, n_warmup=5) for r in _RECIPES[-2:]),
            n_samples=64,
        ),
        "full": SamplesConfig(_RECIPES),
    },
    parallel=True,
)
