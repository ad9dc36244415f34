"""Feasible duals and recovered couplings."""

import pytest
import torch

from ebmtut import transport
from ebmtut.random import make_generator
from ebmtut.schedules import geometric


def any_potential(m, seed=5):
    return torch.randn(m, dtype=torch.float64, generator=make_generator(seed))


def test_c_transforms_are_equations_6_and_7(problem):
    _, _, cost = problem(3, 4)
    g, h = any_potential(3), any_potential(4)
    from_h, from_g = transport.c_transform(cost, h=h), transport.c_transform(cost, g=g)
    for i in range(3):
        assert from_h[i] == min(cost[i, j] + h[j] for j in range(4))
    for j in range(4):
        assert from_g[j] == max(g[i] - cost[i, j] for i in range(3))
    # Three transforms are one.
    again = transport.c_transform(cost, g=transport.c_transform(cost, h=from_g))
    torch.testing.assert_close(again, from_g, rtol=0, atol=1e-15)


@pytest.mark.parametrize("side", ["g", "h"])
@pytest.mark.parametrize(("zeros", "forbidden"), [(0, 0), (0.4, 0), (0.4, 0.2)])
def test_any_potential_gives_a_feasible_lower_bound(problem, side, zeros, forbidden):
    p, q, cost = problem(8, 9, zeros=zeros, forbidden=forbidden)
    given = any_potential(8 if side == "g" else 9)
    duals = transport.feasible_duals(p, q, cost, **{side: given})
    slack = cost - duals.g[:, None] + duals.h
    scale = 1 + duals.g.abs().max() + duals.h.abs().max()
    assert float(slack.min()) >= -4 * torch.finfo(torch.float64).eps * scale
    assert duals.value == transport.chain_value(p, q, duals.g, duals.h)
    assert float(duals.value) <= transport.exact_ot(p, q, cost).value + 1e-13
    # The transforms of a feasible pair can only gain.
    transformed = transport.feasible_duals(p, q, cost, g=duals.g).value
    assert float(transformed) >= float(duals.value) - 1e-14


def test_optimal_potentials_are_kept(problem):
    p, q, cost = problem(8, 9, zeros=0.3)
    exact = transport.exact_ot(p, q, cost)
    for given in ({"g": exact.g}, {"h": exact.h}):
        value = float(transport.dual_value(p, q, cost, **given))
        assert value == pytest.approx(exact.value, rel=1e-12)


def test_batches_of_duals_are_loops(problem):
    p, q, cost = problem(5, 4, batch=(3,), zeros=0.3)
    g = torch.randn(3, 5, dtype=torch.float64, generator=make_generator(0))
    together = transport.feasible_duals(p, q, cost, g=g)
    for b in range(3):
        alone = transport.feasible_duals(p[b], q[b], cost, g=g[b])
        for x, y in zip(together, alone, strict=True):
            assert torch.equal(x[b], y)


def test_infinite_statistics_without_mass_are_worth_nothing():
    p = torch.tensor([1.0, 0.0])
    U, L = torch.tensor([2.0, torch.inf]), torch.tensor([0.5, -torch.inf])
    assert transport.chain_value(p, p, U, L) == 1.5


def test_sparse_plan_is_equation_22(problem):
    p, q, cost = problem(4, 3)
    U, L = any_potential(4), any_potential(3)
    plan = transport.transport_plan(p, q, cost, U, L)
    expected = torch.zeros(4, 3, dtype=torch.float64)
    for i in range(4):
        expected[i, int((cost[i] + L).argmin())] += p[i] / 2
    for j in range(3):
        expected[int((U - cost[:, j]).argmax()), j] += q[j] / 2
    torch.testing.assert_close(plan.coupling, expected)
    error = (expected.sum(1) - p).abs().sum() + (expected.sum(0) - q).abs().sum()
    assert plan.marginal_error == pytest.approx(float(error))


def line_problem():
    """Squared distances on a line, whose optimal coupling is unique."""
    x = torch.arange(8, dtype=torch.float64) / 8
    p = torch.softmax(2 * torch.sin(9 * x), 0)
    q = torch.softmax(2 * torch.cos(7 * x), 0)
    return p, q, transport.cost_matrix(x, x)


def test_sparse_plan_has_the_right_entries_but_not_the_right_marginals():
    """However cold: mass that has to be split is not."""
    p, q, cost = line_problem()
    schedule = transport.temperatures_of(geometric(1.0, 1e-6, 6000), 6000)
    end = transport.gibbs_ot(p, q, cost, schedule, generator=make_generator(0))
    exact = transport.exact_ot(p, q, cost)
    plan = transport.transport_plan(p, q, cost, end.U, end.L)
    assert not bool(plan.coupling[exact.plan == 0].any())
    assert plan.marginal_error > 0.1
    permutation = torch.full((8,), 1 / 8, dtype=torch.float64)
    x, both = torch.arange(8.0), (permutation, permutation)
    cost = transport.cost_matrix(x, x, "coulomb").double()
    schedule = transport.annealed_temperatures(5000, 8)
    end = transport.gibbs_ot(*both, cost, schedule, generator=make_generator(0))
    plan = transport.transport_plan(permutation, permutation, cost, end.U, end.L)
    assert plan.marginal_error < 1e-12


def weighed_plans(p, q, cost, end, temperature):
    return torch.stack(
        [
            transport.transport_plan(p, q, cost, U, L, temperature=temperature).coupling
            for U, L in zip(end.U, end.L, strict=True)
        ]
    )


def test_weighed_plan_is_a_coupling_at_equilibrium(problem):
    """On average over the chain the marginals are p and q, hot as it is."""
    p, q, cost = problem(5, 4)
    n, temperature = 2000, 0.1
    schedule = transport.constant_temperatures(temperature, 60)
    batch = p.expand(n, -1), q.expand(n, -1)
    end = transport.gibbs_ot(*batch, cost, schedule, generator=make_generator(0))
    plans = weighed_plans(p, q, cost, end, temperature)
    for axis, mass in ((2, p), (1, q)):
        marginal = plans.sum(axis)
        error = (marginal.mean(0) - mass).abs()
        assert bool((error < 5 * marginal.std(0) / n**0.5).all())
    # It is a coupling, not the optimal one.
    assert (
        float((plans.mean(0) * cost).sum())
        > 1.02 * transport.exact_ot(p, q, cost).value
    )


def test_weighed_plan_turns_into_the_sparse_one(problem):
    p, q, cost = problem(6, 5, zeros=0.3, forbidden=0.1)
    U, L = any_potential(6), any_potential(5)
    sparse = transport.transport_plan(p, q, cost, U, L).coupling
    cold = transport.transport_plan(p, q, cost, U, L, temperature=1e-7).coupling
    torch.testing.assert_close(cold, sparse, rtol=0, atol=1e-6)
    hot = transport.transport_plan(p, q, cost, U, L, temperature=0.3).coupling
    assert float(hot.sum()) == pytest.approx(1, rel=1e-12)
    assert float((hot - sparse).abs().sum()) > 0.1


@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_rounding_gives_exact_marginals(problem, zeros):
    p, q, _ = problem(6, 5, zeros=zeros)
    rough = torch.rand(6, 5, dtype=torch.float64, generator=make_generator(1))
    plan = transport.feasible_plan(rough / rough.sum(), p, q)
    assert bool((plan >= 0).all())
    assert transport.marginal_error(plan, p, q) < 1e-14
    right = p[:, None] * q
    torch.testing.assert_close(transport.feasible_plan(right, p, q), right)
