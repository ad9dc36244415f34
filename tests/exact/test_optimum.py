"""Proved optima against the best of all states."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.data import random_graphs
from ebmtut.energies import GraphBatch, MaxCut, MaxIndependentSet
from ebmtut.exact import OptimumUnproved, maximum_cuts, maximum_independent_sets
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states

# Triangle, square, star, a vertex alone, two apart, the five-cycle, all of five.
SMALL = GraphBatch.from_edges(
    [
        (3, [(0, 1), (1, 2), (0, 2)]),
        (4, [(0, 1), (1, 2), (2, 3), (0, 3)]),
        (4, [(0, 1), (0, 2), (0, 3)]),
        (1, []),
        (2, []),
        (5, [(i, (i + 1) % 5) for i in range(5)]),
        (5, [(i, j) for i in range(5) for j in range(i)]),
    ]
)


def best_of_all(problem, graphs):
    x = enumerate_states(graphs.n_sites, dtype=torch.float32)
    values = problem(graphs).score(x.repeat(len(graphs), 1))
    return values.view(len(graphs), -1).max(1).values


@pytest.mark.parametrize("solver", ["cp-sat", "highs"])
def test_independent_sets_by_hand(solver):
    optima = maximum_independent_sets(SMALL, solver=solver)
    assert optima.value.tolist() == [1, 2, 3, 1, 2, 2, 1]


def test_cuts_by_hand():
    assert maximum_cuts(SMALL).value.tolist() == [2, 4, 3, 0, 0, 4, 6]


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    family=st.sampled_from(["erdos-renyi", "barabasi-albert"]),
)
def test_nothing_is_better(seed, family):
    graphs = random_graphs(family, 3, 6, 11, generator=make_generator(seed))
    cuts = maximum_cuts(graphs)
    assert torch.equal(cuts.value, best_of_all(MaxCut, graphs))
    assert torch.equal(MaxCut(graphs).score(cuts.x), cuts.value)
    for solver in ("cp-sat", "highs"):
        sets = maximum_independent_sets(graphs, solver=solver)
        # The penalty is above 1, so that no set with an edge inside scores more.
        assert torch.equal(sets.value, best_of_all(MaxIndependentSet, graphs))
        assert torch.equal(MaxIndependentSet(graphs).score(sets.x), sets.value)


def test_dense_graphs_need_branching_and_get_it():
    """The complete graph of nine: the odd cycles alone would allow 24 edges."""
    edges = [(i, j) for i in range(9) for j in range(i)]
    assert maximum_cuts(GraphBatch.from_edges([(9, edges)])).value.tolist() == [20]


def test_time_runs_out():
    graphs = random_graphs("barabasi-albert", 1, 60, 60, generator=make_generator(0))
    with pytest.raises(OptimumUnproved, match="graph 0 was not proved within 1e-06 s"):
        maximum_cuts(graphs, time_limit=1e-6)
