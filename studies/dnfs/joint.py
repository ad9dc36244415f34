"""Joint training without a flow, and with twelve bits in place of eight.

The control has the energy, data, steps and sweeps of dnfs/ebm-training, and annealed
importance sampling in place of the flow. Twelve bits have the recipe and networks of
eight; their 4096 states are still summed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmtut.energies import TableEnergy
from ebmtut.experiments.dnfs.ebm_training import (
    EXPERIMENT,
    JointConfig,
    gibbs_sweep,
    learned_jointly,
)
from ebmtut.experiments.dnfs.planes import independent_bits, plane_distribution, scores
from ebmtut.experiments.experiment import Names, no_claims
from ebmtut.experiments.jobs import Outcome
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.samplers import annealed_importance_sampling
from studies.dnfs.figures import study


class _Sweeps:
    """The same sweeps without a flow: annealed importance sampling."""

    def __init__(self, energy: TableEnergy, config: JointConfig, seed: int) -> None:
        self.path = AnnealingPath(energy)
        self.sweep = gibbs_sweep(self.path, energy)
        self.config = config

    def fit(self, *_: Any, **__: Any) -> None:
        """Learn nothing."""

    def draw(self, n: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        found = annealed_importance_sampling(
            self.path, self.sweep, n, self.config.n_time_steps, generator=generator
        )
        return found.x, found.log_weights.float()

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Have nothing to take back."""


def sweeps_job(
    density: str, config: JointConfig, seed: int, checkpoint: Path | None = None
) -> Outcome:
    """Learn the same energy with the same sweeps, and no flow."""
    data = plane_distribution(density, config.n_bits)
    known, _, seconds = learned_jointly(
        data, config, seed, _Sweeps, checkpoint, generator=make_generator(seed)
    )
    scalars = scores((-known.table.double()).softmax(0), data)
    null = {f"null {k}": v for k, v in scores(independent_bits(data), data).items()}
    return Outcome({**scalars, **null, "cpu s": seconds})


def control_cells(config: JointConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name an entry for every density."""
    alone = replace(config, densities=(), methods=(), n_seeds=1)
    return {("sweeps", d): {"density": d, "config": alone} for d in config.densities}


CONTROL = study(
    "dnfs/joint-control",
    "Joint training without a flow",
    JointConfig(densities=("8gaussians",), n_steps=100, n_samples=128),
    JointConfig(n_seeds=2),
    cells=control_cells,
    job=sweeps_job,
    score="KL",
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
    baseline=None,
    check=no_claims,
)
