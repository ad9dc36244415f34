from typing import NamedTuple

import pytest
import torch

from ebmtut.checks import DivergenceError
from ebmtut.energies import BoltzmannMachine, Ising
from ebmtut.exact import exact_probabilities
from ebmtut.losses import bit_moments, match_moments, persistent_match_moments
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states


def test_moments_by_loops():
    x = torch.tensor([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]).double()
    mean, second = bit_moments(x)
    assert mean.tolist() == [1.0, 0.5, 0.5]
    assert second.tolist() == [[1.0, 0.5, 0.5], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]


def test_an_exact_sampler_recovers_the_moments():
    """At the end the model's own moments are the data's, up to sampling noise."""
    x = enumerate_states(3).double()[[0, 0, 1, 3, 3, 5, 6, 7]]
    generator = make_generator(0)

    def sample(model):
        p = exact_probabilities(model, 3).detach().exp()
        drawn = p.multinomial(2000, True, generator=generator)
        return enumerate_states(3).double()[drawn]

    steps = []
    model = match_moments(
        x,
        sample,
        n_steps=400,
        learning_rate=0.02,
        on_step=lambda step, model: steps.append(step),
    )
    assert steps == list(range(400))
    weight = model.weight.detach()
    assert torch.equal(weight, weight.T) and not weight.diagonal().any()
    p = exact_probabilities(model, 3).detach().exp()
    states = enumerate_states(3).double()
    mean, second = bit_moments(x)
    # Adam ends within some steps of 0.02 of the optimum, and a parameter moves
    # a moment by at most its variance, 1/4: ten steps' worth is 0.05.
    assert (p @ states - mean).abs().max() < 0.05
    assert ((states.T * p) @ states - second).abs().max() < 0.05


def test_a_penalty_keeps_weights_small():
    x = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double().repeat(4, 1)

    def independent(model):
        return torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]).double()

    # The pull on w is 1/4 throughout; a penalty above it wins.
    free, held = (
        match_moments(x, independent, n_steps=20, learning_rate=0.1, penalty=penalty)
        for penalty in (0.0, 0.5)
    )
    assert free.weight[0, 1] > 1 > 0.2 > held.weight[0, 1].abs()


def test_in_spins_it_climbs_the_likelihood_of_spins():
    """One step of Adam moves J and h by the rate, the way the exact gradient points."""
    generator = make_generator(0)
    x = enumerate_states(3).double()[[0, 0, 1, 3, 3, 5, 6, 7]]
    samples = enumerate_states(3).double()[[0, 1, 1, 2, 4, 7, 7, 6]]
    coupling = torch.zeros(3, 3).double().requires_grad_()
    field = torch.zeros(3).double().requires_grad_()

    def score(bits):
        s = 2 * bits - 1
        return ((s @ coupling) * s).sum(1) + s @ field

    (score(samples).mean() - score(x).mean()).backward()
    steps = [-0.1 * coupling.grad.fill_diagonal_(0).sign()]
    steps.append(-0.1 * field.grad.sign())
    model = match_moments(
        x, lambda model: samples, n_steps=1, learning_rate=0.1, variables="spins"
    )
    want = BoltzmannMachine.from_ising(Ising(*steps))
    states = torch.rand(5, 3, generator=generator).double().round()
    # Adam's first step is the rate times g / (|g| + 1e-8), and no g is tiny.
    found, wanted = model(states), want(states)
    torch.testing.assert_close(found - found[0], wanted - wanted[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_samples_that_are_not_finite_stop_it(value):
    models = []

    def sample(model):
        x = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        if len(models) == 3:
            x[1, 1] = value
        return x

    with pytest.raises(DivergenceError, match="learning diverged at step 3") as error:
        match_moments(
            torch.zeros(4, 2),
            sample,
            n_steps=9,
            on_step=lambda step, model: models.append(model),
        )
    assert error.value.step == 3
    assert all(p.isfinite().all() for p in models[-1].parameters())


def test_samples_go_on_from_where_they_were():

    class Walk(NamedTuple):
        x: torch.Tensor
        n_moves: int

    def advance(walk, model):
        return Walk(walk.x.roll(1, 0), walk.n_moves + 1)

    x = torch.tensor([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    start = Walk(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 0)
    walked, end = persistent_match_moments(x, advance, start, n_steps=7)
    assert end.n_moves == 7 and start.n_moves == 0
    same = match_moments(x, lambda model: start.x, n_steps=7)
    assert torch.equal(walked.weight, same.weight) and walked.weight[0, 1] > 0
