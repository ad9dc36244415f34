"""Whether the pairs of a model are swept as a matrix or as the edges of a graph."""

from __future__ import annotations

from ebmtut.energies import RBM, BoltzmannMachine, PairTerms, PairwiseGraph

# With fewer non-zero pairs than this part, a matrix is swept as a graph.
_SPARSE = 0.25


def edges_to_sweep(
    model: BoltzmannMachine | PairwiseGraph | RBM, terms: PairTerms, *, keep_all: bool
) -> PairTerms | None:
    """Pairs to sweep one by one as a graph's edges; None if better as a matrix.

    ``keep_all``: messages of weight zero are asked for, too.
    """
    if isinstance(model, PairwiseGraph):
        return terms
    few = _SPARSE * len(terms.weight)
    if (
        isinstance(model, BoltzmannMachine)
        and not keep_all
        and int(terms.weight.count_nonzero()) < few
    ):
        some = terms.weight != 0
        ends = terms.first[some], terms.second[some]
        return PairTerms(lambda: ends, terms.weight[some], terms.bias)
    return None
