"""How many steps the flips of ED-Bern need: ed/epsilon in 2,000 steps, not 5,000.

    python -m studies.ed.steps steps [--scale full] [--time-limit MINUTES]

steps: the two spirals at four flip probabilities, by the recipe of the full run of
    ed/epsilon but for the number of steps, half an hour of CPU time.

The same command continues where a time limit has stopped it.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from benchmarks.study_command import run_study
from ebmtut.experiments.ed import epsilon
from ebmtut.experiments.ed.variants import AblationConfig
from ebmtut.experiments.experiment import no_claims

_LONGER = {recipe.eps: recipe for recipe in epsilon.EXPERIMENT.config("full").variants}

STEPS = replace(
    epsilon.EXPERIMENT,
    id="ed/epsilon-steps",
    title="ED-Bern over the noise level eps, in 2,000 steps",
    presets={
        "quick": replace(
            epsilon.EXPERIMENT.config("quick"),
            variants=(replace(epsilon.LIVE, n_steps=20, eps=0.1),),
        ),
        "full": AblationConfig(
            tuple(
                replace(_LONGER[eps], n_steps=2000) for eps in (0.5, 0.1, 0.01, 0.001)
            )
        ),
    },
    check=no_claims,
)

STUDIES = {"steps": STEPS}

if __name__ == "__main__":
    torch.set_num_threads(1)
    run_study(STUDIES, __doc__)
