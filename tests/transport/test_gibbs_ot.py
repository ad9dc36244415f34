"""Algorithm 1: its distributions, compiled form, limit, and bounded temperatures."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from ebmtut import transport
from ebmtut.kernels.exponentials import exponentials
from ebmtut.kernels.gibbs_ot import CompiledChain
from ebmtut.random import make_generator
from ebmtut.schedules import geometric
from ebmtut.transport import (
    WarmChains,
    annealed_temperatures,
    chain_value,
    constant_temperatures,
    dual_value,
    exact_ot,
    gibbs_ot,
    gibbs_ot_iteration,
    gibbs_ot_reference,
    temperatures_of,
)

RUNS = {"compiled": gibbs_ot, "torch": gibbs_ot_reference}
every_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def parts(result):
    return {"g": result.state.g, "h": result.state.h, "U": result.U, "L": result.L}


def assert_same(first, second, **tolerances):
    tolerances = tolerances or {"rtol": 0, "atol": 0}
    for name, x in parts(first).items():
        torch.testing.assert_close(x, parts(second)[name], msg=name, **tolerances)


def test_iteration_is_equations_12_and_13(problem):
    p, q, cost = problem(3, 4)
    g = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64)
    theta_h = torch.tensor([0.5, 1.0, 0.2, 2.0], dtype=torch.float64)
    theta_g = torch.tensor([0.7, 0.1, 1.5], dtype=torch.float64)
    temperature = torch.tensor([0.2, 0.1], dtype=torch.float64)
    new_g, h, U, L = gibbs_ot_iteration(g, p, q, cost, temperature, theta_h, theta_g)
    for j in range(4):
        assert float(L[j]) == max(float(g[i] - cost[i, j]) for i in range(3))
        noise = float(theta_h[j]) * 0.2 / float(q[j])
        assert float(h[j]) == pytest.approx(float(L[j]) + noise, rel=1e-14)
    for i in range(3):
        assert float(U[i]) == min(float(cost[i, j] + h[j]) for j in range(4))
        noise = float(theta_g[i]) * 0.1 / float(p[i])
        assert float(new_g[i]) == pytest.approx(float(U[i]) - noise, rel=1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("m1", "m2", "batch", "zeros", "forbidden"),
    [
        (37, 29, (), 0.0, 0.0),
        (37, 29, (), 0.4, 0.1),
        (1, 1, (), 0.0, 0.0),
        (2, 9, (), 0.0, 0.0),
        (40, 23, (5,), 0.5, 0.1),
        (16, 31, (3,), 0.0, 0.0),
    ],
)
def test_compiled_chain_equals_plain_chain(
    problem, m1, m2, batch, zeros, forbidden, dtype
):
    p, q, cost = problem(
        m1, m2, batch=batch, zeros=zeros, forbidden=forbidden, dtype=dtype
    )
    schedule = annealed_temperatures(30, m1)
    fast, plain = (
        run(p, q, cost, schedule, trace_every=10, generator=make_generator(1))
        for run in (gibbs_ot, gibbs_ot_reference)
    )
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    assert_same(fast, plain, rtol=tolerance, atol=tolerance)
    for x, y in zip(fast.trace, plain.trace, strict=True):
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)


def test_batch_equals_loop(problem):
    """Problem b of a batch is what it is alone, given its own exponentials."""
    p, q, cost = problem(8, 7, batch=(4,), zeros=0.3)
    batch = CompiledChain(p, q, cost, torch.zeros_like(p))
    n_rows = int((p > 0).any(0).sum())
    theta = torch.rand(5, batch.n_draws, generator=make_generator(0))
    schedule = torch.full((5, 2), 0.05, dtype=torch.float64)
    batch.advance(schedule, theta)
    together = batch.statistics(complete=True)
    counts = (q > 0).sum(1).tolist()
    rows = (p > 0).any(0)
    for b in range(4):
        of_h = theta[:, sum(counts[:b]) : sum(counts[: b + 1])]
        of_g = theta[:, sum(counts) + b * n_rows :][:, :n_rows][:, p[b, rows] > 0]
        alone = CompiledChain(*(x[b : b + 1] for x in (p, q)), cost, 0 * p[b : b + 1])
        alone.advance(schedule, torch.cat([of_h, of_g], dim=1))
        for x, y in zip(together, alone.statistics(complete=True), strict=True):
            torch.testing.assert_close(x[b : b + 1], y, rtol=0, atol=1e-12)


@every_run
def test_warm_start_equals_continuing(run, problem):
    p, q, cost = problem(9, 8, zeros=0.3)
    schedule = annealed_temperatures(30, 9)
    whole = run(p, q, cost, schedule, generator=make_generator(3))
    generator = make_generator(3)
    half = run(p, q, cost, schedule[:24], generator=generator)
    rest = run(p, q, cost, schedule[24:], state=half.state, generator=generator)
    assert_same(whole, rest)


@every_run
def test_tracing_changes_nothing_and_tells_the_values(run, problem):
    p, q, cost = problem(9, 8, batch=(2,))
    schedule = constant_temperatures(0.01, 25)
    plain = run(p, q, cost, schedule, generator=make_generator(3))
    traced = run(p, q, cost, schedule, trace_every=5, generator=make_generator(3))
    assert_same(plain, traced)
    assert traced.trace.iterations.tolist() == [5, 10, 15, 20, 25]
    assert traced.trace.V.shape == traced.trace.dual.shape == (5, 2)
    last = chain_value(p, q, plain.U, plain.L)
    torch.testing.assert_close(traced.trace.V[-1], last)
    bound = dual_value(p, q, cost, g=plain.U)
    torch.testing.assert_close(traced.trace.dual[-1], bound, rtol=0, atol=1e-14)


@pytest.mark.usefixtures("threads_for_little_work")
def test_result_does_not_depend_on_the_threads(problem):
    p, q, cost = problem(9, 8, batch=(5,))
    ends = []
    for n in (1, 2, 3):
        torch.set_num_threads(n)
        ends.append(gibbs_ot(p, q, cost, [0.1] * 6, generator=make_generator(0)))
    assert_same(ends[0], ends[1])
    assert_same(ends[0], ends[2])


def copies(n, p, q):
    return p.expand(n, -1), q.expand(n, -1)


def test_conditionals_are_exponential(problem):
    p, q, cost = problem(4, 3)
    batch = copies(20_000, p, q)
    end = gibbs_ot(*batch, cost, [0.3, 0.2] * 3, generator=make_generator(0))
    for mass, temperature, room in (
        (q, 0.3, end.state.h - end.L),
        (p, 0.2, end.U - end.state.g),
    ):
        for k in range(len(mass)):
            distribution = stats.expon(scale=temperature / float(mass[k]))
            assert stats.kstest(room[:, k].numpy(), distribution.cdf).pvalue > 1e-4


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gap_to_the_coordinates_is_a_sum_of_gammas(problem, dtype):
    """Footnote 2: V(z) - V(g, h) is Gamma(m1) T + Gamma(m2) T."""
    p, q, cost = problem(4, 3, dtype=dtype)
    batch = copies(20_000, p, q)
    end = gibbs_ot(*batch, cost, [0.3] * 6, generator=make_generator(1))
    gap = chain_value(*batch, end.U, end.L) - chain_value(*batch, *end.state)
    distribution = stats.gamma(7, scale=0.3)
    assert stats.kstest(gap.numpy(), distribution.cdf).pvalue > 1e-4


@every_run
def test_equilibrium_is_the_boltzmann_distribution(run):
    """2x2: the density of d = g_2 - g_1 is known, as h given g is exponential."""
    p, q = torch.tensor([[0.3, 0.7], [0.6, 0.4]], dtype=torch.float64)
    cost = torch.tensor([[0.1, 0.9], [0.6, 0.2]], dtype=torch.float64)
    temperature = 0.2
    n = 20_000 if run is gibbs_ot else 500
    end = run(*copies(n, p, q), cost, [temperature] * 60, generator=make_generator(1))
    d = torch.linspace(-6, 6, 20_001, dtype=torch.float64)
    L = torch.maximum(-cost[0], d[:, None] - cost[1])
    log_density = (p[1] * d - (q * L).sum(1)) / temperature
    cdf = torch.softmax(log_density, 0).cumsum(0)
    drawn = end.state.g[:, 1] - end.state.g[:, 0]
    uniform = np.interp(drawn.numpy(), d.numpy(), cdf.numpy())
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4


def test_statistics_overshoot_but_their_c_transform_does_not(problem):
    """V(U, L) is no lower bound; the feasible dual value is."""
    p, q, cost = problem(6, 6)
    exact = exact_ot(p, q, cost).value
    batch = copies(500, p, q)
    end = gibbs_ot(*batch, cost, [2 / 6] * 40, generator=make_generator(0))
    assert float(chain_value(*batch, end.U, end.L).mean()) > 1.1 * exact
    assert float(dual_value(*batch, cost, g=end.U).max()) <= exact + 1e-12


@settings(max_examples=25, deadline=None, derandomize=True)
@given(m1=st.integers(1, 6), m2=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_annealing_reaches_the_exact_cost(problem, m1, m2, seed):
    """At equilibrium W - V(g, h) is Gamma(m1 + m2 - 1) T in the limit T to 0."""
    p, q, cost = problem(m1, m2, seed=seed)
    last = 1e-4
    ratio = np.log(last)
    schedule = temperatures_of(lambda n: float(np.exp(ratio * n / 19_999)), 20_000)
    end = gibbs_ot(p, q, cost, schedule, generator=make_generator(seed))
    gap = exact_ot(p, q, cost).value - float(dual_value(p, q, cost, g=end.U))
    m = m1 + m2
    assert -1e-12 <= gap <= (m + 5 * m**0.5) * last


@every_run
def test_zero_masses_take_no_part(run, problem):
    p, q, cost = problem(7, 6, zeros=0.4, forbidden=0.1)
    rows, columns = p > 0, q > 0
    assert not bool(rows.all()) and not bool(columns.all())
    inner = cost[rows][:, columns]
    whole = run(p, q, cost, [0.05] * 20, generator=make_generator(0))
    small = run(p[rows], q[columns], inner, [0.05] * 20, generator=make_generator(0))
    torch.testing.assert_close(whole.U[rows], small.U, rtol=0, atol=1e-13)
    torch.testing.assert_close(whole.L[columns], small.L, rtol=0, atol=1e-13)
    implied = (cost[:, columns] + whole.state.h[columns]).amin(1)
    torch.testing.assert_close(whole.U, implied)
    assert torch.equal(whole.state.g[~rows], whole.U[~rows])
    assert torch.equal(whole.state.h[~columns], whole.L[~columns])


@every_run
def test_an_unreachable_point_without_mass_does_no_harm(run):
    p = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    cost = torch.rand(3, 3, dtype=torch.float64, generator=make_generator(0))
    cost[2] = cost[:, 2] = torch.inf
    end = run(p, p, cost, [0.05] * 40, generator=make_generator(0))
    assert bool(torch.isfinite(end.U[:2]).all()) and end.U[2] == torch.inf
    assert bool(torch.isfinite(end.L[:2]).all()) and end.L[2] == -torch.inf
    assert float(dual_value(p, p, cost, g=end.U)) <= exact_ot(p, p, cost).value + 1e-12


def test_incomplete_statistics_agree_where_there_is_mass(problem):
    p, q, cost = problem(7, 6, batch=(3,), zeros=0.4)
    full, part = (
        gibbs_ot(p, q, cost, [0.1] * 4, complete=complete, generator=make_generator(0))
        for complete in (True, False)
    )
    assert torch.equal(full.U[p > 0], part.U[p > 0])
    assert torch.equal(full.L[q > 0], part.L[q > 0])
    assert bool((part.L[q == 0] == -torch.inf).all())


def test_warm_chains_go_on_from_where_it_was(problem):
    p, q, cost = problem(7, 6, batch=(3,), zeros=0.4)
    dense = torch.softmax(torch.arange(21, dtype=torch.float64).view(3, 7).sin(), 1)
    generator, chains = make_generator(0), WarmChains(q, cost)
    for masses in (dense, p, dense.flip(0)):
        U = chains(masses, [0.1] * 6, generator=generator)
        torch.testing.assert_close(chains.result().U, U, rtol=0, atol=0)
        bound = dual_value(masses, q, cost, g=U)
        torch.testing.assert_close(chains.dual_value(), bound, rtol=0, atol=1e-13)
    state = chains.result().state
    U = chains(dense, [0.1] * 6, generator=make_generator(1))
    generator = make_generator(1)
    again = gibbs_ot(dense, q, cost, [0.1] * 6, state=state, generator=generator)
    torch.testing.assert_close(again.U, U, rtol=0, atol=1e-13)


def test_masses_that_need_gradients_are_detached(problem):
    p, q, cost = problem(3, 4)
    leaves = [x.clone().requires_grad_() for x in (p, q, cost)]
    ends = [
        gibbs_ot(*parts, [0.1] * 4, generator=make_generator(0))
        for parts in ((p, q, cost), leaves)
    ]
    assert_same(*ends)
    assert not ends[1].U.requires_grad


def test_compiled_exponentials_are_minus_logarithms():
    """All counts near both ends and between, and a last block that is short."""
    ends = torch.cat([torch.arange(1000), 2**24 - 1 - torch.arange(1000)])
    counts = torch.cat([ends, torch.arange(0, 2**24, 4099)]).int()
    theta = torch.empty(len(counts))
    exponentials((counts | 0x5000000).numpy(), theta.numpy())  # higher bits are moot
    exact = -(counts.double().clamp(min=0.5) * 2.0**-24).log()
    assert ((theta - exact).abs() <= 5e-7 * (1 + exact)).all()
    assert theta.min() > 0


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


@every_distribution
def test_mean_and_maximizer_by_quadrature(z, weights, temperature):
    points = (torch.tensor(x, dtype=torch.float64) for x in (z, weights))
    phi, probability = transport.largest_of_exponentials(*points, temperature)
    pairs = [(a, w) for a, w in zip(z, weights, strict=True) if w and a > -math.inf]
    active = [a for a, _ in pairs]
    top, bottom = max(active), min(active) - 60 * temperature / sum(weights)

    def integral(density, upper):
        points = sorted({a for a in active if bottom < a < upper})
        return quad(density, bottom, upper, points=points or None, epsabs=1e-13)[0]

    def cdf(x):
        """Product of the distribution functions of the exponentials."""
        return math.exp(-sum(w * max(a - x, 0) for a, w in pairs) / temperature)

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
    end = gibbs_ot(*copies(n, p, q), cost, [0.3, 0.2], generator=make_generator(0))
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


def simulated(task, schedule, n_chains):
    how = {"n_chains": n_chains, "generator": make_generator(0)}
    return transport.simulate_martingale(*task, schedule, **how)


def test_r_is_a_martingale(problem):
    """Its mean stays, V's does not, and its steps are uncorrelated."""
    n = 40_000
    runs = simulated(problem(4, 3), annealed_temperatures(8, 4), n)
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
    schedule = annealed_temperatures(8, 4)
    runs = simulated(problem(4, 3), schedule, 20_000)
    down = -runs.r.diff(dim=1)
    bound = (runs.c * schedule)[:, :-1]
    assert bool((down <= bound + 1e-12).all())
    assert float((down / bound).max()) > 0.9


def test_regrets_are_those_of_the_theorem(problem):
    p, q, cost = problem(4, 3)
    runs = simulated((p, q, cost), [0.2, 0.2], 1)
    L = (-cost).amax(0)
    row = cost + L
    expected = (p * ((q * row).sum(1) - row.amin(1))).sum()
    assert float(runs.d[0, 0]) == pytest.approx(float(expected), rel=1e-12)


def test_bound_is_where_v_stands_still(problem):
    """The change of V is C (T - bound); at equilibrium it is zero on average."""
    p, q, cost = problem(5, 4)
    n, temperature = 20_000, 0.1
    runs = simulated((p, q, cost), constant_temperatures(temperature, 25), n)
    change = (runs.c * (temperature - runs.bound))[:, -1]
    assert abs(float(change.mean())) < 5 * float(change.std()) / n**0.5
    end = gibbs_ot(p, q, cost, [0.1, 0.1], generator=make_generator(0))
    for following in ("L", "U"):
        now = end.U, end.L, 0.1
        bound = transport.temperature_bound(p, q, cost, *now, following=following)
        if following == "L":
            phi = transport.half_step_distribution(cost, 0.1, U=end.U, p=p).phi
            best = (end.U[:, None] - cost).amax(0)
            expected = -(q * (end.L - best)).sum() / (phi * q).sum()
        else:
            phi = transport.half_step_distribution(cost, 0.1, L=end.L, q=q).phi
            best = (cost + end.L).amin(1)
            expected = -(p * (best - end.U)).sum() / (phi * p).sum()
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
    exact = exact_ot(p, q, cost).value
    value = float(dual_value(p, q, cost, g=run.result.U))
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
        exact = exact_ot(p, q, cost)
        how = {"trace_every": 20, "generator": make_generator(seed)}
        end = gibbs_ot(p, q, cost, [0.01] * 40, **how)
        gap = transport.relative_gap(p, q, cost, end.U, end.L, temperature=temperature)
        assert 1 - float(end.trace.dual[-1]) / exact.value <= gap / (1 - gap) + 1e-12
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
    end = gibbs_ot(p, q, unit * cost, [0.1] * 8, generator=make_generator(0))
    found = transport.relative_gap(p, q, unit * cost, end.U, end.L)
    value = exact_ot(p, q, unit * cost).value
    lacks = abs(value - float(dual_value(p, q, unit * cost, g=end.U)))
    if gap is None:
        assert 0 < found < math.inf
        assert found * (1 + found) * abs(value) >= lacks
    else:
        # Where all is free, c-transforms make any potential constant.
        assert found == gap


def test_schedules():
    assert constant_temperatures(0.3, 2).tolist() == [0.3] * 4
    T = annealed_temperatures(50, 128)
    assert T.shape == (100,)
    for n in (1, 20, 50):
        expected = 2.0 * (1 / 50**4) ** (n / 50) / 128
        assert T[2 * n - 2] == T[2 * n - 1]
        assert float(T[2 * n - 1]) == pytest.approx(expected, rel=1e-12)
    T = temperatures_of(geometric(1.0, 0.25, 3), 3)
    assert T.tolist() == pytest.approx([1, 1, 0.5, 0.5, 0.25, 0.25])
