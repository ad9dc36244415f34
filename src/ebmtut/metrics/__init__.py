"""Metrics: MMD, likelihoods, errors of couplings; how far images are from data."""

from ebmtut.metrics.annealed import (
    LogPartitions,
    log_partition_annealed,
    log_partitions,
)
from ebmtut.metrics.errors import negative_log_rmse, rmse
from ebmtut.metrics.frechet import (
    Neighbors,
    PrecisionRecall,
    class_score,
    frechet_distance,
    gaussian_frechet_distance,
    nearest_neighbors,
    precision_recall,
)
from ebmtut.metrics.grid import GridPartition, grid_log_partition, sample_by_proposal
from ebmtut.metrics.image_classifier import ImageClassifier, train_image_classifier
from ebmtut.metrics.inception import (
    INCEPTION_WEIGHTS,
    InceptionFeatures,
    fid,
    inception_features,
)
from ebmtut.metrics.level_partition import (
    LevelPartition,
    bits_per_dimension,
    log_partition_chain,
    log_partition_particles,
)
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
from ebmtut.metrics.pairs import (
    covariance_error,
    covariance_error_of_fresh_sample,
    pair_covariances,
)
from ebmtut.metrics.plane import PlaneGrid
from ebmtut.metrics.proposals import BernoulliProposal, HistogramProposal, Proposal

__all__ = [
    "INCEPTION_WEIGHTS",
    "BernoulliProposal",
    "Estimate",
    "GridPartition",
    "HistogramProposal",
    "ImageClassifier",
    "InceptionFeatures",
    "LevelPartition",
    "LogPartitions",
    "Neighbors",
    "PlaneGrid",
    "PrecisionRecall",
    "Proposal",
    "bits_per_dimension",
    "class_score",
    "covariance_error",
    "covariance_error_of_fresh_sample",
    "effective_sample_size",
    "estimate_log_mean_exp",
    "fid",
    "frechet_distance",
    "gaussian_frechet_distance",
    "grid_log_partition",
    "hamming_distances",
    "hamming_kernel_mean",
    "inception_features",
    "log_partition_annealed",
    "log_partition_chain",
    "log_partition_importance",
    "log_partition_particles",
    "log_partition_uniform",
    "log_partitions",
    "log_weights",
    "mmd",
    "mmd_of_fresh_sample",
    "nearest_neighbors",
    "negative_log_rmse",
    "nll",
    "pair_covariances",
    "precision_recall",
    "rmse",
    "sample_by_proposal",
    "train_image_classifier",
]
