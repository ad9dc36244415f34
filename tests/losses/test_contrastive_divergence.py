"""Contrastive divergence against gradients by enumeration."""

import math

import pytest
import torch

from ebmtut.energies import Ising
from ebmtut.losses import PersistentChains, contrastive_divergence_loss
from ebmtut.random import make_generator
from ebmtut.samplers import Sampler, gibbs, run_chain
from ebmtut.samplers.chain import StepInfo
from ebmtut.states import enumerate_states, states_to_index
from tests.shared import normal


def ising(seed=0):
    return Ising(normal(3, 3, seed=seed) / 2, normal(3, seed=seed + 1), learnable=True)


def table(values):
    return lambda x: values[states_to_index(x)]


def gradients(loss, energy):
    return torch.autograd.grad(loss, list(energy.parameters()))


def test_value_and_gradient_are_differences_of_means():
    """A model distribution in quarters, its states listed with multiplicity."""
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
    """Probabilities are multiples of 1/64, enumerated: E_data - E_model exactly."""
    counts = torch.tensor([1, 9, 4, 14, 6, 2, 25, 3])
    distribution = counts.double() / counts.sum()
    u = (-distribution.log()).requires_grad_()
    data = enumerate_states(3)[[0, 5, 5, 6, 7]]
    model = enumerate_states(3).repeat_interleave(counts, 0)
    by_loss = torch.autograd.grad(contrastive_divergence_loss(table(u), data, model), u)
    nll = table(u)(data).mean() + (-u).logsumexp(0)
    by_likelihood = torch.autograd.grad(nll, u)
    assert torch.allclose(by_loss[0], by_likelihood[0], atol=1e-14)


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
