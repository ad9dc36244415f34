"""Contrastive divergence, ratios, moments and roundings, by enumeration."""

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ebmtut import losses
from ebmtut.checks import DivergenceError
from ebmtut.energies import BoltzmannMachine, Ising, LatticeIsing, MLPEnergy
from ebmtut.exact import exact_probabilities
from ebmtut.flows import Flow, OddLatticeNetwork
from ebmtut.losses import (
    PersistentChains,
    bit_moments,
    contrastive_divergence_loss,
    match_moments,
    persistent_match_moments,
    pseudo_likelihood_loss,
    ratio_matching_loss,
)
from ebmtut.paths import AnnealingPath
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


class State(NamedTuple):
    x: torch.Tensor


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


# What a bit costs whose value has the chance p, given the others.
PRICES: dict[Callable[..., torch.Tensor], Callable[[torch.Tensor], torch.Tensor]] = {
    pseudo_likelihood_loss: lambda p: -p.log(),
    ratio_matching_loss: lambda p: (1 - p) ** 2,
}
each_loss = pytest.mark.parametrize("loss", PRICES, ids=lambda f: f.__name__)


@each_loss
@given(seed=st.integers(0, 10**6), shift=st.floats(-100, 100))
def test_value_and_gradient_by_enumeration(loss, seed, shift):
    u = normal(8, seed=seed).requires_grad_()
    counts = torch.randint(0, 4, (8,), generator=make_generator(seed))
    counts[seed % 8] += 1
    x = enumerate_states(3).repeat_interleave(counts, dim=0)
    # The constant goes: energies are known up to one.
    found = loss(lambda s: u[states_to_index(s)] + shift, x)
    p = torch.softmax(-u, dim=0).reshape(2, 2, 2)
    prices = sum(PRICES[loss](p / p.sum(dim=i, keepdim=True)) for i in range(3))
    want = (counts * prices.reshape(8)).sum() / counts.sum()
    assert torch.allclose(found, want, atol=1e-11)
    got, expected = (torch.autograd.grad(v, u)[0] for v in (found, want))
    assert torch.allclose(got, expected, atol=1e-11)


@each_loss
def test_closed_form_and_evaluation_agree(loss: Callable[..., torch.Tensor]) -> None:
    energy = Ising(normal(4, 4), normal(4, seed=1), learnable=True)
    x = enumerate_states(4)
    values = loss(energy, x), loss(lambda s: energy(s), x)
    assert torch.allclose(*values, atol=1e-12)
    slopes = [torch.autograd.grad(v, list(energy.parameters())) for v in values]
    for one, two in zip(*slopes, strict=True):
        assert torch.allclose(one, two, atol=1e-12)


def test_impossible_data_cost_one_a_bit_where_ratios_are_matched() -> None:
    field = torch.full((4,), 1e4).double()
    energy = Ising(torch.zeros(4, 4).double(), field)
    assert float(ratio_matching_loss(energy, torch.zeros(2, 4).double())) == 4
    assert float(ratio_matching_loss(energy, torch.ones(2, 4).double())) == 0


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


SIDE, N_TIMES, N_STATES = 5, 4, 16
# A rounding to eight binary digits is off by at most u = 2^-8 of the value. If its
# digits are anyhow (their logarithm uniform), its mean square is u^2 / 3 times the mean
# of 1 / m^2 over a mantissa m from 1 to 2, which is 3 / (8 ln 2).
ROUNDING = 2.0**-8 * math.sqrt(1 / (8 * math.log(2)))
PRODUCTS = {functional.linear, torch.Tensor.matmul}


def gradient(loss, module):
    found = torch.autograd.grad(loss, [*module.parameters()])
    return torch.cat([slope.double().flatten() for slope in found])


def flow(dtype):
    network = OddLatticeNetwork(
        SIDE, width=32, n_hidden=256, generator=make_generator(0)
    ).to(dtype)
    generator = make_generator(1)
    x = torch.randint(2, (N_TIMES, N_STATES, SIDE * SIDE), generator=generator)
    t = torch.rand(N_TIMES, generator=generator)
    path = AnnealingPath(LatticeIsing(SIDE, 0.2).to(dtype))
    return Flow(path, network), x.to(dtype), t.to(dtype)


def variance(dtype):
    made, x, t = flow(dtype)
    return gradient(losses.kolmogorov_variance_loss(made, x, t), made.network)


def residual(dtype):
    """Mean square with c_t held, estimated without the network."""
    made, x, t = flow(dtype)
    states, times = x.flatten(0, 1), t.repeat_interleave(x.shape[1])
    derivative = made.path.time_derivative(states).unflatten(0, x.shape[:2])
    slope = losses.log_partition_slope(derivative).repeat_interleave(x.shape[1])
    loss = losses.kolmogorov_residual(made, states, times, slope).square().mean()
    return gradient(loss, made.network)


def discrepancy(dtype):
    energy = MLPEnergy(32, 256, 4, generator=make_generator(0)).to(dtype)
    x = torch.randint(2, (16, 32), generator=make_generator(1)).to(dtype)
    negatives = {"n_negatives": 4, "generator": make_generator(2)}
    loss = losses.energy_discrepancy_loss(
        energy, x, losses.Grid(exact=False), **negatives
    )
    return gradient(loss, energy)


class Noise(torch.autograd.Function):
    """A relative error of a rounding's size there, and another in the backward pass."""

    @staticmethod
    def forward(ctx, x, generator):
        ctx.generator = generator
        return noisy(x, generator)

    @staticmethod
    def backward(ctx, slope):
        return noisy(slope, ctx.generator), None


def noisy(x, generator):
    size = ROUNDING * torch.randn(x.shape, generator=generator, dtype=x.dtype)
    return x * (1 + size)


class Roundings(TorchFunctionMode):
    """Independent errors wherever autocast rounds: products, and what works on them.

    A product rounds its factors and itself; in the backward pass what comes to it was
    rounded, and the slopes of both factors are. A SiLU rounds itself and its slope, and
    so does the sum of two products that it is given. What is rounded twice over, such
    as a SiLU on its way into a product, counts twice: hence a bound.
    """

    def __init__(self, seed):
        super().__init__()
        self.generator = make_generator(seed)
        self.seen = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        def rounded(x):
            return Noise.apply(x, self.generator)

        self.seen.add(function)
        if function in PRODUCTS:
            args = [rounded(x) if isinstance(x, torch.Tensor) else x for x in args]
        elif function is functional.silu:
            args = [rounded(args[0])]
        else:
            return function(*args, **(kwargs or {}))
        return rounded(function(*args, **(kwargs or {})))


def in_bfloat16(loss):
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        return loss(torch.float32)


def bound(loss, truth, n_draws):
    """Distance from the truth of slopes with independent errors of such a size.

    The mean of their lengths, and five of their standard deviations: what is rounded
    is another draw of such errors, as far as its digits are anyhow.
    """
    lengths = []
    for seed in range(n_draws):
        with Roundings(seed) as roundings:
            found = loss(torch.float64)
        assert roundings.seen & PRODUCTS and functional.silu in roundings.seen
        lengths.append((found - truth).norm() / truth.norm())
    lengths = torch.stack(lengths)
    return float(lengths.mean() + 5 * lengths.std())


@pytest.mark.parametrize(
    ("loss", "n_draws"), [(discrepancy, 6), (variance, 12), (residual, 12)]
)
def test_slopes_are_right_up_to_roundings(loss, n_draws):
    truth = loss(torch.float64)
    error = (in_bfloat16(loss) - truth).norm() / truth.norm()
    assert 0 < float(error) < bound(loss, truth, n_draws)
