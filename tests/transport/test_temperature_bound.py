"""Lemma A.1, the martingale of Theorem A.2 and the bound of Eq. 24."""

import math

import pytest
import torch
from scipy.integrate import quad

from ebmtut import transport
from ebmtut.random import make_generator
from ebmtut.schedules import geometric

DISTRIBUTIONS = {
    "spread": ([0.3, -0.2, 0.8, 0.75, 0.1], [0.3, 0.1, 0.2, 0.15, 0.25], 0.2),
    "ties": ([0.5, 0.5, 0.5, 0.2], [0.25, 0.25, 0.3, 0.2], 0.1),
    "one": ([0.4], [1.0], 0.3),
    "left out": ([0.4, 2.0, -math.inf, 0.1], [0.5, 0.0, 0.3, 0.2], 0.3),
    "cold": ([0.3, -0.2, 0.8, 0.75, 0.1], [0.3, 0.1, 0.2, 0.15, 0.25], 1e-3),
}
every_distribution = pytest.mark.parametrize(
    ("z", "weights", "temperature"), DISTRIBUTIONS.values(), ids=DISTRIBUTIONS
)


def joint_cdf(x, z, weights, temperature):
    """Product of the distribution functions of the exponentials."""
    pairs = [(a, w) for a, w in zip(z, weights, strict=True) if w and a > -math.inf]
    return math.exp(-sum(w * max(a - x, 0) for a, w in pairs) / temperature)


@every_distribution
def test_mean_and_maximizer_by_quadrature(z, weights, temperature):
    phi, probability = transport.largest_of_exponentials(
        *(torch.tensor(x, dtype=torch.float64) for x in (z, weights)), temperature
    )
    active = [a for a, w in zip(z, weights, strict=True) if w and a > -math.inf]
    top, bottom = max(active), min(active) - 60 * temperature / sum(weights)

    def integral(density, upper):
        points = sorted({a for a in active if bottom < a < upper})
        return quad(density, bottom, upper, points=points or None, epsabs=1e-13)[0]

    def cdf(x):
        return joint_cdf(x, z, weights, temperature)

    assert float(phi) == pytest.approx(integral(cdf, top) / temperature, rel=1e-8)
    for k, (a, w) in enumerate(zip(z, weights, strict=True)):
        expected = w / temperature * integral(cdf, a) if w and a > -math.inf else 0
        assert float(probability[k]) == pytest.approx(expected, abs=1e-9)
    assert float(probability.sum()) == pytest.approx(1, rel=1e-12)


def test_half_step_distributions_are_the_samplers(problem):
    """E[U | L] and E[L | U] of Lemma A.1, by the chain itself."""
    p, q, cost = problem(5, 4, forbidden=0.1)
    n = 40_000
    g = torch.zeros(n, 5, dtype=torch.float64)
    L = (g[0, :, None] - cost).amax(0)
    end = transport.gibbs_ot(
        p.expand(n, -1), q.expand(n, -1), cost, [0.3, 0.2], generator=make_generator(0)
    )
    distribution = transport.half_step_distribution(cost, 0.3, L=L, q=q)
    error = (end.U.mean(0) - distribution.mean).abs()
    assert bool((error < 5 * end.U.std(0) / n**0.5).all())
    U = end.U[0]
    theta = torch.empty(n, 5, dtype=torch.float64)
    theta.exponential_(generator=make_generator(1))
    drawn = ((U - theta * 0.2 / p)[:, :, None] - cost).amax(1)
    distribution = transport.half_step_distribution(cost, 0.2, U=U, p=p)
    error = (drawn.mean(0) - distribution.mean).abs()
    assert bool((error < 5 * drawn.std(0) / n**0.5).all())


def test_r_is_a_martingale(problem):
    """Its mean stays, V's does not, and its steps are uncorrelated."""
    p, q, cost = problem(4, 3)
    n = 40_000
    runs = transport.simulate_martingale(
        p,
        q,
        cost,
        transport.annealed_temperatures(8, 4),
        n_chains=n,
        generator=make_generator(0),
    )
    assert runs.V.shape == runs.r.shape == (n, 16)
    # z^1 = (L^1, U^0) is the same for all chains.
    assert float(runs.r[:, 0].std()) < 1e-12
    drift = runs.r - runs.r[:, :1]
    noise = 5 * runs.r.std(0) / n**0.5
    assert bool((drift.mean(0).abs()[1:] < noise[1:]).all())
    change = (runs.V - runs.V[:, :1]).mean(0).abs()
    assert bool((change[1:] > noise[1:]).all())
    steps = runs.r.diff(dim=1)
    correlation = torch.corrcoef(steps.T) - torch.eye(15)
    assert float(correlation.abs().max()) < 5 / n**0.5


def test_steps_down_are_bounded(problem):
    """Lemma B.3: r^n - r^(n + 1) <= C^n T^(n), surely, and C is sharp."""
    p, q, cost = problem(4, 3)
    schedule = transport.annealed_temperatures(8, 4)
    runs = transport.simulate_martingale(
        p, q, cost, schedule, n_chains=20_000, generator=make_generator(0)
    )
    down = -runs.r.diff(dim=1)
    bound = (runs.c * schedule)[:, :-1]
    assert bool((down <= bound + 1e-12).all())
    assert float((down / bound).max()) > 0.9


def test_regrets_are_those_of_the_theorem(problem):
    p, q, cost = problem(4, 3)
    runs = transport.simulate_martingale(
        p, q, cost, [0.2, 0.2], n_chains=1, generator=make_generator(0)
    )
    L = (-cost).amax(0)
    row = cost + L
    expected = (p * ((q * row).sum(1) - row.amin(1))).sum()
    assert float(runs.d[0, 0]) == pytest.approx(float(expected), rel=1e-12)


def test_bound_is_where_v_stands_still(problem):
    """The change of V is C (T - bound); at equilibrium it is zero on average."""
    p, q, cost = problem(5, 4)
    n, temperature = 20_000, 0.1
    runs = transport.simulate_martingale(
        p,
        q,
        cost,
        transport.constant_temperatures(temperature, 25),
        n_chains=n,
        generator=make_generator(0),
    )
    change = (runs.c * (temperature - runs.bound))[:, -1]
    assert abs(float(change.mean())) < 5 * float(change.std()) / n**0.5
    end = transport.gibbs_ot(p, q, cost, [0.1, 0.1], generator=make_generator(0))
    for following in ("L", "U"):
        bound = transport.temperature_bound(
            p, q, cost, end.U, end.L, 0.1, following=following
        )
        side = {"U": end.U, "p": p} if following == "L" else {"L": end.L, "q": q}
        distribution = transport.half_step_distribution(cost, 0.1, **side)
        if following == "L":
            best = (end.U[:, None] - cost).amax(0)
            expected = -(q * (end.L - best)).sum() / (distribution.phi * q).sum()
        else:
            best = (cost + end.L).amin(1)
            expected = -(p * (best - end.U)).sum() / (distribution.phi * p).sum()
        assert float(bound) == pytest.approx(float(expected), rel=1e-10)


def test_bounded_annealing_respects_the_bound_and_converges(problem):
    p, q, cost = problem(6, 5)
    run = transport.bounded_gibbs_ot(
        p, q, cost, 4000, start=1.0, fraction=0.8, every=40, generator=make_generator(0)
    )
    assert run.temperatures.shape == (4000,) and run.bounds.shape == (100,)
    blocks = run.temperatures.view(100, 40)
    assert bool((blocks == blocks[:, :1]).all())
    assert bool((blocks[1:, 0] <= blocks[:-1, 0]).all())
    lowered = blocks[1:, 0] < blocks[:-1, 0]
    torch.testing.assert_close(blocks[1:, 0][lowered], 0.8 * run.bounds[:-1][lowered])
    exact = transport.exact_ot(p, q, cost).value
    value = float(transport.dual_value(p, q, cost, g=run.result.U))
    assert 0.99 * exact < value <= exact + 1e-12


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
