"""Training losses."""

from ebmtut.losses.contrastive_divergence import (
    PersistentChains,
    contrastive_divergence_loss,
)
from ebmtut.losses.directed_neighborhood import DirectedNeighborhood
from ebmtut.losses.energy_discrepancy import (
    energy_discrepancy_loss,
    stabilized_log_mean_exp,
)
from ebmtut.losses.kolmogorov import (
    kolmogorov_residual,
    kolmogorov_variance_loss,
    log_partition_slope,
)
from ebmtut.losses.moment_matching import bit_moments, match_moments
from ebmtut.losses.perturbations import (
    Bernoulli,
    Grid,
    Negatives,
    Perturbation,
    Pool,
)
from ebmtut.losses.pseudo_likelihood import pseudo_likelihood_loss
from ebmtut.losses.recovery_likelihood import (
    DenoisingScoreMatching,
    RecoveryLikelihood,
    denoising_score_matching_loss,
    recovery_likelihood_loss,
)

__all__ = [
    "Bernoulli",
    "DenoisingScoreMatching",
    "DirectedNeighborhood",
    "Grid",
    "Negatives",
    "PersistentChains",
    "Perturbation",
    "Pool",
    "RecoveryLikelihood",
    "bit_moments",
    "contrastive_divergence_loss",
    "denoising_score_matching_loss",
    "energy_discrepancy_loss",
    "kolmogorov_residual",
    "kolmogorov_variance_loss",
    "log_partition_slope",
    "match_moments",
    "pseudo_likelihood_loss",
    "recovery_likelihood_loss",
    "stabilized_log_mean_exp",
]
