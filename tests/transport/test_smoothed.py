import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.random import make_generator
from ebmtut.transport import grid_cost, smoothed_conjugate, smoothed_wnmf


def measures(n, seed, shape=(4, 5)):
    x = torch.rand(n, *shape, generator=make_generator(seed), dtype=torch.float64)
    return x / x.sum((1, 2), keepdim=True)


def smoothed_cost(p, q, cost, eps):
    """min <Z, M> - eps E(Z) by Sinkhorn, with E(Z) = -<Z, log Z>."""
    M = cost.dense()
    K = torch.exp(-M / eps)
    p, q = p.flatten(), q.flatten()
    v = torch.ones_like(q)
    for _ in range(5000):
        u = p / (K @ v)
        v = q / (K.T @ u)
    Z = u[:, None] * K * v
    return (Z * M).sum() + eps * torch.special.xlogy(Z, Z).sum()


def test_conjugate_meets_fenchel_with_equality():
    cost = grid_cost(4, 5, dtype=torch.float64)
    q = measures(3, 0)
    eps = 0.05
    g = (
        0.1 * torch.randn(3, 4, 5, generator=make_generator(1), dtype=torch.float64)
    ).requires_grad_()
    value = smoothed_conjugate(g, q, cost, eps)
    value.sum().backward()
    p = g.grad
    torch.testing.assert_close(p.sum((1, 2)), torch.ones(3, dtype=torch.float64))
    for i in range(3):
        direct = (g[i] * p[i]).sum() - smoothed_cost(p[i], q[i], cost, eps)
        torch.testing.assert_close(value[i], direct, rtol=0, atol=1e-9)
        # Any other p gives less: it is a maximum.
        other = measures(1, 5 + i)[0]
        less = (g[i] * other).sum() - smoothed_cost(other, q[i], cost, eps)
        assert less < value[i]


def test_memberships_solve_their_primal_problem():
    """Zero gap between the dual value and the primal value of the memberships."""
    cost = grid_cost(4, 5, dtype=torch.float64)
    q, atoms = measures(3, 0), measures(2, 1) ** 4
    atoms = atoms / atoms.sum((1, 2), keepdim=True)
    eps, rho = 0.05, 0.01
    kwargs = {"smoothing": eps, "entropy_memberships": rho, "n_steps": 200}
    learned = smoothed_wnmf(q, atoms, cost=cost, n_rounds=1, **kwargs)
    beta = learned.memberships
    primal = rho * torch.special.xlogy(beta, beta).sum()
    for i in range(3):
        mixture = torch.einsum("k,khw->hw", beta[i], atoms)
        primal = primal + smoothed_cost(mixture, q[i], cost, eps)
    torch.testing.assert_close(
        learned.objectives[0].double(), primal, rtol=0, atol=1e-5
    )


def test_rounds_lower_the_objective_and_find_planted_images():
    """Mixtures of two far images are taken apart, up to the blur."""
    planted = torch.zeros(2, 6, 6, dtype=torch.float64)
    planted[0, 1, 1] = planted[1, 4, 4] = 1
    beta = torch.linspace(0.1, 0.9, 9, dtype=torch.float64)[:, None]
    q = torch.einsum("nk,khw->nhw", torch.cat([beta, 1 - beta], 1), planted)
    start = 0.7 * measures(2, 3, (6, 6)) + 0.3 * planted
    learned = smoothed_wnmf(q, start, n_rounds=6, n_steps=30)
    assert learned.objectives[-1] < learned.objectives[0]
    flat = learned.dictionary.flatten(1)
    assert flat.argmax(1).tolist() == [7, 28]
    order = learned.memberships[:, 0].argsort()
    assert torch.equal(order, torch.arange(9))


def test_rounds_in_pieces_are_those_at_once():
    q, atoms = measures(3, 0), measures(2, 1)
    whole = smoothed_wnmf(q, atoms, n_rounds=5, n_steps=6)
    part = smoothed_wnmf(q, atoms, n_rounds=2, n_steps=6)
    rest = smoothed_wnmf(q, atoms, n_rounds=3, n_steps=6, start=part)
    assert len(rest.objectives) == 5
    for one, other in zip(whole, rest, strict=True):
        assert torch.equal(one, other)
    with pytest.raises(InputError, match=r"start.duals must have shape"):
        smoothed_wnmf(q[:2], atoms, start=part)


def conjugate_by_logarithms(g, q, cost, eps):
    """All pairs of pixels at once, in logarithms."""
    log = (g.flatten() / eps - cost.dense() / eps).logsumexp(1)
    entropy = -torch.special.xlogy(q, q).sum()
    return eps * (entropy + (q.flatten() * log).sum())


def test_little_smoothing_loses_no_mass_that_lies_far():
    """The sum's only large term is exp(-1389): e^-1389 is no number of float64."""
    cost = grid_cost(6, dtype=torch.float64)
    q, g = torch.zeros(2, 1, 6, 6, dtype=torch.float64)
    q[0, 0, 0], g[0, 5, 5] = 1, 5
    g.requires_grad_()
    (value,) = smoothed_conjugate(g, q, cost, 0.001)
    assert value.item() == pytest.approx(5 - 2 * (5 / 6) ** 2)
    value.backward()
    want = torch.zeros(1, 6, 6, dtype=torch.float64)
    want[0, 5, 5] = 1
    torch.testing.assert_close(g.grad, want)


@pytest.mark.parametrize("eps", [1.0, 0.01, 1e-3, 1e-5])
def test_the_conjugate_is_that_of_all_pairs(eps):
    cost = grid_cost(4, 5, dtype=torch.float64)
    q = measures(3, 0)
    g = torch.randn(3, 4, 5, generator=make_generator(1), dtype=torch.float64)
    found = smoothed_conjugate(g, q, cost, eps)
    want = [conjugate_by_logarithms(*one, cost, eps) for one in zip(g, q, strict=True)]
    torch.testing.assert_close(found, torch.stack(want), rtol=1e-12, atol=1e-12)
    # A constant is added to the value, whatever its size.
    higher = smoothed_conjugate(g + 100, q, cost, eps)
    torch.testing.assert_close(higher, found + 100, rtol=1e-12, atol=0)
