"""Boltzmann machines, dense and on graphs, against sums written out."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.energies import BoltzmannMachine, Ising, PairwiseGraph
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states
from tests.shared import normal


def by_hand(terms, x):
    """Energies of the rows of x, pair by pair."""
    energies = []
    for row in x.tolist():
        of_pairs = (x.tolist() for x in (terms.first, terms.second, terms.weight))
        pairs = zip(*of_pairs, strict=True)
        score = sum(w * row[i] * row[j] for i, j, w in pairs)
        score += sum(b * v for b, v in zip(terms.bias.tolist(), row, strict=True))
        energies.append(-score)
    return torch.tensor(energies, dtype=torch.float64)


densities, seeds = st.sampled_from([0.0, 0.4, 1.0]), st.integers(0, 10**6)


def random_graph(n, density, seed):
    first, second = torch.triu_indices(n, n, 1)
    there = torch.rand(len(first), generator=make_generator(seed)) < density
    edges = torch.stack([first, second])[:, there]
    return PairwiseGraph(edges, normal(edges.shape[1], seed=seed), normal(n, seed=seed))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), densities, seeds)
def test_graph_and_matrix_are_the_sum_over_pairs(n, density, seed):
    graph = random_graph(n, density, seed)
    x = enumerate_states(n, dtype=torch.float64)
    want = by_hand(graph.pair_terms(), x)
    for model in (graph, graph.dense()):
        torch.testing.assert_close(model(x), want, rtol=0, atol=1e-12)
        found = by_hand(model.pair_terms(), x)
        torch.testing.assert_close(found, want, rtol=0, atol=1e-12)
        flipped = (x[:, None] - torch.eye(n)).abs()
        ratios = model(x)[:, None] - model(flipped.flatten(0, 1)).view(-1, n)
        torch.testing.assert_close(model.flip_log_ratios(x), ratios, rtol=0, atol=1e-12)


def test_the_energy_of_two_bits_by_hand():
    # The diagonal is dropped and the two off-diagonal entries are averaged.
    weight = torch.tensor([[5.0, 1.0], [3.0, 7.0]])
    model = BoltzmannMachine(weight, torch.tensor([0.5, -1.0]))
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert model(x).tolist() == [0.0, -0.5, 1.0, -1.5]


def test_from_ising_differs_by_the_documented_constant():
    coupling, field = normal(5, 5), normal(5, seed=1)
    ising = Ising(coupling, field)
    model = BoltzmannMachine.from_ising(ising)
    x = enumerate_states(5, dtype=torch.float64)
    offset = ising(x) - model(x)
    # At x = 0 all spins are -1, and the machine's energy is 0.
    want = -ising.symmetric_coupling.sum() + field.sum()
    torch.testing.assert_close(offset, want.expand(32), rtol=0, atol=1e-12)


def test_learnable_means_gradients_and_their_values():
    x = enumerate_states(3, dtype=torch.float64)[-2:]  # 110 and 111
    model = BoltzmannMachine(normal(3, 3), normal(3), learnable=True)
    model(x).sum().backward()
    assert model.bias.grad.tolist() == [-2.0, -2.0, -1.0]
    # Each raw entry of a pair carries half the pair's -x_i x_j.
    want = [[0.0, -1.0, -0.5], [-1.0, 0.0, -0.5], [-0.5, -0.5, 0.0]]
    assert model.weight.grad.tolist() == want
    graph = PairwiseGraph(torch.tensor([[2], [0]]), torch.ones(1), torch.zeros(3))
    assert not any(p.requires_grad for p in graph.parameters())


def test_edges_are_stored_low_end_first():
    graph = PairwiseGraph(torch.tensor([[2, 0], [0, 1]]), torch.ones(2), torch.zeros(3))
    assert graph.edges.tolist() == [[0, 0], [2, 1]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
def test_edges_may_be_integers_of_any_width(dtype):
    """Eight bits are no mask, and 11 * 20 + 12 does not overflow them."""
    edges = torch.stack([torch.arange(19), torch.arange(1, 20)])
    weight, bias, x = normal(19), normal(20, seed=1), torch.ones(1, 20).double()
    narrow = PairwiseGraph(edges.to(dtype), weight, bias)
    assert narrow.edges.dtype == torch.int64
    assert torch.equal(narrow(x), PairwiseGraph(edges, weight, bias)(x))


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 12), seeds)
def test_colors_and_lists_of_a_graph(n_sites, seed):
    graph = random_graph(n_sites, 0.4, seed)
    colors, lists, edges = graph.coloring(), graph.neighbor_lists(), graph.edges
    degree = lists.start.diff()
    assert (colors[edges[0]] != colors[edges[1]]).all()
    assert colors.min() == 0 and colors.max() <= degree.max()
    site = torch.repeat_interleave(torch.arange(n_sites), degree)
    matrix = torch.zeros(n_sites, n_sites, dtype=torch.float64)
    matrix[site, lists.neighbor] = lists.weight
    assert torch.equal(matrix, graph.dense().symmetric_weight.detach())


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), densities, seeds)
def test_holding_sites_is_conditioning(n, density, seed):
    """Energies differ from the whole model's, at those values, by a constant."""
    graph = random_graph(n, density, seed)
    choice = torch.randint(3, (n,), generator=make_generator(seed))
    choice[seed % n] = 2
    clamp = torch.tensor([0.0, 1.0, math.nan])[choice]
    free = torch.isnan(clamp)
    part = graph.given(clamp)
    x = enumerate_states(int(free.sum()))
    whole = clamp.double().repeat(len(x), 1)
    whole[:, free] = x
    shift = graph(whole) - part(x)
    torch.testing.assert_close(shift, shift[:1].expand_as(shift))
