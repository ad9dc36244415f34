"""Couplings of a magnet by persistent chains, beside the row dnfs/ising-learning.

The same data, penalty and steps: a thousand Gibbs chains that go on from step to step
stand in the place of the flow. That is what data and penalty allow where draws are
cheap. No row of the facts: it is stored beside the benchmarks, and
`benchmarks/flow_studies.py` runs it.
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
