"""The theory of energy discrepancy, checked on spaces that can be listed.

Theorem 1, Lemmas 1 and 2, Appendix B.1 and B.2 of Schröder et al. (2023).
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.energies import Ising
from ebmtut.exact import (
    bernoulli_channel,
    channel_classes,
    contrastive_potential,
    exact_energy_discrepancy,
    exact_probabilities,
    grid_channel,
    pooling_channel,
)
from ebmtut.states import enumerate_states, states_to_index
from tests.shared import normal
from tests.transition_matrix import kernel_matrix

CHANNELS = {
    "bernoulli": bernoulli_channel(4, 0.2),
    "bernoulli-rare": bernoulli_channel(4, 0.01),
    "grid": grid_channel(4),
    "pooling": pooling_channel(4, 2),
    "popcount": pooling_channel(4, 4),
}
every_channel = pytest.mark.parametrize("log_q", CHANNELS.values(), ids=CHANNELS)


def random_distribution(n=16, seed=0):
    return torch.log_softmax(normal(n, seed=seed), dim=0)


def random_ising(n_sites, seed=0):
    return Ising(
        normal(n_sites, n_sites, seed=seed) / 2,
        normal(n_sites, seed=seed + 1),
        learnable=True,
    )


def kl(log_p, log_q):
    return (log_p.exp() * (log_p - log_q)).sum()


def push(log_p, log_q):
    """Log-probabilities of the y that can be reached, where x is distributed as p."""
    log_y = torch.logsumexp(log_p[:, None] + log_q, dim=0)
    return log_y[torch.isfinite(log_y)]


# Definition 1 and its channels


def test_definition_by_loops():
    log_p, log_q, u = (random_distribution(), CHANNELS["bernoulli"], normal(16, seed=5))
    p, q = log_p.exp(), log_q.exp()
    want = 0.0
    for x in range(16):
        want += float(p[x] * u[x])
        for y in range(16):
            inner = sum(float(q[z, y] * math.exp(-u[z])) for z in range(16))
            want -= float(p[x] * q[x, y]) * -math.log(inner)
    got = exact_energy_discrepancy(u, log_p, log_q)
    assert float(got) == pytest.approx(want, abs=1e-12)


@every_channel
def test_channels_are_channels(log_q):
    assert torch.allclose(log_q.exp().sum(1), torch.ones(16).double())


def test_bernoulli_channel_by_products():
    x = enumerate_states(3)
    for i in range(8):
        for j in range(8):
            factors = [0.3 if a != b else 0.7 for a, b in zip(x[i], x[j], strict=True)]
            got = float(bernoulli_channel(3, 0.3)[i, j].exp())
            assert got == pytest.approx(math.prod(factors))


def test_grid_channel_reaches_the_neighbours():
    q = grid_channel(3).exp()
    assert q[0b010].nonzero().flatten().tolist() == [0b000, 0b011, 0b110]
    assert q[0b010].max() == pytest.approx(1 / 3)


def test_pooling_channel_confuses_block_permutations():
    log_q = pooling_channel(4, 2)
    assert log_q.shape == (16, 9)
    y = log_q.argmax(1)
    assert y[0b0110] == y[0b1001] == y[0b0101]
    assert y[0b0110] != y[0b0011]
    assert (torch.isfinite(log_q).sum(1) == 1).all()
    assert torch.isfinite(pooling_channel(4, 4)).sum(0).tolist() == [1, 4, 6, 4, 1]


def test_unreachable_outputs_cost_nothing():
    log_q = CHANNELS["grid"]
    wider = torch.cat([log_q, torch.full((16, 3), -math.inf).double()], dim=1)
    u = normal(16, seed=1).requires_grad_()
    narrow_ed = exact_energy_discrepancy(u, random_distribution(), log_q)
    ed = exact_energy_discrepancy(u, random_distribution(), wider)
    assert torch.equal(ed, narrow_ed)
    assert torch.isfinite(torch.autograd.grad(ed, u)[0]).all()
    assert contrastive_potential(u, wider)[-1] == math.inf


def test_energies_may_be_functions_and_data_sparse():
    energy = random_ising(4)
    log_p = torch.full((16,), -math.inf).double()
    log_p[3] = 0.0
    as_values = exact_energy_discrepancy(
        energy(enumerate_states(4)), log_p, CHANNELS["grid"]
    )
    as_function = exact_energy_discrepancy(energy, log_p, CHANNELS["grid"])
    assert torch.isfinite(as_values)
    assert torch.equal(as_values, as_function)


@every_channel
@given(seed=st.integers(0, 1000), constant=st.floats(-1e9, 1e9))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_a_constant_changes_nothing(log_q, seed, constant):
    u, log_p = normal(16, seed=seed), random_distribution(seed=seed + 1)
    one = exact_energy_discrepancy(u, log_p, log_q)
    lost = 1e-11 + 2**-51 * abs(constant)  # in the sum itself
    for distribution, more in ((log_p, 0), (log_p.float(), 256 * 2**-23)):
        other = exact_energy_discrepancy(u + constant, distribution, log_q)
        assert float(one) == pytest.approx(float(other), abs=lost + more)


# Theorem 1: convexity and the minimiser


@every_channel
def test_gradient_vanishes_at_the_data_energy(log_q):
    log_p = random_distribution(seed=3)
    u = (-log_p + 1.7).requires_grad_()
    loss = exact_energy_discrepancy(u, log_p, log_q)
    (gradient,) = torch.autograd.grad(loss, u)
    assert gradient.abs().max() < 1e-14
    # ... and only there, of the energies that differ by more than a constant.
    other = (-log_p).detach().roll(3).requires_grad_()
    loss = exact_energy_discrepancy(other, log_p, log_q)
    assert torch.autograd.grad(loss, other)[0].abs().max() > 1e-4


@every_channel
def test_second_variation_is_the_mean_posterior_variance(log_q):
    u, log_p, h = (normal(16, seed=7), random_distribution(), normal(16, seed=8))
    hessian = torch.autograd.functional.hessian(
        lambda v: exact_energy_discrepancy(v, log_p, log_q), u
    )
    assert torch.linalg.eigvalsh(hessian).min() > -1e-14
    reached = log_q[:, torch.isfinite(log_q).any(0)]
    posterior = torch.softmax(reached - u[:, None], dim=0)
    variance = posterior.T @ h**2 - (posterior.T @ h) ** 2
    want = push(log_p, log_q).exp() @ variance
    assert float(h @ hessian @ h) == pytest.approx(float(want), abs=1e-13)


@every_channel
def test_free_constants_are_the_channel_classes(log_q):
    # Where the posterior of x given y is positive but Var(h|y) = 0, the loss
    # is flat along h: Theorem 1's minimiser is unique on each class only.
    log_p = random_distribution()
    hessian = torch.autograd.functional.hessian(
        lambda v: exact_energy_discrepancy(v, log_p, log_q), -log_p
    )
    classes = channel_classes(log_q)
    n_classes = int(classes.max()) + 1
    eigenvalues = torch.linalg.eigvalsh(hessian)
    assert (eigenvalues[:n_classes].abs() < 1e-14).all()
    assert (eigenvalues[n_classes:] > 1e-5).all()
    shift = normal(n_classes, seed=2)[classes]
    u = normal(16, seed=9)
    flat = exact_energy_discrepancy(u + shift, log_p, log_q)
    want = float(exact_energy_discrepancy(u, log_p, log_q))
    assert float(flat) == pytest.approx(want, abs=1e-13)


def test_classes_of_the_three_perturbations():
    x = enumerate_states(4)
    assert channel_classes(CHANNELS["bernoulli"]).tolist() == [0] * 16
    # A grid step and back keeps the parity.
    parity = x.sum(1) % 2
    grid = channel_classes(CHANNELS["grid"])
    assert torch.equal(grid, parity.long())
    # Pooling keeps the block sums, so that every y is a class of its own.
    assert int(channel_classes(CHANNELS["pooling"]).max()) + 1 == 9
    assert int(channel_classes(CHANNELS["popcount"]).max()) + 1 == 5


def test_pooling_learns_nothing_of_saturated_blocks():
    log_p, log_q = random_distribution(), CHANNELS["pooling"]
    # A state of saturated blocks is alone with its y: no gradient ever.
    start = normal(16, seed=4).requires_grad_()
    loss = exact_energy_discrepancy(start, log_p, log_q)
    (gradient,) = torch.autograd.grad(loss, start)
    saturated = [0b0000, 0b0011, 0b1100, 0b1111]
    assert gradient[saturated].abs().max() < 1e-15
    others = [i for i in range(16) if i not in saturated]
    assert gradient[others].abs().min() > 1e-4


# Appendix B.1 and B.2


@every_channel
def test_contraction_of_the_divergence(log_q):
    log_p, u = random_distribution(), 2 * normal(16, seed=1)
    log_model = torch.log_softmax(-u, dim=0)
    push_p, push_model = push(log_p, log_q), push(log_model, log_q)
    contraction = kl(log_p, log_model) - kl(push_p, push_model)
    constant = -(log_p.exp() @ log_p) + push_p.exp() @ push_p
    ed = exact_energy_discrepancy(u, log_p, log_q)
    assert float(ed - constant) == pytest.approx(float(contraction), abs=1e-13)
    assert contraction > 0  # the data processing inequality


def metropolis_matrix(energy, n_sites):
    """Single-flip Metropolis kernel with a uniform choice of the site."""
    x = enumerate_states(n_sites)
    log_p = exact_probabilities(energy, n_sites).detach()

    def row(state):
        probabilities = torch.zeros(len(x), 2**n_sites, dtype=torch.float64)
        here = states_to_index(state)
        rows = torch.arange(len(x))
        for site in range(n_sites):
            y = state.clone()
            y[:, site] = 1 - y[:, site]
            there = states_to_index(y)
            accept = (log_p[there] - log_p[here]).clamp(max=0).exp()
            probabilities[rows, there] += accept / n_sites
        probabilities[rows, here] += 1 - probabilities.sum(1)
        return probabilities

    return kernel_matrix(row, n_sites)


def test_detailed_balance_gives_contrastive_divergence():
    energy = random_ising(3)
    x = enumerate_states(3)
    log_p = random_distribution(8, seed=6)
    p, q = log_p.exp(), metropolis_matrix(energy, 3)
    model = exact_probabilities(energy, 3).detach().exp()
    flow = model[:, None] * q
    assert torch.allclose(flow, flow.T, rtol=0, atol=1e-16)
    # The contrastive potential is the energy itself ...
    u = energy(x)
    assert torch.allclose(contrastive_potential(u, q.log()), u, rtol=0, atol=1e-13)
    # ... so that ED is the contrast of data and one step from it, and its
    # gradient, with that potential put in, is that of CD-1.
    ed = exact_energy_discrepancy(u, log_p, q.log())
    one_step = p @ u - (p @ q) @ u
    assert torch.allclose(ed, one_step, rtol=0, atol=1e-13)
    # Theorem 1 needs q fixed, under the potential too. Its gradient is then
    # a posterior mean, one step further: exactly that of CD-2.
    two_steps = p @ u - (p @ q @ q) @ u
    ed_gradient = torch.autograd.grad(ed, energy.coupling, retain_graph=True)[0]
    cd1 = torch.autograd.grad(one_step, energy.coupling, retain_graph=True)[0]
    cd2 = torch.autograd.grad(two_steps, energy.coupling)[0]
    assert torch.allclose(ed_gradient, cd2, rtol=0, atol=1e-13)
    assert (ed_gradient - cd1).abs().max() > 1e-2


@pytest.mark.cuda
def test_on_the_gpu():
    log_p, log_q = random_distribution(), CHANNELS["grid"]
    energy = random_ising(4)
    on_cpu = exact_energy_discrepancy(energy, log_p, log_q)
    on_gpu = exact_energy_discrepancy(energy.cuda(), log_p.cuda(), log_q.cuda())
    assert torch.allclose(on_gpu.cpu(), on_cpu)


@pytest.mark.parametrize("channel", CHANNELS)
def test_single_precision_distributions_go_with_the_channels(channel):
    """The channels are float64; 16 and 256 terms of size one lose some 1e-6."""
    distribution, energy = random_distribution(16), normal(16)
    exact = exact_energy_discrepancy(energy, distribution, CHANNELS[channel])
    single = exact_energy_discrepancy(
        energy.float(), distribution.float(), CHANNELS[channel]
    )
    assert single.dtype == torch.float32
    assert float(single) == pytest.approx(float(exact), abs=256 * 2**-23)
