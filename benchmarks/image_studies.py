"""A study that is no row of a paper, stored for the pages on recovery likelihood.

    python benchmarks/image_studies.py again [--time-limit MINUTES]

again: the larger images of the row drl/samples with another seed, by recovery
    likelihood and by score matching, an hour of two cores.
The same command goes on where a time limit has stopped it.
"""

from dataclasses import replace

from study_command import run_study

from ebmtut.experiments.drl.images import LARGER
from ebmtut.experiments.drl.samples import EXPERIMENT, SamplesConfig

#: Each by recovery likelihood, and by score matching with three times the updates; the
#: longest training first.
RECIPES = tuple(
    recipe
    for first in LARGER[-2:]
    for recipe in (first, replace(first, objective="score", n_steps=3 * first.n_steps))
)
AGAIN = replace(
    EXPERIMENT,
    id="drl/samples-again",
    title="Larger images once more, and by score matching",
    presets={
        "quick": SamplesConfig(
            tuple(replace(r, hidden=8, n_steps=20, n_warmup=5) for r in RECIPES[-2:]),
            n_samples=64,
        ),
        "full": SamplesConfig(RECIPES),
    },
    parallel=True,
)

if __name__ == "__main__":
    run_study({"again": AGAIN}, __doc__, seed=1)
