"""Simulators and the master equation against matrices, weights against enumeration."""

import math

import pytest
import torch
from scipy.stats import chisquare

from ebmtut import flows
from ebmtut.checks import DivergenceError, InputError
from ebmtut.energies import LatticeIsing, lattice_coloring
from ebmtut.flows.simulation import _STEPS
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states, states_to_index
from tests.flows.systems import (
    SolvedNetwork,
    TableEnergy,
    distributions,
    independence_metropolis,
    random_energy,
    rate_matrix,
)
from tests.flows.test_rates import random_flow

N = 4000
P_VALUE = 1e-4
methods = pytest.mark.parametrize("method", ["euler", "tau_leaping"])
sizes = pytest.mark.parametrize("n_states", [2, 3])


def check_distribution(x, p, n_states=2):
    counts = torch.bincount(states_to_index(x, n_states), minlength=len(p))
    assert chisquare(counts.numpy(), (p / p.sum() * len(x)).numpy()).pvalue > P_VALUE


def step_matrix(method, flow, t, dt, part):
    """Probabilities of a step from every state (column) to every state (row)."""
    x = enumerate_states(flow.path.n_sites, flow.path.n_states)
    rates = getattr(flow.terms(x, t), part)
    n = len(x)
    here, there = x.repeat_interleave(n, 0), x.repeat(n, 1)
    log_p = _STEPS[method][1](here, there, rates.repeat_interleave(n, 0), dt)
    return log_p.exp().reshape(n, n).T


@methods
@sizes
@pytest.mark.parametrize("part", ["outward", "inward"])
@pytest.mark.parametrize("dt", [0.05, 0.8])
def test_probabilities_of_a_step_sum_to_one(method, n_states, part, dt):
    flow = random_flow("one_way", n_states=n_states)
    matrix = step_matrix(method, flow, 0.5, dt, part)
    torch.testing.assert_close(matrix.sum(0), torch.ones(len(matrix)).double())


@methods
@sizes
def test_steps_have_the_distribution_of_their_matrices(method, n_states):
    flow = random_flow("reversible", n_states=n_states)
    n_steps = 4
    p = torch.full((n_states**3,), n_states**-3.0).double()
    for k in range(n_steps):
        p = step_matrix(method, flow, k / n_steps, 1 / n_steps, "outward") @ p
    x = flows.simulate(flow, N, n_steps, method=method, generator=make_generator(0)).x
    check_distribution(x, p, n_states)


def end_distribution(flow, fine=100):
    """Distribution of the continuous-time chain at t = 1, by matrix exponentials.

    The square of a step is 1e-4, where N samples err by 1e-2.
    """
    n = flow.path.n_states**flow.path.n_sites
    p = torch.full((n,), 1 / n).double()
    for k in range(fine):
        p = torch.linalg.matrix_exp(rate_matrix(flow, (k + 0.5) / fine) / fine) @ p
    return p


@sizes
def test_exact_simulation_has_the_distribution_of_the_matrix_exponential(n_states):
    flow = random_flow("one_way", n_states=n_states, scale=0.5)
    found = flows.simulate_exact(flow, N, bound=30.0, generator=make_generator(3))
    assert found.n_exceeded == 0
    check_distribution(found.x, end_distribution(flow), n_states)
    assert found.n_candidates == pytest.approx(30, abs=5 * math.sqrt(30 / N))


def mean_error(log_weights, want):
    """Standard errors between the mean weight and what it must be."""
    w = (log_weights.double() - want).exp()
    return float((w.mean() - 1) / (w.std() / math.sqrt(len(w))))


@sizes
@pytest.mark.parametrize("rates", ["one_way", "reversible"])
def test_mean_weight_is_the_ratio_of_partition_functions(rates, n_states):
    flow = random_flow(rates, n_states=n_states, seed=4, scale=0.5)
    _, log_z = distributions(flow.path, [0.0, 1.0])
    want = float(log_z[1] - log_z[0])
    generator = make_generator(5)
    found = flows.simulate(
        flow, N, 12, method="euler", chain_weights=True, generator=generator
    )
    assert found.n_overflows == 0
    assert abs(mean_error(found.chain_log_weights, want)) < 5
    exact = flows.simulate_exact(
        flow, N, bound=30.0, generator=generator, path_weights=True
    )
    assert exact.n_exceeded == 0
    assert abs(mean_error(exact.log_weights, want)) < 5
    # Of continuous time, along the same states: less is left to chance.
    assert abs(mean_error(exact.path_log_weights, want)) < 5
    assert exact.path_log_weights.std() < exact.log_weights.std()


@methods
def test_chain_weights_carry_over_every_state(method):
    """Enumerated: the sum over paths of p_0 F w to each end is p~_1 / Z_0.

    Where the reversed chain can do what the forward one cannot, it is less.
    """
    flow = random_flow("reversible", n_sites=2, seed=7)
    x = enumerate_states(2)
    want = flow.path.log_density(x, 1.0).exp() / 4
    lost = []
    for n_steps in (32, 64):
        total = torch.full((4,), 0.25).double()
        for k in range(n_steps):
            t, dt = k / n_steps, 1 / n_steps
            forward = step_matrix(method, flow, t, dt, "outward")
            backward = step_matrix(method, flow, t, dt, "inward").T
            log_p = [flow.path.log_density(x, v) for v in (t, t + dt)]
            weight = (log_p[1][:, None] - log_p[0][None]).exp() * backward
            total = torch.where(forward > 0, weight, 0.0) @ total
        lost.append(float((want - total).sum() / want.sum()))
        assert bool((total < want + 1e-12).all())
    if method == "euler":
        assert max(lost) < 1e-12
    else:
        assert lost[0] > 1.8 * lost[1] > 0


def test_kernels_keep_the_mean_of_the_weights():
    path = AnnealingPath(LatticeIsing(3, 0.2))
    torch.manual_seed(1)
    flow = flows.Flow(path, flows.OddLatticeNetwork(3, width=4))
    _, log_z = distributions(path, [0.0, 1.0])
    for kernel in (
        flows.gibbs_kernel(path, lattice_coloring(3)),
        flows.dmala_kernel(path, 0.2, n_steps=2),
    ):
        found = flows.simulate(
            flow,
            N // 2,
            16,
            method="euler",
            refine=kernel,
            chain_weights=True,
            generator=make_generator(2),
        )
        assert found.n_overflows == 0
        error = mean_error(found.chain_log_weights, float(log_z[1] - log_z[0]))
        assert abs(error) < 5


def test_a_sweep_of_three_states_leaves_the_distribution_as_a_matrix_identity(
    monkeypatch,
):
    """A chain of three sites, whose ends have one colour.

    Every draw is led to one end z, the only way there from x: P(z | x) is the product
    of the drawn sites' probabilities.
    """
    first, second = torch.randn(2, 3, 3, generator=make_generator(0)).double()
    all_x = enumerate_states(3, 3)
    a, b, c = all_x.long().T
    path = AnnealingPath(TableEnergy(first[a, b] + second[b, c], 3, 3), n_states=3)
    colors = torch.tensor([0, 1, 0])
    kernel = flows.gibbs_kernel(path, colors)
    x, z = all_x.repeat_interleave(27, 0), all_x.repeat(27, 1)
    drawn = iter(colors.unique())
    log_p = torch.zeros(len(x)).double()

    def led(logits, *, generator):
        chosen = logits.log_softmax(2).gather(2, z.long()[..., None]).squeeze(2)
        log_p.add_(chosen[:, colors == next(drawn)].sum(1))
        return z.long()

    with monkeypatch.context() as patch:
        patch.setattr("ebmtut.flows.simulation.categorical", led)
        assert torch.equal(kernel(x, 0.6, generator=make_generator(0)), z)
    matrix = log_p.exp().reshape(27, 27)  # from the row to the column
    torch.testing.assert_close(matrix.sum(1), torch.ones(27).double())
    p = distributions(path, [0.6])[0][0]
    torch.testing.assert_close(p @ matrix, p, rtol=1e-13, atol=1e-15)
    # The samples have these probabilities.
    start = all_x[5].expand(N, 3)
    check_distribution(kernel(start, 0.6, generator=make_generator(1)), matrix[5], 3)


def test_a_perfect_flow_has_equal_weights_and_the_left_sum_its_bias():
    """Trapezoid: error of second order. Left: -(E_1 - E_0 of -E) / (2 K)."""
    path = AnnealingPath(random_energy(3, scale=0.7))
    flow = flows.Flow(path, SolvedNetwork(path, "reversible"), rates="reversible")
    p, log_z = distributions(path, [0.0, 1.0])
    want = float(log_z[1] - log_z[0])
    slopes = (p * path.time_derivative(enumerate_states(3))).sum(1)
    found = {
        rule: flows.simulate(
            flow, 50, 20, quadrature=rule, generator=make_generator(0)
        ).log_weights
        for rule in ("trapezoid", "left")
    }
    for log_weights in found.values():
        assert flows.effective_sample_size(log_weights) == pytest.approx(1, abs=1e-9)
    bias = -float(slopes[1] - slopes[0]) / 40
    assert float(found["trapezoid"][0]) == pytest.approx(want, abs=abs(bias) / 20)
    assert float(found["left"][0]) - want == pytest.approx(bias, rel=0.05)


def test_reverse_bound_is_below_the_distribution_of_the_flow():
    """Its mean is below log q; the mean of its exponential is q itself."""
    flow = random_flow("reversible", seed=4)
    q = end_distribution(flow)
    n = 2000
    x = enumerate_states(3).repeat_interleave(n, 0)
    draws = flows.reverse_elbo(flow, x, bound=40.0, generator=make_generator(1))
    draws = draws.reshape(8, n) - q.log()[:, None]
    above = draws.mean(1) / (draws.std(1) / math.sqrt(n))
    assert float(above.max()) < 5
    assert float(above.min()) < -5
    ratio = draws.exp()
    error = (ratio.mean(1) - 1) / (ratio.std(1) / math.sqrt(n))
    assert float(error.abs().max()) < 5
    with pytest.raises(InputError, match="bound must be above every total rate"):
        flows.reverse_elbo(flow, x[:50], bound=0.5, generator=make_generator(1))


def path_distributions():
    """Log-probability of all 64 paths of two steps, forward and backward."""
    flow = random_flow("reversible", n_sites=2, seed=7)
    x = enumerate_states(2)
    steps = [
        [step_matrix("euler", flow, t, 0.5, part) for t in (0.0, 0.5)]
        for part in ("outward", "inward")
    ]
    (f0, f1), (b0, b1) = steps
    forward = 0.25 * f1[:, :, None] * f0[None]  # end, middle, start
    target = flow.path.log_density(x, 1.0).softmax(0)
    backward = target[:, None, None] * b1.T[:, :, None] * b0.T[None]
    return forward, backward, target


def test_metropolis_hastings_leaves_the_target_as_a_matrix_identity():
    forward, backward, target = path_distributions()
    q, pi = forward.flatten(), backward.flatten()
    q, pi = q[q > 0], pi[q > 0]
    w = pi / q
    accept = (w[None, :] / w[:, None]).clamp(max=1).nan_to_num(nan=1.0, posinf=1.0)
    matrix = q[None, :] * accept
    matrix.diagonal().add_(1 - matrix.sum(1))
    assert float((pi @ matrix - pi).abs().max()) < 1e-14
    # The ends of the paths then have the target distribution; those of q do not.
    ends = backward.flatten(1).sum(1)
    torch.testing.assert_close(ends, target)
    assert float((forward.flatten(1).sum(1) - target).abs().max()) > 0.01


def test_metropolis_hastings_corrects_the_samples():
    flow = random_flow("reversible", n_sites=2, seed=7)
    options = {"chain_weights": True, "generator": make_generator(0)}
    found = flows.simulate(flow, 40000, 8, method="euler", **options)
    assert found.n_overflows == 0
    index = independence_metropolis(
        found.chain_log_weights, generator=make_generator(1)
    )
    target, _ = distributions(flow.path, [1.0])
    kept = states_to_index(found.x[index])[100::20]
    counts = torch.bincount(kept, minlength=4)
    expected = target[0] * len(kept)
    assert chisquare(counts.numpy(), expected.numpy()).pvalue > P_VALUE
    raw = torch.bincount(states_to_index(found.x)[100::20], minlength=4)
    assert chisquare(raw.numpy(), expected.numpy()).pvalue < 1e-6


def test_weights_of_one_level():
    log_w = torch.tensor([0.0, math.log(3.0), -math.inf, 0.0]).double()
    assert flows.effective_sample_size(log_w) == pytest.approx(25 / 11 / 4)
    assert flows.effective_sample_size(log_w + 700) == pytest.approx(25 / 11 / 4)
    found = flows.log_partition(torch.tensor([0.0, math.log(3.0)]), 5.0)
    assert found.estimate == pytest.approx(5 + math.log(2))
    assert found.lower_bound == pytest.approx(5 + math.log(3) / 2)
    assert found.lower_bound < found.estimate
    values = torch.tensor([1.0, 2.0, 9.0, 3.0])
    assert float(flows.weighted_mean(log_w, values)) == pytest.approx(2)


def test_a_bound_that_is_too_low_is_told():
    flow = random_flow("one_way")
    found = flows.simulate_exact(flow, 200, bound=0.5, generator=make_generator(0))
    assert found.n_exceeded > 0


class LostNetwork(torch.nn.Module):
    """No number from a time on, at one of the sites."""

    def __init__(self, since):
        super().__init__()
        self.since = since

    def forward(self, x, t):
        g = 1 - 2 * x
        g[t >= self.since, 0] = torch.nan
        return g


# -2 for every 1: log-ratios of 2 t or -2 t.
PULL = AnnealingPath(TableEnergy(-2 * enumerate_states(3).sum(1), 3))


@methods
@pytest.mark.parametrize("chain_weights", [False, True])
def test_a_network_that_gives_no_numbers_stops_the_simulation(method, chain_weights):
    """Some of 200 states have a zero at all times, and so a log-ratio of 2 t."""
    flow = flows.Flow(PULL, LostNetwork(0.5))
    options = {"method": method, "chain_weights": chain_weights}
    with pytest.raises(DivergenceError) as error:
        flows.simulate(flow, 200, 8, generator=make_generator(0), **options)
    words = "flow diverged at step 4, t = 0.5: its largest log-ratio was 2"
    assert str(error.value) == words
    assert error.value.step == 4
    before = flows.Flow(flow.path, LostNetwork(1.1))
    found = flows.simulate(before, 200, 8, generator=make_generator(0), **options)
    assert found.log_weights.isfinite().all()


@pytest.mark.parametrize("path_weights", [False, True])
def test_a_network_that_gives_no_numbers_stops_the_exact_simulation(path_weights):
    """Of 2e4 candidates in a unit of time one comes within 5e-4 of t = 0.5."""
    flow = flows.Flow(PULL, LostNetwork(0.5))
    options = {"bound": 20.0, "path_weights": path_weights}
    words = "^flow diverged at t = 0.5: its largest log-ratio was 2$"
    with pytest.raises(DivergenceError, match=words):
        flows.simulate_exact(flow, 1000, generator=make_generator(0), **options)
    before = flows.Flow(flow.path, LostNetwork(1.1))
    found = flows.simulate_exact(before, 1000, generator=make_generator(0), **options)
    assert found.log_weights.isfinite().all()
    with pytest.raises(DivergenceError, match=words):
        flows.reverse_elbo(flow, found.x, bound=20.0, generator=make_generator(0))


def test_a_step_that_cannot_be_reversed_is_no_divergence():
    """One-way rates flip two sites at once, and never both back."""
    flow = random_flow("one_way", seed=7)
    options = {"chain_weights": True, "generator": make_generator(0)}
    found = flows.simulate(flow, 200, 4, **options)
    assert found.chain_log_weights.isneginf().any()
    assert not found.chain_log_weights.isnan().any()
    assert found.log_weights.isfinite().all()


TIMES = [k / 64 for k in range(65)]


@pytest.mark.parametrize("rates", ["one_way", "reversible"])
def test_a_perfect_flow_has_the_distribution_of_the_path_at_every_time(rates):
    path = AnnealingPath(random_energy(3, scale=0.7))
    flow = flows.Flow(path, SolvedNetwork(path, rates), rates=rates)
    want, _ = distributions(path, TIMES)
    found = flows.flow_distributions(flow, 64)
    assert (found - want).abs().max() < 1e-4
    # Reversed, it goes back the same way.
    back = flows.flow_distributions(flow, 64, start=want[-1], reverse=True)
    assert (back.flip(0) - want).abs().max() < 1e-4


def test_any_flow_is_followed_as_by_its_rate_matrices():
    """Second order: four times the steps, a sixteenth of the error."""
    flow = random_flow("reversible", seed=4, scale=0.5)
    p = end_distribution(flow, 256)
    found = (flows.flow_distributions(flow, n)[-1] for n in (16, 64))
    errors = [float((end - p).abs().max()) for end in found]
    assert errors[1] < 1e-4
    assert 8 < errors[0] / errors[1] < 32


@pytest.mark.parametrize("method", ["euler", "tau_leaping"])
def test_the_chain_ends_in_the_distribution_of_its_steps(method):
    """As often as it was drawn; and nearer to continuous time by the step."""
    flow = random_flow("reversible", seed=4, scale=2)
    distribution = flows.chain_distribution(flow, 5, method=method)
    assert float(distribution.sum()) == pytest.approx(1)
    n = 100_000
    drawn = flows.simulate(flow, n, 5, method=method, generator=make_generator(0))
    assert not drawn.n_overflows
    found = torch.bincount(states_to_index(drawn.x), minlength=len(distribution)) / n
    assert ((found - distribution).abs() < 5 * (distribution / n).sqrt()).all()
    exact = flows.flow_distributions(flow, 200)[-1]
    # Another number of steps would not pass as this one.
    assert ((exact - distribution).abs() > 5 * (distribution / n).sqrt()).any()
    errors = [
        float((flows.chain_distribution(flow, k, method=method) - exact).abs().sum())
        for k in (16, 64)
    ]
    assert 3 < errors[0] / errors[1] < 5
