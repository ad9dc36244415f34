"""Rows got/gibbs-bands and got/coupling-1d (Figures 1 and 2)."""

from __future__ import annotations

from ebmtut.experiments.got.bands import BandsConfig, run_bands
from ebmtut.experiments.got.couplings import CouplingConfig, run_coupling
from ebmtut.experiments.got.one_dimensional_reports import (
    check_bands,
    check_coupling,
    draw_bands,
    draw_coupling,
)
from ebmtut.experiments.registry import Experiment

__all__ = [
    "BANDS",
    "COUPLING",
    "BandsConfig",
    "CouplingConfig",
    "run_bands",
    "run_coupling",
]

BANDS = Experiment(
    id="got/gibbs-bands",
    title="Bands of the chain",
    presets={"quick": BandsConfig(), "full": BandsConfig(n_seeds=20)},
    run=run_bands,
    figure=draw_bands,
    check=check_bands,
)
COUPLING = Experiment(
    id="got/coupling-1d",
    title="Couplings of two laws on a line",
    presets={"quick": CouplingConfig(n_seeds=2), "full": CouplingConfig(n_seeds=20)},
    run=run_coupling,
    figure=draw_coupling,
    check=check_coupling,
)
