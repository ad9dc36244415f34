"""Row pmp/zeros-samples (Figure 4): pictures, those of linear programs included."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ebmtut.experiments.pmp.zeros import (
    FULL,
    QUICK,
    ZerosConfig,
    run_zeros,
)
from ebmtut.experiments.pmp.zeros_reports import (
    check_samples,
    draw_samples,
)
from ebmtut.experiments.registry import Experiment
from ebmtut.results import Result

__all__ = ["ZEROS_SAMPLES", "ZerosSamplesConfig", "run_zeros_samples"]


@dataclass(frozen=True)
class ZerosSamplesConfig:
    """The zeros model, and a reduced one that linear programs can learn, too."""

    zeros: ZerosConfig = field(default_factory=ZerosConfig)
    reduced: ZerosConfig = field(default_factory=ZerosConfig)


def run_zeros_samples(
    config: ZerosSamplesConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
    checkpoints: Path | None = None,
) -> Result:
    """Do what `run_zeros` does, twice: in full, and at the size of linear programs.

    Returns
    -------
    Result
        That of `run_zeros`; ``scalars["reduced"]`` and arrays ``reduced/...`` are
        the scalars and arrays of the second.
    """
    id = "pmp/zeros-samples"
    kwargs: dict[str, Any] = {"seed": seed, "device": device, "progress": progress}
    whole = run_zeros(config.zeros, checkpoints=checkpoints, id=id, **kwargs)
    folder = checkpoints / "reduced" if checkpoints is not None else None
    small = run_zeros(config.reduced, checkpoints=folder, id=id, **kwargs)
    arrays = {f"reduced/{name}": array for name, array in small.arrays.items()}
    return replace(
        whole,
        config=whole.config | {"reduced": small.config},
        scalars={**whole.scalars, "reduced": small.scalars},
        arrays={**whole.arrays, **arrays},
    )


_REDUCED = ("PMP", "PMP symmetric", "LP")

ZEROS_SAMPLES = Experiment(
    id="pmp/zeros-samples",
    title="Samples of the zeros model",
    presets={
        "quick": ZerosSamplesConfig(
            QUICK,
            replace(
                QUICK,
                methods=_REDUCED,
                shrink=4,
                n_steps=60,
                learning_rate=1e-2,
                n_chains=10,
                sweeps=(25,),
                n_judged=40,
            ),
        ),
        "full": ZerosSamplesConfig(
            FULL,
            ZerosConfig(
                methods=_REDUCED,
                shrink=3,
                n_steps=150,
                learning_rate=1e-2,
                n_chains=20,
                sweeps=(25, 50),
                n_judged=100,
            ),
        ),
    },
    run=run_zeros_samples,
    figure=draw_samples,
    check=check_samples,
    resumes=True,
)
