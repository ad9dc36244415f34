"""Data: two-dimensional densities in bits, Ising samples, images."""

from ebmtut.data.densities import (
    DENSITIES,
    DensityData,
    density_extent,
    density_log_prob,
    density_scale,
    differential_entropy,
    exact_entropy,
    sample_density,
)

__all__ = [
    "DENSITIES",
    "DensityData",
    "density_extent",
    "density_log_prob",
    "density_scale",
    "differential_entropy",
    "exact_entropy",
    "sample_density",
]
