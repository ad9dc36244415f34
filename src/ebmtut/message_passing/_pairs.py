"""What message passing reads of a pairwise model: its pairs, if it has any."""

from __future__ import annotations

from ebmtut.checks import check_type
from ebmtut.energies import RBM, BoltzmannMachine, PairTerms, PairwiseGraph
from ebmtut.tensor_checks import check_finite

#: Models that messages can be passed on.
PairwiseModel = BoltzmannMachine | PairwiseGraph | RBM


def pairs_of(model: PairwiseModel) -> PairTerms:
    """All pairs; InputError if the model has none, or if it is not finite."""
    check_type("model", model, BoltzmannMachine, PairwiseGraph, RBM)
    terms = model.pair_terms()
    check_finite("weight", terms.weight)
    check_finite("bias", terms.bias)
    return terms


def nonzero_pairs(model: PairwiseModel) -> PairTerms:
    """Pairs whose weight is not zero, on the CPU, in double precision."""
    terms = pairs_of(model)
    kept = terms.weight != 0
    ends = terms.first[kept].cpu(), terms.second[kept].cpu()
    return PairTerms(
        lambda: ends, terms.weight[kept].double().cpu(), terms.bias.double().cpu()
    )
