"""Couplings of an Ising model by EB-GFN, on the data of dnfs/ising-learning.

Source: Zhang et al. (2022).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from ebmtut.checks import Count, Range, checked
from ebmtut.energies import Ising
from ebmtut.experiments.dnfs.ising_learning import coupling_scores, magnet
from ebmtut.experiments.ed.couplings import column_name
from ebmtut.experiments.experiment import Experiment, Names, no_claims
from ebmtut.experiments.jobs import Outcome
from ebmtut.flows import BitsGFlowNet
from ebmtut.random import make_generator
from ebmtut.training import EBGFNConfig, train_eb_gfn
from studies.dnfs.figures import scores_of_runs


@checked
@dataclass(frozen=True)
class GFlowNetCouplingsConfig:
    """Which lattices, and how couplings and GFlowNet learn together.

    Parameters
    ----------
    problems
        Pairs (side, sigma), as in dnfs/ising-learning; those that teach anything.
    n_seeds
        Independent data sets and runs.
    n_data, n_sweeps
        Samples of the data, and Gibbs sweeps that each of them takes.
    hidden
        Units of a layer of the GFlowNet.
    penalty
        Weight of the l1 norm of J. The row's 0.05 stands beside the whole difference
        of moments; where ``n_back`` of all sites are drawn anew, a pair has moved by
        about twice that fraction of it.
    training
        All that EB-GFN takes.
    """

    problems: tuple[tuple[int, float], ...] = (
        (10, 0.1),
        (10, 0.2),
        (9, -0.1),
        (9, -0.2),
    )
    n_seeds: Count = 1
    n_data: Count = 2000
    n_sweeps: Count = 10_000
    hidden: Count = 128
    penalty: Annotated[float, Range(0)] = 0.005
    training: EBGFNConfig = field(
        default_factory=lambda: EBGFNConfig(
            n_steps=150,
            n_samples=1000,
            n_ways=64,
            n_back=5,
            n_policy_steps=1,
            n_last=1,
            energy_learning_rate=5e-3,
            learning_rate=2e-3,
        )
    )


def couplings_job(
    side: int,
    sigma: float,
    config: GFlowNetCouplingsConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Draw data of one lattice and learn its couplings with a GFlowNet."""
    x, truth = magnet(side, sigma, config.n_data, config.n_sweeps, seed=seed)
    energy = Ising(torch.zeros_like(truth), learnable=True)
    policy = BitsGFlowNet(side**2, config.hidden, generator=make_generator(seed))

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        return x[torch.randint(len(x), (n,), generator=generator)]

    def penalty(energy: nn.Module) -> Tensor:
        assert isinstance(energy, Ising)
        return config.penalty * energy.coupling.abs().sum()

    found = train_eb_gfn(
        energy,
        policy,
        sample,
        config.training,
        generator=make_generator(seed),
        penalty=penalty,
        checkpoint=checkpoint,
        identity={"side": side, "sigma": sigma, "seed": seed},
    )
    assert isinstance(found.energy, Ising)
    learned = found.energy.symmetric_coupling.detach()
    late = found.accepted[-max(1, len(found.accepted) // 10) :]
    return Outcome(
        {
            **coupling_scores(learned, truth),
            "accepted": float(late.mean()),
            "cpu s": found.cpu_seconds,
        },
        {"coupling": learned.numpy()},
    )


def cells(config: GFlowNetCouplingsConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name an entry for every lattice."""
    alone = replace(config, problems=(), n_seeds=1)
    return {
        ("EB-GFN", column_name(side, sigma)): {
            "side": side,
            "sigma": sigma,
            "config": alone,
        }
        for side, sigma in config.problems
    }


COUPLINGS = Experiment(
    id="dnfs/couplings-gflownet",
    title="Couplings of a magnet by EB-GFN",
    presets={
        "quick": GFlowNetCouplingsConfig(problems=((4, 0.1),), n_sweeps=500),
        "full": GFlowNetCouplingsConfig(n_seeds=2),
    },
    cells=cells,
    job=couplings_job,
    arrays={"coupling": "{name}/{cell}"},
    figure=scores_of_runs("nlr"),
    check=no_claims,
)
