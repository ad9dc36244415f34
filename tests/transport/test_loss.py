"""The bridge to autograd, against exact duals and finite differences."""

import pytest
import torch

from ebmtut import transport
from ebmtut.checks import InputError
from ebmtut.random import make_generator


def annealing(last, n):
    return transport.temperatures_of(lambda k: last ** (k / (n - 1)), n)


def centered(x):
    return x - x.mean(-1, keepdim=True)


def test_exact_gradients_are_those_of_the_transport_cost(problem):
    """Along directions that keep the mass, by central differences."""
    p, q, cost = problem(6, 5)
    leaves = [x.clone().requires_grad_() for x in (p, q)]
    loss = transport.wasserstein_loss(*leaves, cost, oracle=transport.exact_oracle())
    loss.backward()
    assert loss.item() == pytest.approx(transport.exact_ot(p, q, cost).value, rel=1e-12)
    for k, leaf in enumerate(leaves):
        assert abs(float(leaf.grad.sum())) < 1e-14
        generator = make_generator(k)
        for _ in range(5):
            step = torch.randn(len(leaf), dtype=torch.float64, generator=generator)
            step = 1e-6 * centered(step)
            masses = [p, q]
            values = []
            for sign in (1, -1):
                masses[k] = (p, q)[k] + sign * step
                values.append(transport.exact_ot(*masses, cost).value)
            difference = (values[0] - values[1]) / 2
            slope = float(leaf.grad @ step)
            assert difference == pytest.approx(slope, rel=1e-6, abs=1e-13)


def test_warm_sinkhorn_has_the_potentials_of_the_entropic_plan(problem):
    """They give POT's plan, a call goes on from the last, zero masses are allowed."""
    p, q, cost = problem(6, 5)
    oracle = transport.sinkhorn_oracle(0.1, 20)
    oracle(p, q, cost)
    value, g, h = oracle(p, q, cost)
    plan = ((g[:, None] - cost - h) / 0.1).exp()
    torch.testing.assert_close(plan, transport.sinkhorn(p, q, cost, 0.1, 40))
    assert value <= transport.exact_ot(p, q, cost).value + 1e-12
    one = torch.eye(6, dtype=p.dtype)[:2].requires_grad_()
    loss = transport.wasserstein_loss(
        one, q, cost, oracle=transport.sinkhorn_oracle(0.1, 5)
    )
    loss.sum().backward()
    # All the mass is at one place: the cost is that row's mean.
    torch.testing.assert_close(loss.detach(), cost[:2] @ q)
    assert not one.grad.isnan().any()
    with pytest.raises(InputError, match="regularization"):
        transport.sinkhorn_oracle(0.0, 5)


def test_gibbs_ot_gradients_reach_the_exact_duals(problem):
    p, q, cost = problem(4, 3)
    oracle = transport.gibbs_ot_oracle(
        annealing(1e-5, 20_000), generator=make_generator(0)
    )
    leaves = [x.clone().requires_grad_() for x in (p, q)]
    loss = transport.wasserstein_loss(*leaves, cost, oracle=oracle)
    loss.backward()
    exact = transport.exact_ot(p, q, cost)
    assert loss.item() == pytest.approx(exact.value, abs=1e-3)
    for leaf, dual in zip(leaves, (exact.g, -exact.h), strict=True):
        torch.testing.assert_close(leaf.grad, centered(dual), rtol=0, atol=2e-3)


def test_upstream_gradients_and_batches(problem):
    p, q, cost = problem(4, 3, batch=(3,))
    weight = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    leaf = p.clone().requires_grad_()
    losses = transport.wasserstein_loss(leaf, q, cost, oracle=transport.exact_oracle())
    (weight * losses).sum().backward()
    for b in range(3):
        expected = weight[b] * centered(transport.exact_ot(p[b], q[b], cost).g)
        torch.testing.assert_close(leaf.grad[b], expected)


@pytest.mark.parametrize("gibbs", [False, True])
def test_one_distribution_is_held_against_every_row_of_the_other(problem, gibbs):
    """On either side; its gradient is the sum over the rows."""
    p, _, cost = problem(4, 3, batch=(5,))
    _, q, _ = problem(4, 3)

    def oracle():
        if gibbs:
            return transport.gibbs_ot_oracle([0.01] * 8, generator=make_generator(0))
        return transport.exact_oracle()

    rows = q.repeat(5, 1)
    for swap in (False, True):
        one, many = q.clone().requires_grad_(), rows.clone().requires_grad_()
        for leaf in (one, many):
            pair = (leaf, p) if swap else (p, leaf)
            M = cost.T.contiguous() if swap else cost
            losses = transport.wasserstein_loss(*pair, M, oracle=oracle())
            assert losses.shape == (5,)
            losses.sum().backward()
        torch.testing.assert_close(one.grad, many.grad.sum(0))


def test_oracle_remembers_its_chain(problem):
    """Two short calls end where one call of both does."""
    p, q, cost = problem(5, 4)
    schedule = [0.05] * 10
    oracle = transport.gibbs_ot_oracle(schedule, generator=make_generator(0))
    oracle(p, q, cost)
    whole = transport.gibbs_ot_oracle(schedule * 2, generator=make_generator(0))
    assert torch.equal(oracle(p, q, cost)[1], whole(p, q, cost)[1])
    smaller = problem(3, 4)
    assert oracle(*smaller)[1].shape == (3,)


def test_points_that_cannot_be_reached_leave_the_gradient_finite():
    p = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    cost = torch.ones(3, 3, dtype=torch.float64) - torch.eye(3)
    cost[2] = torch.inf
    oracle = transport.gibbs_ot_oracle([0.1, 0.1], generator=make_generator(0))
    q = torch.full((3,), 1 / 3, dtype=torch.float64)
    transport.wasserstein_loss(p, q, cost, oracle=oracle).backward()
    assert bool(torch.isfinite(p.grad[:2]).all()) and p.grad[2] == torch.inf
