"""Rows got/gibbs-bands, got/coupling-1d and got/coulomb (Figures 1, 2 and 3)."""

from __future__ import annotations

from ebmtut.experiments.got.bands import BandsConfig, run_bands
from ebmtut.experiments.got.coulomb import CoulombConfig, run_coulomb
from ebmtut.experiments.got.couplings import CouplingConfig, run_coupling
from ebmtut.experiments.got.one_dimensional_reports import (
    check_bands,
    check_coulomb,
    check_coupling,
    draw_bands,
    draw_coulomb,
    draw_coupling,
)
from ebmtut.experiments.registry import Experiment

__all__ = [
    "BANDS",
    "COULOMB",
    "COUPLING",
    "BandsConfig",
    "CoulombConfig",
    "CouplingConfig",
    "run_bands",
    "run_coulomb",
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
COULOMB = Experiment(
    id="got/coulomb",
    title="Two electrons on a line",
    presets={"quick": CoulombConfig(n_seeds=2), "full": CoulombConfig(n_seeds=20)},
    run=run_coulomb,
    figure=draw_coulomb,
    check=check_coulomb,
)
