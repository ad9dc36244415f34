"""EB-GFN, which Tables 1 and 3 quote beside energy discrepancy, at a reduced scale.

    python -m studies.ed.competing STUDY [--scale full] [--time-limit MINUTES]

couplings: couplings by EB-GFN, 150 updates, on the three lattices that
    ``python -m studies.dnfs.run couplings`` leaves out, six.
densities: EB-GFN on the seven densities of Table 1, 50 updates, three.

The number of updates was chosen by the processor time that they take, before any run.
The same command continues where a time limit has stopped it.
Source: Zhang et al. (2022); Schröder, Ou, Li and Duncan (2023), Appendix E.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch

from benchmarks.study_command import run_study
from ebmtut.checks import Count, DivergenceError, OneOf, checked
from ebmtut.data import DENSITIES, DensityData
from ebmtut.energies import MLPEnergy
from ebmtut.experiments.ed.evaluation import (
    QUICK_EVALUATION,
    Evaluation,
    evaluate_density,
)
from ebmtut.experiments.experiment import Experiment, Names, no_claims, stream_seed
from ebmtut.experiments.jobs import Outcome
from ebmtut.flows import BitsGFlowNet
from ebmtut.random import make_generator
from ebmtut.training import EBGFNConfig, train_eb_gfn
from studies.dnfs.couplings_gflownet import COUPLINGS, GFlowNetCouplingsConfig
from studies.dnfs.figures import scores_of_runs

EB_GFN_COUPLINGS = replace(
    COUPLINGS,
    id="ed/ising-eb-gfn",
    title="Couplings by EB-GFN in 150 steps, on the other lattices",
    presets={
        "quick": COUPLINGS.config("quick"),
        "full": GFlowNetCouplingsConfig(problems=((10, 0.3), (10, 0.4), (10, 0.5))),
    },
)


@checked
@dataclass(frozen=True)
class GFlowNetDensityConfig:
    """Which densities, and how energy and GFlowNet learn together."""

    densities: tuple[Annotated[str, OneOf(DENSITIES)], ...] = DENSITIES
    n_seeds: Count = 1
    # Units of a layer of the GFlowNet.
    hidden: Count = 128
    training: EBGFNConfig = field(
        default_factory=lambda: EBGFNConfig(
            n_steps=50,
            n_samples=64,
            n_ways=64,
            n_policy_steps=1,
            n_last=1,
            energy_learning_rate=5e-3,
            learning_rate=2e-3,
        )
    )
    evaluation: Evaluation = field(
        default_factory=lambda: Evaluation(n_uniform=0, n_proposal=50_000, n_repeats=2)
    )


def density_job(
    density: str,
    config: GFlowNetDensityConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Learn one density by EB-GFN; evaluate the energy as those of Table 1."""
    data, generator = DensityData(density), make_generator(seed)
    # The energy begins as independent bits, as in the recipes of energy discrepancy.
    base = data.sample_bits(10_000, generator=generator).mean(0).clamp(1e-3, 1 - 1e-3)
    energy = MLPEnergy(data.n_sites, base_probs=base, generator=make_generator(seed))
    policy = BitsGFlowNet(data.n_sites, config.hidden, generator=make_generator(seed))
    try:
        found = train_eb_gfn(
            energy,
            policy,
            data.sample_bits,
            config.training,
            generator=generator,
            checkpoint=checkpoint,
            identity={"density": density, "seed": seed, **asdict(config)},
        )
    except DivergenceError as error:
        return Outcome({"diverged_at": error.step})
    late = found.accepted[-max(1, len(found.accepted) // 10) :]
    at = stream_seed("evaluation", seed)
    scores = evaluate_density(found.energy, density, config.evaluation, seed=at)
    return Outcome(
        {**scores, "accepted": float(late.mean()), "cpu s": found.cpu_seconds},
        {"accepted": found.accepted.numpy()},
    )


def cells(config: GFlowNetDensityConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name an entry for every density."""
    alone = replace(config, densities=(), n_seeds=1)
    return {
        ("EB-GFN", density): {"density": density, "config": alone}
        for density in config.densities
    }


EB_GFN_DENSITIES = Experiment(
    id="ed/densities-eb-gfn",
    title="Seven densities by EB-GFN",
    presets={
        "quick": GFlowNetDensityConfig(
            densities=("2spirals",),
            hidden=16,
            training=EBGFNConfig(n_steps=3, n_samples=8, n_last=1),
            evaluation=QUICK_EVALUATION,
        ),
        "full": GFlowNetDensityConfig(),
    },
    cells=cells,
    job=density_job,
    arrays={"accepted": "{name}/{cell}"},
    figure=scores_of_runs("gap"),
    check=no_claims,
)

STUDIES = {
    "couplings": EB_GFN_COUPLINGS,
    "densities": EB_GFN_DENSITIES,
}

if __name__ == "__main__":
    # Workers look classes up by their module, and in them __main__ is another one.
    from studies.ed import competing

    torch.set_num_threads(1)
    run_study(competing.STUDIES, __doc__)
