"""Graph problems against sums over edges written out, whatever the padding."""

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.data import random_graphs
from ebmtut.energies import GraphBatch, MaxCut, MaxIndependentSet
from ebmtut.exact import exact_probabilities
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states

PATH = GraphBatch.from_edges([(3, [(0, 1), (1, 2)])], dtype=torch.float64)
every_problem = pytest.mark.parametrize("problem", [MaxIndependentSet, MaxCut])


def edges_of(graphs, number):
    return torch.triu(graphs.adjacency[number]).nonzero().tolist()


def by_hand(problem, graphs, number, x):
    """What is to be made large, for the rows of x, vertex by vertex."""
    n, edges = int(graphs.n_vertices[number]), edges_of(graphs, number)
    scores = []
    for row in x.tolist():
        if problem is MaxCut:
            scores.append(sum(row[i] != row[j] for i, j in edges))
        else:
            clashes = sum(row[i] * row[j] for i, j in edges)
            scores.append(sum(row[:n]) - 1.0001 * clashes)
    return torch.tensor(scores, dtype=torch.float64)


@every_problem
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), beta=st.floats(0, 5))
def test_scores_energies_and_ratios(problem, seed, beta):
    graphs = random_graphs(
        "erdos-renyi", 3, 2, 7, generator=make_generator(seed), dtype=torch.float64
    )
    d = graphs.n_sites
    x = enumerate_states(d)
    rows = x.repeat(len(graphs), 1)
    energy = problem(graphs, inverse_temperature=beta)
    want = torch.cat([by_hand(problem, graphs, g, x) for g in range(len(graphs))])
    torch.testing.assert_close(energy.score(rows), want, rtol=0, atol=1e-12)
    constant = energy.graphs.of_rows(graphs.n_edges, len(rows)) / 2
    shift = constant if problem is MaxCut else 0
    energies = energy(rows)
    torch.testing.assert_close(energies, beta * (shift - want), rtol=0, atol=1e-12)
    ratios = energy.flip_log_ratios(rows)
    for site in range(d):
        flipped = rows.clone()
        flipped[:, site] = 1 - flipped[:, site]
        true = energies - energy(flipped)
        torch.testing.assert_close(ratios[:, site], true, rtol=0, atol=1e-11)
        one = energy.site_log_ratio(rows, site)
        torch.testing.assert_close(one, true, rtol=0, atol=1e-11)


@every_problem
def test_padding_leaves_the_distribution_of_the_vertices(problem):
    adjacency = torch.zeros(1, 5, 5, dtype=torch.float64)
    adjacency[:, :3, :3] = PATH.adjacency
    padded = GraphBatch(adjacency, torch.tensor([3]))
    distribution = exact_probabilities(problem(padded), 5).exp().view(8, 4).sum(1)
    want = exact_probabilities(problem(PATH), 3).exp()
    torch.testing.assert_close(distribution, want, rtol=0, atol=1e-14)


def test_the_printed_ratios_are_not_the_ratios():
    """Eqs. 47 and 50 of the paper, on the path of three; 1 - lambda Ax and s As are."""
    x = enumerate_states(3)
    a = PATH.adjacency[0]
    s = 2 * x - 1
    printed = (1 - 2 * x) * (x - 1.0001 * x @ a / 2)
    assert not torch.allclose(printed, MaxIndependentSet(PATH).flip_log_ratios(x))
    assert not torch.allclose(-s @ a / 2, MaxCut(PATH).flip_log_ratios(x))
    right = (1 - 2 * x) * (1 - 1.0001 * x @ a)
    torch.testing.assert_close(MaxIndependentSet(PATH).flip_log_ratios(x), right)
    torch.testing.assert_close(MaxCut(PATH).flip_log_ratios(x), s * (s @ a))


def test_a_graph_of_networkx_keeps_the_order_of_its_vertices():
    """A path d-b-a and a lonely c: cuts and independent sets over all 16 choices."""
    graph = nx.Graph()
    graph.add_nodes_from("abcd")
    graph.add_edge("d", "b")
    graph.add_edge("a", "b", weight=7)  # is not read
    graphs = GraphBatch.from_networkx(graph, dtype=torch.float64)
    assert graphs.n_vertices.tolist() == [4]
    assert edges_of(graphs, 0) == [[0, 1], [1, 3]]
    x = enumerate_states(4)
    a, b, c, d = x.T
    cut = (d - b).abs() + (a - b).abs()
    torch.testing.assert_close(MaxCut(graphs).score(x), cut)
    chosen = a + b + c + d - 1.0001 * (d * b + a * b)
    torch.testing.assert_close(MaxIndependentSet(graphs).score(x), chosen)
    assert float(cut.max()) == 2
    assert x[chosen.argmax()].tolist() == [1, 0, 1, 1]


def test_graphs_of_networkx_are_padded_as_lists_of_edges_are():
    both = GraphBatch.from_networkx([nx.path_graph(3), nx.complete_graph(4)])
    complete = [(i, j) for j in range(4) for i in range(j)]
    want = GraphBatch.from_edges([(3, [(0, 1), (1, 2)]), (4, complete)])
    assert torch.equal(both.adjacency, want.adjacency)
    assert torch.equal(both.n_vertices, want.n_vertices)
    assert both.adjacency.dtype == torch.float32
