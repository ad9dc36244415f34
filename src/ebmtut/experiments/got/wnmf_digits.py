"""Experiment got/wnmf-digits (Figure 4)."""

from __future__ import annotations

from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.got.wnmf import by_method, cells, wnmf_job
from ebmtut.experiments.got.wnmf_measures import ImagesConfig
from ebmtut.experiments.got.wnmf_reports import (
    all_alike,
    check_factors,
    draw_factors,
)
from ebmtut.transport import WNMFConfig

# What the paper prints of its learning: 40 components, gamma = 2.0 for components
# and memberships alike, accelerated steps of the memberships, T that falls by its
# factor after every epoch. Its unit of cost, the first temperature and the number of
# epochs, in which T falls a thousandfold, are ours.
PAPER = ImagesConfig(
    wnmf=WNMFConfig(
        n_components=40,
        n_epochs=210,
        step_size=2.0,
        accelerate=True,
        n_hold=0,
        slowness=1.0,
        shrink_steps=False,
    )
)

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
        "paper": PAPER,
    },
    cells=cells,
    job=wnmf_job,
    devices=("cpu", "cuda"),
    gather=by_method,
    null=all_alike,
    figure=draw_factors,
    check=check_factors,
    parallel=False,  # their times are part of the result
)
