"""Annealing and greed on graphs: distributions that stay, sets that are independent."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.data import random_graphs
from ebmtut.energies import GraphBatch, MaxCut, MaxIndependentSet
from ebmtut.exact import exact_probabilities
from ebmtut.random import make_generator
from ebmtut.samplers import (
    anneal,
    dmala,
    greedy_independent_set,
    repair_independent_set,
    run_chain,
    vertex_gibbs,
)
from ebmtut.states import states_to_index

SQUARE = GraphBatch.from_edges([(4, [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)])])


def graphs_of(seed):
    return random_graphs("erdos-renyi", 4, 3, 12, generator=make_generator(seed))


def n_clashes(graphs, x):
    return (x * graphs.neighbor_sums(x)).sum(1)


def bits(graphs, n_copies, seed):
    shape = len(graphs) * n_copies, graphs.n_sites
    return torch.randint(2, shape, generator=make_generator(seed)).float()


@pytest.mark.parametrize("problem", [MaxIndependentSet, MaxCut])
def test_sweeps_draw_from_the_exact_distribution(problem):
    energy = problem(SQUARE, inverse_temperature=0.7)
    n = 20_000
    x = bits(SQUARE, n, 0)
    x = run_chain(vertex_gibbs(energy), x, 15, generator=make_generator(1)).x_final
    distribution = exact_probabilities(energy, 4, dtype=torch.float32).exp().double()
    seen = torch.bincount(states_to_index(x), minlength=16) / n
    # Fifteen sweeps of four sites forget their start: what is left is sampling error.
    assert (
        (seen - distribution).abs() < 5 * (distribution * (1 - distribution) / n).sqrt()
    ).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), complete=st.booleans())
def test_repaired_sets_are_independent(seed, complete):
    graphs = graphs_of(seed)
    x = bits(graphs, 5, seed)
    y = repair_independent_set(graphs, x, complete=complete)
    inside = graphs.of_rows(graphs.is_vertex.float(), len(x))
    assert not n_clashes(graphs, y).any()
    assert torch.equal(y, y * inside)
    assert torch.equal(repair_independent_set(graphs, y, complete=complete), y)
    if complete:
        free = inside * (1 - y) * (graphs.neighbor_sums(y) == 0)
        assert not free.any()
    else:
        assert (y <= x).all()


def test_repair_by_hand():
    """The first vertex drops the others; completed, vertices 1 and 3 would clash."""
    ones = torch.ones(1, 4)
    assert repair_independent_set(SQUARE, ones).tolist() == [[1, 0, 0, 0]]
    zeros = torch.zeros(1, 4)
    assert repair_independent_set(SQUARE, zeros).tolist() == [[0, 0, 0, 0]]
    full = repair_independent_set(SQUARE, zeros, complete=True)
    assert full.tolist() == [[1, 0, 0, 0]]
    side = torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    assert repair_independent_set(SQUARE, side, complete=True).tolist() == [
        [0, 1, 0, 1]
    ]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_greedy_sets_are_maximal(seed):
    graphs = graphs_of(seed)
    y = greedy_independent_set(graphs, 3, generator=make_generator(seed))
    assert not n_clashes(graphs, y).any()
    assert torch.equal(repair_independent_set(graphs, y, complete=True), y)


def test_greedy_orders_are_uniform():
    """On a path of three the middle comes first in a third of all orders."""
    path = GraphBatch.from_edges([(3, [(0, 1), (1, 2)])])
    n = 9000
    middle = greedy_independent_set(path, n, generator=make_generator(0))[:, 1].mean()
    assert abs(float(middle) - 1 / 3) < 5 * (2 / 9 / n) ** 0.5


def test_annealing_freezes_at_an_optimum():
    """The square with a diagonal: at zero temperature only {1, 3} is left."""
    energy = MaxIndependentSet(SQUARE)
    betas = [0.25 * k for k in range(1, 41)]
    for kernel in (
        lambda beta: dmala(energy.at(beta), 1.0, "exact"),
        lambda beta: vertex_gibbs(energy.at(beta)),
    ):
        x = anneal(kernel, bits(SQUARE, 200, 0), betas, generator=make_generator(0))
        found = energy.score(x)
        # Greed in random order finds it from two of the four first vertices: 1.5.
        standard_error = 0.5 / len(x) ** 0.5
        assert found.max() == 2
        assert found.mean() > 1.5 + 5 * standard_error


@pytest.mark.parametrize("kind", [MaxCut, MaxIndependentSet])
def test_annealed_dmala_evaluates_once_more_than_it_steps(kind, monkeypatch):
    """And its steps are those that the energy at each temperature would have."""
    energy, x, betas = kind(SQUARE), bits(SQUARE, 200, 0), [0.5, 1.0, 2.0, 4.0]
    step_size = 0.6, "exact"
    anew = anneal(
        lambda beta: dmala(energy.at(beta), *step_size),
        x,
        betas,
        generator=make_generator(0),
    )
    calls, plain = [], kind.flip_log_ratios
    monkeypatch.setattr(
        kind, "flip_log_ratios", lambda *args: calls.append(1) or plain(*args)
    )
    rng = make_generator(0)
    state = dmala(energy, *step_size).init(x)
    for beta in betas:
        state, _ = dmala(energy, *step_size, beta).step(state, generator=rng)
    assert len(calls) == len(betas) + 1
    assert torch.equal(state.x, anew)
