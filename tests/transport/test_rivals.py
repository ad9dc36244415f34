"""Exact transport, entropic regularisation and Bregman ADMM."""

import builtins

import pytest
import torch
from scipy.optimize import linprog

from ebmtut.transport import (
    bregman_admm,
    chain_value,
    exact_ot,
    marginal_error,
    sinkhorn,
)


def linear_program(p, q, cost):
    """The transport cost by scipy's simplex-free solver."""
    m1, m2 = cost.shape
    rows = torch.kron(torch.eye(m1), torch.ones(1, m2))
    columns = torch.kron(torch.ones(1, m1), torch.eye(m2))
    allowed = torch.isfinite(cost).flatten()
    constraints = torch.cat([rows, columns])[:, allowed]
    solved = linprog(
        cost.flatten()[allowed].numpy(),
        A_eq=constraints.numpy(),
        b_eq=torch.cat([p, q]).numpy(),
    )
    return solved.fun


@pytest.mark.parametrize(("zeros", "forbidden"), [(0, 0), (0.3, 0), (0.3, 0.3)])
def test_exact_value_plan_and_potentials(problem, zeros, forbidden):
    p, q, cost = problem(7, 6, zeros=zeros, forbidden=forbidden)
    exact = exact_ot(p, q, cost)
    assert exact.value == pytest.approx(linear_program(p, q, cost), abs=1e-9)
    assert marginal_error(exact.plan, p, q) < 1e-12
    used = exact.plan > 0
    assert float((exact.plan * cost)[used].sum()) == pytest.approx(exact.value)
    assert float((cost - exact.g[:, None] + exact.h).min()) > -1e-12
    dual = chain_value(p, q, exact.g, exact.h)
    assert float(dual) == pytest.approx(exact.value, abs=1e-12)


def test_exact_ot_says_where_no_plan_exists():
    p, q = torch.tensor([[0.6, 0.4], [0.3, 0.7]], dtype=torch.float64)
    cost = torch.tensor([[1.0, torch.inf], [1.0, 1.0]], dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"0\.3 of the mass must go"):
        exact_ot(p, q, cost)


def test_without_pot_the_extra_is_named(problem, monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "ot":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    p, q, cost = problem(3, 3)
    with pytest.raises(ImportError, match=r"ebmtut\[transport\]"):
        exact_ot(p, q, cost)
    with pytest.raises(ImportError, match=r"ebmtut\[transport\]"):
        sinkhorn(p, q, cost, 0.1, 10)


@pytest.mark.parametrize("log_domain", [False, True])
def test_sinkhorn_is_diagonal_scaling_of_the_kernel(problem, log_domain):
    """Which, with the right marginals, characterises the entropic optimum."""
    p, q, cost = problem(6, 5, forbidden=0.1)
    plan = sinkhorn(p, q, cost, 0.1, 2000, log_domain=log_domain)
    assert marginal_error(plan, p, q) < 1e-9
    ratio = (plan.log() + cost / 0.1)[1:, 1:] - (plan.log() + cost / 0.1)[1:, :1]
    first = (plan.log() + cost / 0.1)[0, 1:] - (plan.log() + cost / 0.1)[0, 0]
    both = torch.isfinite(ratio)
    torch.testing.assert_close(ratio[both], first.expand_as(ratio)[both])
    assert bool((plan[torch.isinf(cost)] == 0).all())


@pytest.mark.parametrize("log_domain", [False, True])
def test_sinkhorn_leaves_places_without_mass_empty(problem, log_domain):
    """And couples the others as if these were not there."""
    p, q, cost = problem(6, 5)
    p[1], q[0], q[3] = 0, 0, 0
    p, q = p / p.sum(), q / q.sum()
    plan = sinkhorn(p, q, cost, 0.1, 2000, log_domain=log_domain)
    assert marginal_error(plan, p, q) < 1e-9
    some = sinkhorn(p[p > 0], q[q > 0], cost[p > 0][:, q > 0], 0.1, 2000)
    torch.testing.assert_close(plan[p > 0][:, q > 0], some)
    assert not plan[p == 0].any() and not plan[:, q == 0].any()


def test_sinkhorn_does_all_its_iterations(problem):
    p, q, cost = problem(6, 5)
    few, more = (sinkhorn(p, q, cost, 0.02, n) for n in (3, 30))
    assert marginal_error(few, p, q) > 10 * marginal_error(more, p, q)


@pytest.mark.parametrize(("zeros", "forbidden"), [(0, 0), (0.3, 0), (0.0, 0.2)])
def test_bregman_admm_converges(problem, zeros, forbidden):
    p, q, cost = problem(6, 5, zeros=zeros, forbidden=forbidden)
    exact = exact_ot(p, q, cost).value
    few, many = (bregman_admm(p, q, cost, n) for n in (10, 5000))
    torch.testing.assert_close(few.sum(0), q)
    assert marginal_error(few, p, q) > 1e-3 > 1e3 * marginal_error(many, p, q)
    value = float((many * cost)[many > 0].sum())
    assert value == pytest.approx(exact, rel=1e-3)
    assert bool((many[torch.isinf(cost)] == 0).all())


def test_bregman_admm_steps(problem):
    """The three lines of the algorithm, written with X and Z themselves."""
    p, q, cost = problem(4, 3)
    rho = 2.0 * float(cost.mean())
    x, y, z = None, torch.zeros_like(cost), p[:, None] * q
    for _ in range(5):
        x = z * torch.exp(-(cost + y) / rho)
        x = x * (p / x.sum(1))[:, None]
        z = x * torch.exp(y / rho)
        z = z * (q / z.sum(0))
        y = y + rho * (x - z)
    torch.testing.assert_close(bregman_admm(p, q, cost, 5), z, rtol=1e-10, atol=0)


@pytest.mark.parametrize("unit", [0.0, -1.0])
def test_bregman_admm_takes_any_costs(problem, unit):
    p, q, cost = problem(4, 3)
    plan = bregman_admm(p, q, unit * cost, 5000)
    value = float((plan * unit * cost).sum())
    assert value == pytest.approx(exact_ot(p, q, unit * cost).value, abs=1e-3)
    torch.testing.assert_close(plan.sum(0), q)
