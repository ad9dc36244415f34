"""Training losses, each in the file that bears its name.

``kolmogorov`` has the residual of the flow samplers with its Stein control variate,
``recovery_likelihood`` the loss whose Langevin step is in ``ebmtut.samplers.langevin``,
and ``directed_neighborhood`` the negatives of energy discrepancy with weights.
"""

from ebmtut.losses.contrastive_divergence import (
    PersistentChains,
    contrastive_divergence_loss,
)
from ebmtut.losses.coupling_discrepancy import coupling_discrepancy_losses
from ebmtut.losses.directed_neighborhood import DirectedNeighborhood
from ebmtut.losses.energy_difference import saturated_gap
from ebmtut.losses.energy_discrepancy import energy_discrepancy_loss
from ebmtut.losses.kolmogorov import (
    kolmogorov_residual,
    kolmogorov_variance_loss,
    log_partition_slope,
)
from ebmtut.losses.log_mean_exp import stabilized_log_mean_exp
from ebmtut.losses.moment_matching import (
    VARIABLES,
    Samples,
    bit_moments,
    match_moments,
    persistent_match_moments,
)
from ebmtut.losses.perturbations import Bernoulli, Grid, Negatives, Perturbation, Pool
from ebmtut.losses.pseudo_likelihood import pseudo_likelihood_loss
from ebmtut.losses.ratio_matching import ratio_matching_loss
from ebmtut.losses.rbm_learning import (
    RBM_METHODS,
    LearnedRBM,
    draw_rbm,
    learn_rbm,
    random_rbm,
)
from ebmtut.losses.recovery_likelihood import (
    Chains,
    RecoveryLikelihood,
    recovery_likelihood_loss,
)
from ebmtut.losses.score_matching import (
    DenoisingScoreMatching,
    denoising_score_matching_loss,
)

__all__ = [
    "RBM_METHODS",
    "VARIABLES",
    "Bernoulli",
    "Chains",
    "DenoisingScoreMatching",
    "DirectedNeighborhood",
    "Grid",
    "LearnedRBM",
    "Negatives",
    "PersistentChains",
    "Perturbation",
    "Pool",
    "RecoveryLikelihood",
    "Samples",
    "bit_moments",
    "contrastive_divergence_loss",
    "coupling_discrepancy_losses",
    "denoising_score_matching_loss",
    "draw_rbm",
    "energy_discrepancy_loss",
    "kolmogorov_residual",
    "kolmogorov_variance_loss",
    "learn_rbm",
    "log_partition_slope",
    "match_moments",
    "persistent_match_moments",
    "pseudo_likelihood_loss",
    "random_rbm",
    "ratio_matching_loss",
    "recovery_likelihood_loss",
    "saturated_gap",
    "stabilized_log_mean_exp",
]
