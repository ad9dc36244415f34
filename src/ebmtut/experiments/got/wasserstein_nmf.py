"""Rows got/wnmf-digits (Figure 4) and got/wnmf-faces (Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ebmtut.experiments.got.wnmf_measures import ImagesConfig
from ebmtut.experiments.got.wnmf_methods import METHODS, wnmf_job
from ebmtut.experiments.got.wnmf_reports import check_factors, draw_factors
from ebmtut.experiments.jobs import commits_of, run_jobs
from ebmtut.experiments.registry import Experiment
from ebmtut.results import Result
from ebmtut.transport import WNMFConfig

__all__ = ["DIGITS", "FACES", "run_factors"]


def run_factors(
    config: ImagesConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = False,
    checkpoints: Path | None = None,
    id: str = "got/wnmf-digits",
) -> Result:
    """Factorise a set of images by the three methods, one after the other.

    The device is the CPU whatever is asked for: times are part of the result.

    Returns
    -------
    Result
        ``scalars["methods"][method]`` has the numbers of `wnmf_job`; the
        array ``method`` has the components, ``looks`` the learning's course.
    """
    jobs: dict[str, Mapping[str, Any]] = {}
    for method in METHODS:
        jobs[method] = {"method": method, "config": config, "seed": seed}
        if checkpoints is not None and method == "Gibbs-OT":
            part = checkpoints / "parts" / "gibbs-ot.safetensors"
            jobs[method]["checkpoint"] = str(part)  # type: ignore[index]
    outcomes = run_jobs(
        wnmf_job, jobs, folder=checkpoints, n_workers=1, progress=progress, label=id
    )
    arrays: dict[str, np.ndarray] = {
        method: outcome.arrays["components"] for method, outcome in outcomes.items()
    }
    arrays["looks"] = outcomes["Gibbs-OT"].arrays["looks"]
    scalars = {
        "methods": {method: outcome.scalars for method, outcome in outcomes.items()},
        "commits": commits_of(outcomes),
    }
    return Result(id, "quick", asdict(config), scalars, arrays)


DIGITS = Experiment(
    id="got/wnmf-digits",
    title="Wasserstein NMF of fives",
    presets={
        "quick": ImagesConfig(
            source="small digits",
            n_images=60,
            side=16,
            wnmf=WNMFConfig(n_components=10, n_epochs=400),
            n_rounds=5,
            n_iterations=400,
            n_exact=30,
            n_looks=5,
        ),
        "full": ImagesConfig(),
    },
    run=run_factors,
    figure=draw_factors,
    check=check_factors,
    resumes=True,
)
FACES = Experiment(
    id="got/wnmf-faces",
    title="Wasserstein NMF of faces",
    presets={
        "quick": ImagesConfig(
            source="drawn faces",
            n_images=80,
            side=16,
            wnmf=WNMFConfig(n_components=10, n_epochs=600, slowness=5, step_size=5.0),
            n_rounds=5,
            n_iterations=400,
            n_exact=10,
            n_looks=5,
        ),
        "full": ImagesConfig(
            source="ORL",
            n_images=400,
            side=64,
            wnmf=WNMFConfig(
                n_epochs=1300,
                n_hold=40,
                slowness=2.2,
                temperature=2.5e-7,
                step_size=10.0,
                membership_step_size=800.0,
                n_average=560,
            ),
            n_rounds=3,
            n_steps=12,
            n_iterations=300,
            n_exact=6,
            n_bound_passes=40,
            n_looks=1,
        ),
    },
    run=partial(run_factors, id="got/wnmf-faces"),
    figure=draw_factors,
    check=check_factors,
    resumes=True,
)
