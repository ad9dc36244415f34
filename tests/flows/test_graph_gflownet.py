"""The GFlowNet of independent sets against enumerated distributions."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.data import random_graphs
from ebmtut.energies import GraphBatch
from ebmtut.flows.graph_gflownet import (
    SetPolicy,
    balance_variance,
    free_vertices,
    set_ways,
)
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states, states_to_index

BETA = 1.5
# Answers of two sizes: {0, 2, 4}, {0, 3}, {1, 3}, {1, 4}.
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4)]
CHAIN = GraphBatch.from_edges([(5, EDGES)], dtype=torch.float64)
X = enumerate_states(5).double()


@torch.no_grad()
def answer_probabilities(policy, graph):
    """Exact probabilities of the answers of one graph, by summing over all paths."""
    n = graph.n_sites
    x = enumerate_states(n, dtype=graph.adjacency.dtype)
    independent = (x * graph.neighbor_sums(x)).sum(1) == 0
    chance = policy(graph, x).exp() * independent[:, None]
    place = 2 ** torch.arange(n - 1, -1, -1)
    passed = torch.zeros(len(x), dtype=x.dtype)
    passed[0] = 1
    for size in range(n):
        row, move = ((x.sum(1) == size)[:, None] & (chance > 0)).nonzero(as_tuple=True)
        mass = passed[row] * chance[row, move]
        passed = passed.index_add(0, row + place[move], mass)
    final = independent & (free_vertices(graph, x).sum(1) == 0)
    return passed * final


def answers():
    """Bits that are independent and that nothing can be added to, by hand."""
    found = []
    for bits in itertools.product([0, 1], repeat=5):
        if any(bits[i] and bits[j] for i, j in EDGES):
            continue
        near = [{j for e in EDGES if i in e for j in e} - {i} for i in range(5)]
        if all(bits[i] or any(bits[j] for j in near[i]) for i in range(5)):
            found.append(bits)
    return torch.tensor(found).double()


def target():
    distribution = torch.zeros(len(X), dtype=torch.float64)
    ends = answers()
    distribution[states_to_index(ends)] = (BETA * ends.sum(1)).exp()
    return distribution / distribution.sum()


def flow(x):
    """What flows through a set if all ways balance: sum of e^{k/T} / C(k, size)."""
    total = 0.0
    for end in answers():
        if bool((end >= x).all()):
            k = int(end.sum())
            total += math.exp(BETA * k) / math.comb(k, int(x.sum()))
    return total


class Solved(torch.nn.Module):
    """The policy that balances, from the flows."""

    def forward(self, graphs, x):
        logits = torch.full_like(x, -torch.inf)
        for row, site in free_vertices(graphs, x).nonzero().tolist():
            y = x[row].clone()
            y[site] = 1
            share = flow(y) / (y.sum() * flow(x[row]))
            logits[row, site] = torch.log(share)
        return logits


def test_flows_match_on_a_solved_graph():
    """What flows into a set flows out of it: the policy sums to one at each."""
    sets = [x for x in X if float((x * CHAIN.neighbor_sums(x[None])).sum()) == 0]
    for x in sets:
        out = Solved()(CHAIN, x[None]).exp().sum()
        free = free_vertices(CHAIN, x[None]).any()
        assert float(out) == pytest.approx(float(free), abs=1e-12)
    assert flow(torch.zeros(5)) == pytest.approx(
        float((BETA * answers().sum(1)).exp().sum())
    )


def test_the_solution_has_no_loss_and_draws_exactly():
    ways = set_ways(Solved(), CHAIN, 40, generator=make_generator(0))
    assert float(balance_variance(CHAIN, ways, BETA)) < 1e-20
    # At another temperature it is no solution.
    assert float(balance_variance(CHAIN, ways, BETA + 1)) > 0.01
    torch.testing.assert_close(answer_probabilities(Solved(), CHAIN), target())


def test_the_distribution_is_that_of_the_draws():
    policy, n = SetPolicy(width=8, generator=make_generator(3)).double(), 20_000
    distribution = answer_probabilities(policy, CHAIN)
    assert abs(float(distribution.sum()) - 1) < 1e-12
    with torch.no_grad():
        ways = set_ways(policy, CHAIN, n, generator=make_generator(0))
    seen = torch.bincount(states_to_index(ways.x), minlength=len(X)) / n
    assert (
        (seen - distribution).abs()
        <= 5 * (distribution * (1 - distribution) / n).sqrt()
    ).all()


def test_importance_weights_of_ways_count_the_answers():
    """E[P_B e^{k/T} / P_F] = sum of e^{k/T} over the answers, for any policy."""
    policy, n = SetPolicy(width=8, generator=make_generator(5)).double(), 20_000
    with torch.no_grad():
        ways = set_ways(policy, CHAIN, n, generator=make_generator(0))
    weight = (ways.log_backward - ways.log_forward + BETA * ways.x.sum(1)).exp()
    want = (BETA * answers().sum(1)).exp().sum()
    assert abs(weight.mean() - want) < 5 * weight.std() / n**0.5


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_every_answer_is_feasible_and_full(seed):
    """Whatever the weights, the graph, and how it explores."""
    generator = make_generator(seed)
    graphs = random_graphs("erdos-renyi", 3, 1, 12, generator=generator)
    policy = SetPolicy(width=4, generator=generator)
    with torch.no_grad():
        x = set_ways(policy, graphs, 3, generator=generator, explore=0.3).x
    assert not (x * graphs.neighbor_sums(x)).any()
    assert not free_vertices(graphs, x).any()
    outside = 1 - graphs.of_rows(graphs.is_vertex.to(x), len(x))
    assert not (x * outside).any()


def test_graphs_do_not_hear_of_each_other():
    graphs = random_graphs(
        "erdos-renyi", 3, 4, 8, generator=make_generator(4), dtype=torch.float64
    )
    policy = SetPolicy(width=8).double()
    x = torch.zeros(3, graphs.n_sites, dtype=torch.float64)
    x[:, 1] = 1
    together = policy(graphs, x)
    for number in range(3):
        alone = graphs.select(torch.tensor([number]))
        n = alone.n_sites
        want = policy(alone, x[[number], :n])
        torch.testing.assert_close(together[[number], :n], want, rtol=0, atol=1e-13)
        assert (together[number, n:] == -torch.inf).all()
