"""What the bounds and relaxations read of a pairwise model: its true pairs."""

from ebmtut.checks import InputError
from ebmtut.energies import PairTerms
from ebmtut.message_passing.max_product import PairwiseModel

__all__ = ["nonzero_pairs"]


def nonzero_pairs(model: PairwiseModel) -> PairTerms:
    """Pairs whose weight is not zero, on the CPU, in double precision."""
    if not isinstance(model, PairwiseModel):
        raise InputError(
            "model must be a BoltzmannMachine, an RBM or a PairwiseGraph, "
            f"got {type(model).__name__}"
        )
    terms = model.pair_terms()
    kept = terms.weight != 0
    return PairTerms(
        terms.first[kept].cpu(),
        terms.second[kept].cpu(),
        terms.weight[kept].double().cpu(),
        terms.bias.double().cpu(),
    )
