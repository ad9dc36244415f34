"""Stopping criteria and annealing schedules."""

import math

import pytest
import torch

from ebmtut import transport
from ebmtut.random import make_generator
from ebmtut.schedules import geometric


def test_papers_criterion():
    """0.01 tau T V = 0.01 * 5 * 2 * 10 = 1 here."""
    V = torch.tensor([9.0, 9.5, 9.6, 9.7, 9.8, 10.0])
    assert not transport.has_mixed(V, 2.0)
    V[0] = 9.01
    assert transport.has_mixed(V, 2.0)
    assert not transport.has_mixed(V[1:], 2.0)
    assert not transport.has_mixed(V, 2.0, tau=6)


def test_settling_compares_the_best_before_and_after():
    rising = torch.linspace(0, 1, 30, dtype=torch.float64)
    assert not transport.has_settled(rising)
    assert not transport.has_settled(rising[:10])
    flat = torch.cat([rising, torch.ones(10, dtype=torch.float64)])
    assert transport.has_settled(flat)
    noisy = flat.clone()
    noisy[-5] = 0.2  # a bad value does not unsettle, a better one does
    assert transport.has_settled(noisy)
    noisy[-5] = 1.01
    assert not transport.has_settled(noisy)
    assert transport.has_settled(noisy, tolerance=0.02)


@pytest.mark.parametrize("temperature", [None, 1e-4])
def test_relative_gap_is_a_certificate(problem, temperature):
    for seed in range(5):
        p, q, cost = problem(8, 7, zeros=0.2, seed=seed)
        exact = transport.exact_ot(p, q, cost)
        end = transport.gibbs_ot(
            p, q, cost, [0.01] * 40, generator=make_generator(seed)
        )
        gap = transport.relative_gap(p, q, cost, end.U, end.L, temperature=temperature)
        trace = transport.gibbs_ot(
            p, q, cost, [0.01] * 40, trace_every=20, generator=make_generator(seed)
        ).trace
        assert 1 - float(trace.dual[-1]) / exact.value <= gap / (1 - gap) + 1e-12
        assert gap > 0


def test_relative_gap_where_rounding_uses_a_forbidden_pair():
    p = torch.tensor([0.5, 0.5], dtype=torch.float64)
    cost = torch.tensor([[torch.inf, 1.0], [1.0, torch.inf]], dtype=torch.float64)
    zero = torch.zeros(2, dtype=torch.float64)
    assert transport.relative_gap(p, p, cost, zero, zero) == pytest.approx(0, abs=1e-12)
    skewed = torch.tensor([0.4, 0.6], dtype=torch.float64)
    assert transport.relative_gap(skewed, p, cost, zero, zero) == float("inf")


@pytest.mark.parametrize(("unit", "gap"), [(0.0, 0.0), (-1.0, None), (1.0, None)])
def test_relative_gap_of_any_cost(problem, unit, gap):
    """Nothing to carry leaves no gap; a cost below zero leaves a positive one."""
    p, q, cost = problem(5, 4)
    end = transport.gibbs_ot(p, q, unit * cost, [0.1] * 8, generator=make_generator(0))
    found = transport.relative_gap(p, q, unit * cost, end.U, end.L)
    value = transport.exact_ot(p, q, unit * cost).value
    lacks = abs(value - float(transport.dual_value(p, q, unit * cost, g=end.U)))
    if gap is None:
        assert 0 < found < math.inf
        assert found * (1 + found) * abs(value) >= lacks
    else:
        # Where all is free, c-transforms make any potential constant.
        assert found == gap


def test_schedules():
    assert transport.constant_temperatures(0.3, 2).tolist() == [0.3] * 4
    T = transport.annealed_temperatures(50, 128)
    assert T.shape == (100,)
    for n in (1, 20, 50):
        expected = 2.0 * (1 / 50**4) ** (n / 50) / 128
        assert T[2 * n - 2] == T[2 * n - 1]
        assert float(T[2 * n - 1]) == pytest.approx(expected, rel=1e-12)
    assert transport.temperatures_of(
        geometric(1.0, 0.25, 3), 3
    ).tolist() == pytest.approx([1, 1, 0.5, 0.5, 0.25, 0.25])
