"""Couplings of an Ising model by persistent chains.

Data, penalty and steps are those of dnfs/ising-learning; a thousand Gibbs chains, which
continue from step to step, replace the flow.
"""

from __future__ import annotations

from dataclasses import replace

from ebmtut.experiments.dnfs.ising_learning import EXPERIMENT
from ebmtut.experiments.experiment import no_claims
from studies.dnfs.figures import scores_of_runs

CHAINS = replace(
    EXPERIMENT,
    id="dnfs/couplings-chains",
    title="Couplings of a magnet by persistent chains",
    presets={
        scale: replace(EXPERIMENT.presets[scale], methods=("PCD",), n_samples=1000)
        for scale in ("quick", "full")
    },
    figure=scores_of_runs("nlr"),
    check=no_claims,
    devices=("cpu",),
)
