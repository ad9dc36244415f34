"""Exact solutions of small systems and lattices, the reference for all methods."""

from ebmtut.exact.discrepancy import (
    bernoulli_channel,
    channel_classes,
    contrastive_potential,
    exact_energy_discrepancy,
    grid_channel,
    pooling_channel,
)
from ebmtut.exact.enumeration import (
    exact_log_partition,
    exact_mean,
    exact_probabilities,
)
from ebmtut.exact.lattice import (
    lattice_log_partition,
    torus_log_partition,
    transfer_log_partition,
)
from ebmtut.exact.maximum_cut import maximum_cuts
from ebmtut.exact.optimum import Optima, OptimumUnproved, maximum_independent_sets
from ebmtut.exact.torus import torus_correlations, torus_energy_distribution

__all__ = [
    "Optima",
    "OptimumUnproved",
    "bernoulli_channel",
    "channel_classes",
    "contrastive_potential",
    "exact_energy_discrepancy",
    "exact_log_partition",
    "exact_mean",
    "exact_probabilities",
    "grid_channel",
    "lattice_log_partition",
    "maximum_cuts",
    "maximum_independent_sets",
    "pooling_channel",
    "torus_correlations",
    "torus_energy_distribution",
    "torus_log_partition",
    "transfer_log_partition",
]
