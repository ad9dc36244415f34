"""Joint training without a flow, and with twelve bits in place of eight.

The control has the energy, data, steps and sweeps of dnfs/ebm-training, and annealed
importance sampling in place of the flow. Twelve bits have the recipe and networks of
eight; their 4096 states are still summed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ebmtut.experiments.dnfs.ebm_training import EXPERIMENT, JointConfig, sweeps_job
from ebmtut.experiments.experiment import Experiment, Names, no_claims
from studies.dnfs.figures import scores_of_runs


def control_cells(config: JointConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name an entry for every density."""
    alone = replace(config, densities=(), methods=(), n_seeds=1)
    return {("sweeps", d): {"density": d, "config": alone} for d in config.densities}


CONTROL = Experiment(
    id="dnfs/joint-control",
    title="Joint training without a flow",
    presets={
        "quick": JointConfig(densities=("8gaussians",), n_steps=100, n_samples=128),
        "full": JointConfig(n_seeds=2),
    },
    cells=control_cells,
    job=sweeps_job,
    figure=scores_of_runs("KL"),
    check=no_claims,
)


#: The two densities by which the recipe was chosen: the hardest of the seven.
_HARD = JointConfig(densities=("2spirals", "checkerboard"), methods=("DNFS",), n_bits=6)

TWELVE_BITS = replace(
    EXPERIMENT,
    id="dnfs/joint-twelve-bits",
    title="Energy and sampler on twelve bits",
    presets={
        "quick": replace(
            _HARD, densities=("8gaussians",), n_steps=10, n_last=5, n_samples=64
        ),
        "full": replace(_HARD, n_seeds=2),
    },
    null=None,
    check=no_claims,
)
