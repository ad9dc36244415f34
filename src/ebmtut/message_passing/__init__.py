"""Max-product message passing, and what is perturbed and sampled by it."""

from ebmtut.message_passing.max_product import (
    STARTS,
    MaxProductResult,
    PairwiseModel,
    max_product,
    max_product_reference,
)
from ebmtut.message_passing.perturb_and_max_product import (
    clamp_unaries,
    perturb_and_max_product,
)

__all__ = [
    "STARTS",
    "MaxProductResult",
    "PairwiseModel",
    "clamp_unaries",
    "max_product",
    "max_product_reference",
    "perturb_and_max_product",
]
