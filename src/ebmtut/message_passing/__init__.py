"""Max-product message passing, and what is perturbed and sampled by it."""

from ebmtut.message_passing.binary_convolution import (
    EVIDENCE,
    Deconvolution,
    binary_convolution,
)
from ebmtut.message_passing.coordinate_descent import perturb_and_coordinate_descent
from ebmtut.message_passing.deconvolution import deconvolve, deconvolve_reference
from ebmtut.message_passing.deconvolution_samples import sample_deconvolution
from ebmtut.message_passing.factors import (
    and_to_child,
    and_to_parents,
    or_to_child,
    or_to_parents,
)
from ebmtut.message_passing.linear_programs import Relaxation, perturb_and_map_lp, relax
from ebmtut.message_passing.log_partition import (
    LogPartitionBound,
    exact_perturb_and_map,
    log_partition_bound,
)
from ebmtut.message_passing.max_product import (
    STARTS,
    MaxProductResult,
    PairwiseModel,
    max_product,
    max_product_reference,
)
from ebmtut.message_passing.mplp import MPLP, mplp, mplp_reference
from ebmtut.message_passing.persistent import (
    PersistentState,
    persistent_perturb_and_max_product,
    start_persistent,
)
from ebmtut.message_passing.perturb_and_max_product import (
    clamp_unaries,
    perturb_and_max_product,
)

__all__ = [
    "EVIDENCE",
    "MPLP",
    "STARTS",
    "Deconvolution",
    "LogPartitionBound",
    "MaxProductResult",
    "PairwiseModel",
    "PersistentState",
    "Relaxation",
    "and_to_child",
    "and_to_parents",
    "binary_convolution",
    "clamp_unaries",
    "deconvolve",
    "deconvolve_reference",
    "exact_perturb_and_map",
    "log_partition_bound",
    "max_product",
    "max_product_reference",
    "mplp",
    "mplp_reference",
    "or_to_child",
    "or_to_parents",
    "persistent_perturb_and_max_product",
    "perturb_and_coordinate_descent",
    "perturb_and_map_lp",
    "perturb_and_max_product",
    "relax",
    "sample_deconvolution",
    "start_persistent",
]
