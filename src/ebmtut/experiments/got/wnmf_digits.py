"""Row got/wnmf-digits (Figure 4)."""

from __future__ import annotations

from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.got.wnmf import (
    all_alike,
    by_method,
    cells,
    check_factors,
    draw_factors,
    wnmf_job,
)
from ebmtut.experiments.got.wnmf_measures import ImagesConfig
from ebmtut.transport import WNMFConfig

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
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
    cells=cells,
    job=wnmf_job,
    gather=by_method,
    null=all_alike,
    figure=draw_factors,
    check=check_factors,
    parallel=False,  # their times are part of the result
)
