"""Couplings of a magnet by other draws, beside the row dnfs/ising-learning.

The same data, penalty and steps. Once a thousand Gibbs chains that go on from step to
step stand in the place of the flow: what data and penalty allow where draws are cheap.
Once the flow's draws take a DMALA step after each of its own. No rows of the facts: they
are stored beside the benchmarks, and `benchmarks/flow_studies.py` runs them.
"""

from __future__ import annotations

from dataclasses import replace

from ebmtut.experiments.dnfs.couplings_gflownet import draw_scores
from ebmtut.experiments.dnfs.ising_learning import EXPERIMENT
from ebmtut.experiments.dnfs.scaling import no_claims

__all__ = ["CHAINS", "REFINED"]

CHAINS = replace(
    EXPERIMENT,
    id="dnfs/couplings-chains",
    title="Couplings of a magnet by persistent chains",
    presets={
        scale: replace(EXPERIMENT.presets[scale], methods=("PCD",), n_samples=1000)
        for scale in ("quick", "full")
    },
    figure=draw_scores,
    check=no_claims,
    devices=("cpu",),
)

# Where the row misses the paper's number. Chosen in a trial on data of another seed.
REFINED = replace(
    CHAINS,
    id="dnfs/couplings-refined",
    title="Couplings of a magnet by a flow with DMALA steps",
    presets={
        scale: replace(
            EXPERIMENT.presets[scale],
            methods=("DNFS+DMALA",),
            problems=((10, 0.2),),
        )
        for scale in ("quick", "full")
    },
)
