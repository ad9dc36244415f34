"""Metrics: MMD, likelihoods and partition functions, errors of couplings."""

from ebmtut.metrics.errors import negative_log_rmse, rmse
from ebmtut.metrics.grid import GridPartition, grid_log_partition, sample_by_proposal
from ebmtut.metrics.mmd import (
    hamming_distances,
    hamming_kernel_mean,
    mmd,
    mmd_of_fresh_sample,
)
from ebmtut.metrics.nll import (
    Estimate,
    effective_sample_size,
    estimate_log_mean_exp,
    log_partition_importance,
    log_partition_uniform,
    log_weights,
    nll,
)
from ebmtut.metrics.proposals import BernoulliProposal, HistogramProposal, Proposal

__all__ = [
    "BernoulliProposal",
    "Estimate",
    "GridPartition",
    "HistogramProposal",
    "Proposal",
    "effective_sample_size",
    "estimate_log_mean_exp",
    "grid_log_partition",
    "hamming_distances",
    "hamming_kernel_mean",
    "log_partition_importance",
    "log_partition_uniform",
    "log_weights",
    "mmd",
    "mmd_of_fresh_sample",
    "negative_log_rmse",
    "nll",
    "rmse",
    "sample_by_proposal",
]
