"""Samples of one lattice by a trained flow and by what learns nothing, drawn live."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmtut.energies import LatticeIsing
from ebmtut.flows import (
    ExactRollout,
    Flow,
    OddLatticeNetwork,
    simulate,
)
from ebmtut.random import make_generator
from ebmtut.samplers import annealed_importance_sampling, ising_gibbs

#: Names of what has learned nothing, in `draws_beside_nulls`.
NULL_DRAWS = ("untrained", "AIS", "AIS, weighted", "SMC", "SMC, weighted")


def draws_beside_nulls(
    flow: Flow, run: ExactRollout, *, n: int = 1000, n_steps: int = 64, seed: int
) -> dict[str, tuple[Tensor, Tensor | None]]:
    """Draw samples of a lattice by every sampler, with weights and without."""
    target = flow.path.target
    assert isinstance(target, LatticeIsing)
    network = OddLatticeNetwork(target.side, generator=make_generator(seed))
    bare, ours = (
        simulate(f, n, n_steps, generator=make_generator(seed))
        for f in (Flow(flow.path, network), flow)
    )
    draws: dict[str, tuple[Tensor, Tensor | None]] = {
        "untrained": (bare.x, None),
        "ours": (ours.x, None),
        "ours, weighted": (ours.x, ours.log_weights),
        "ours, exactly": (run.x, run.path_log_weights),
    }

    def sweep(x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        energy = LatticeIsing(target.side, target.sigma * t)
        return ising_gibbs(energy, x, 1, generator=generator)

    for name, level in (("AIS", 0.0), ("SMC", 0.5)):
        found = annealed_importance_sampling(
            flow.path,
            sweep,
            2 * n,
            n_steps,
            resample_below=level,
            generator=make_generator(seed),
        )
        draws[name] = found.x, None
        draws[f"{name}, weighted"] = found.x, found.log_weights
    return draws
