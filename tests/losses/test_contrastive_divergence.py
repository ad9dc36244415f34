"""Contrastive divergence against gradients by enumeration."""

import math

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.energies import Ising
from ebmtut.exact import exact_mean, exact_probabilities
from ebmtut.losses import PersistentChains, contrastive_divergence_loss
from ebmtut.random import make_generator
from ebmtut.samplers import Sampler, gibbs, run_chain
from ebmtut.samplers.chain import StepInfo
from ebmtut.states import enumerate_states, states_to_index


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=make_generator(seed))


def ising(seed=0):
    return Ising(normal(3, 3, seed=seed) / 2, normal(3, seed=seed + 1), learnable=True)


def table(values):
    return lambda x: values[states_to_index(x)]


def gradients(loss, energy):
    return torch.autograd.grad(loss, list(energy.parameters()))


def test_value_and_gradient_are_differences_of_means():
    """A model law in quarters, its states listed with multiplicity."""
    u = normal(4).requires_grad_()
    states = enumerate_states(2)
    data = states[[0, 0, 3]]
    model = states[[0, 1, 1, 2]]
    loss = contrastive_divergence_loss(table(u), data, model)
    want = (2 * u[0] + u[3]) / 3 - (u[0] + 2 * u[1] + u[2]) / 4
    assert torch.allclose(loss, want, atol=1e-14)
    (gradient,) = torch.autograd.grad(loss, u)
    want = torch.tensor([2 / 3 - 1 / 4, -1 / 2, -1 / 4, 1 / 3]).double()
    assert torch.allclose(gradient, want, atol=1e-15)


def test_gradient_is_that_of_the_likelihood():
    """A model law of multiples of 1/64, enumerated: E_data - E_model exactly."""
    counts = torch.tensor([1, 9, 4, 14, 6, 2, 25, 3])
    distribution = counts.double() / counts.sum()
    u = (-distribution.log()).requires_grad_()
    data = enumerate_states(3)[[0, 5, 5, 6, 7]]
    model = enumerate_states(3).repeat_interleave(counts, 0)
    by_loss = torch.autograd.grad(contrastive_divergence_loss(table(u), data, model), u)
    nll = table(u)(data).mean() + (-u).logsumexp(0)
    by_likelihood = torch.autograd.grad(nll, u)
    assert torch.allclose(by_loss[0], by_likelihood[0], atol=1e-14)


def test_gradient_of_an_ising_model_with_its_own_samples():
    """Long Gibbs chains: within 5 standard errors of the exact gradient."""
    energy, n = ising(), 4000
    data = enumerate_states(3)[[1, 2, 2, 7]]
    start = (normal(n, 3, seed=9) > 0).double()
    model = run_chain(
        gibbs(energy, order="systematic"), start, 30, generator=make_generator(1)
    ).x_final
    got = gradients(contrastive_divergence_loss(energy, data, model), energy)

    nll = energy(data).mean() + torch.logsumexp(-energy(enumerate_states(3)), 0)
    want = gradients(nll, energy)
    # An entry of the gradient is a mean of products of spins, of variance
    # at most 1; a coupling counts an edge once in each triangle.
    for a, b in zip(got, want, strict=True):
        assert (a - b).abs().max() < 5 / math.sqrt(n)
        assert (b.abs() > 10 / math.sqrt(n)).any()


def test_a_model_that_fits_feels_no_force():
    """Exact means on both sides: the gradient is E_data - E_model = 0."""
    energy = ising(2)
    p = exact_probabilities(energy, 3).exp().detach()
    grad_data = gradients((p * energy(enumerate_states(3))).sum(), energy)
    mean = exact_mean(energy, lambda x: x).detach()
    samples = torch.multinomial(
        p, 40_000, replacement=True, generator=make_generator(0)
    )
    x = enumerate_states(3)[samples]
    half = len(x) // 2
    loss = contrastive_divergence_loss(energy, x[:half], x[half:])
    for gradient in gradients(loss, energy):
        assert gradient.abs().max() < 5 * math.sqrt(2 / half)
    assert any(g.abs().max() > 0.2 for g in grad_data)
    assert (x.mean(0) - mean).abs().max() < 5 * 0.5 / math.sqrt(len(x))


def test_a_constant_changes_nothing():
    energy, data = ising(), enumerate_states(3)[[1, 2]]
    model = enumerate_states(3)[[0, 4, 6]]
    one = contrastive_divergence_loss(energy, data, model)
    other = contrastive_divergence_loss(lambda x: energy(x) + 7.0, data, model)
    assert torch.allclose(one, other, atol=1e-13)


@pytest.mark.parametrize(
    ("x", "x_model", "message"),
    [
        (
            torch.full((2, 3), 0.5),
            torch.zeros(2, 3),
            r"x must hold only 0 and 1, got 0",
        ),
        (
            torch.zeros(2, 3),
            torch.full((2, 3), 2.0),
            r"x_model must hold only .* got 2",
        ),
        (torch.zeros(2, 3), torch.zeros(2, 4), r"x_model must have shape \(any, 3\)"),
        (torch.zeros(2, 3).long(), torch.zeros(2, 3), r"x must be a floating tensor"),
        (torch.zeros(0, 3), torch.zeros(2, 3), r"len\(x\) must be an integer >= 1"),
        (torch.zeros(2, 3), torch.zeros(0, 3), r"len\(x_model\) must be an integer"),
    ],
)
def test_bad_input_is_refused(x, x_model, message):
    def energy(x):
        raise AssertionError("the energy was evaluated")

    with pytest.raises(InputError, match=message):
        contrastive_divergence_loss(energy, x, x_model)


# Persistent chains

COUNTER = Sampler(
    init=lambda x: (x,),
    # A sampler without randomness: it flips the last site.
    step=lambda state, *, generator: (
        State(torch.cat([state[0][:, :-1], 1 - state[0][:, -1:]], 1)),
        StepInfo(torch.ones(len(state[0])), torch.ones(len(state[0]))),
    ),
)


class State(tuple):
    """A state of one field."""

    def __new__(cls, x):
        return super().__new__(cls, (x,))

    @property
    def x(self):
        return self[0]


def test_chains_go_on_where_they_were_and_keep_their_tensor():
    start = enumerate_states(3)
    chains = PersistentChains(start, n_steps=3)
    tensor = chains.x
    first = chains.advance(COUNTER, start, generator=make_generator(0)).clone()
    assert torch.equal(first[:, :2], start[:, :2])
    assert torch.equal(first[:, 2], 1 - start[:, 2])  # three flips
    second = chains.advance(COUNTER, start, generator=make_generator(0))
    assert torch.equal(second, start)
    assert second is chains.x is tensor
    assert torch.equal(start, enumerate_states(3))  # a copy was moved


def test_chains_advance_as_one_unbroken_chain():
    sampler, start = gibbs(ising()), enumerate_states(3)
    chains = PersistentChains(start, n_steps=4)
    generator = make_generator(2)
    for _ in range(3):
        chains.advance(sampler, start, generator=generator)
    want = run_chain(sampler, start, 12, generator=make_generator(2)).x_final
    assert torch.equal(chains.x, want)


@pytest.mark.parametrize("probability", [0.0, 0.1, 1.0])
def test_chains_restart_from_the_data_with_their_probability(probability):
    """Chains start with a first bit of 0, data has 1; the sampler keeps it."""
    n = 20_000
    chains = PersistentChains(
        torch.zeros(n, 3), n_steps=2, restart_probability=probability
    )
    data = torch.tensor([[1.0, 0, 0], [1.0, 1, 0]])
    x = chains.advance(COUNTER, data, generator=make_generator(3))
    restarted = float(x[:, 0].mean())
    error = math.sqrt(probability * (1 - probability) / n)
    assert abs(restarted - probability) <= 5 * error
    if probability:  # either data point as often
        share = float(x[x[:, 0] == 1, 1].mean())
        assert abs(share - 0.5) < 5 * 0.5 / math.sqrt(probability * n)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"n_steps": 1, "restart_probability": 1.5},
            r"restart_probability must be a number in \[0, 1\], got 1.5",
        ),
        ({"n_steps": 1, "x": torch.full((2, 3), 2.0)}, r"x must hold only 0 and 1"),
    ],
)
def test_chains_refuse_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        PersistentChains(**{"x": torch.zeros(2, 3), **arguments})


def test_chains_refuse_data_of_another_width():
    chains = PersistentChains(torch.zeros(4, 3), n_steps=1, restart_probability=0.5)
    with pytest.raises(InputError, match=r"data must have shape \(any, 3\)"):
        chains.advance(COUNTER, torch.zeros(4, 1), generator=make_generator(0))


def test_energies_of_another_shape_are_refused():
    x = torch.zeros(2, 3)
    with pytest.raises(InputError, match=r"energy\(x\) must have shape .*, 1\)$"):
        contrastive_divergence_loss(lambda y: y.sum(1, keepdim=True), x, x)


def test_chains_cannot_start_afresh_from_no_data():
    chains = PersistentChains(torch.zeros(2, 3), n_steps=1, restart_probability=0.5)
    with pytest.raises(InputError, match=r"len\(data\) must be an integer >= 1, got 0"):
        chains.advance(COUNTER, torch.zeros(0, 3), generator=make_generator(0))
