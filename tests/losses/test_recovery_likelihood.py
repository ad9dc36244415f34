"""Recovery likelihood and score matching on a Gaussian family, in closed form."""

import math

import pytest
import torch
from torch import nn

from ebmtut.checks import DivergenceError, InputError
from ebmtut.energies import PerceptronEnergy, conditional_energy
from ebmtut.losses import (
    DenoisingScoreMatching,
    RecoveryLikelihood,
    denoising_score_matching_loss,
    recovery_likelihood_loss,
    saturated_gap,
)
from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator
from ebmtut.samplers import ConditionalChain
from ebmtut.samplers.conditional import draw_conditional
from ebmtut.samplers.langevin import langevin_move, normals, vector_state
from ebmtut.training import TrainConfig, train
from tests.losses.gaussian_family import NOISE, SIGMA, A, Parabola, V, pairs


def posterior(theta):
    """Precision of x given the state above, and its mean over that state."""
    precision = theta + A**2 / SIGMA**2
    return precision, A / (SIGMA**2 * precision)


def exact_gradient(theta):
    """Derivative of the negative recovery log-likelihood, in expectation."""
    precision, slope = posterior(theta)
    return (V - slope**2 * (A**2 * V + SIGMA**2) - 1 / precision) / 2


def exact_samples(theta, above, seed=1):
    precision, slope = posterior(theta)
    noise = torch.randn(above.shape, dtype=above.dtype, generator=make_generator(seed))
    return slope * above + noise / math.sqrt(precision)


def gradient(loss, energy):
    return float(torch.autograd.grad(loss, energy.theta)[0].sum())


@pytest.mark.parametrize("theta", [0.5, 1 / V, 3.0])
def test_the_gradient_is_that_of_the_recovery_likelihood(theta):
    n = 100_000
    x, above, level = pairs(n)
    sample = exact_samples(theta, above)
    energy = Parabola(theta)
    ours = gradient(recovery_likelihood_loss(energy, x, sample, level), energy)
    terms = (x**2 - sample**2) / 2
    assert ours == pytest.approx(float(terms.mean()), abs=1e-12)
    error = 5 * float(terms.std()) / math.sqrt(n)
    assert abs(ours - exact_gradient(theta)) < error
    if theta == 1 / V:
        # Data and samples are exchangeable given the state above: the variance
        # is V^2 - Cov(x, sample)^2, and the truth is where the gradient is zero.
        assert exact_gradient(theta) == pytest.approx(0, abs=1e-12)
        covariance = V - 1 / posterior(theta)[0]
        predicted = V**2 - covariance**2
        # Five standard errors of a variance, from the terms' own fourth moment.
        squares = terms**2
        spread = 5 * float(squares.std()) / math.sqrt(n)
        assert abs(float(squares.mean()) - predicted) < spread


def test_one_langevin_step_has_the_gradient_of_the_normal_approximation():
    """Appendix A.5, exact where the energy's theta-derivative is linear in x."""

    class Slope(nn.Module):
        def __init__(self):
            super().__init__()
            self.theta = nn.Parameter(torch.tensor([0.8], dtype=torch.float64))

        def forward(self, x, level):
            return self.theta[level] * x[:, 0]

    energy = Slope()
    x, above, level = pairs(50)
    start = above / A
    conditional = conditional_energy(energy, NOISE, above, level)
    state = vector_state(conditional, start)
    noise = torch.randn(50, 1, dtype=torch.float64, generator=make_generator(2))
    # Both signs of the noise: their mean is the step's expectation.
    ends = [
        langevin_move(
            conditional,
            state,
            math.sqrt(2) * SIGMA / A,
            lambda like, sign=sign: sign * noise,
            adjusted=False,
        )[0].x
        for sign in (1, -1)
    ]
    ours = sum(
        gradient(recovery_likelihood_loss(energy, x, end, level), energy)
        for end in ends
    )
    width = SIGMA / A
    mean = start - width**2 * energy.theta
    log_likelihood = -((x - mean) ** 2 / (2 * width**2)).mean()
    assert ours / 2 == pytest.approx(gradient(-log_likelihood, energy), rel=1e-12)


def test_a_single_sigma_of_one_is_the_marginal_likelihood():
    """Long chains from white noise: the gradient is (V - 1 / theta) / 2."""
    n, theta = 60_000, 2.0
    x, _, _ = pairs(n)
    energy = Parabola(theta)
    loss = RecoveryLikelihood(NoiseLevels((1.0,)), ConditionalChain(25, 1.0))
    ours = gradient(loss(energy, x, generator=make_generator(4)), energy)
    spread = math.sqrt(V**2 / 2 + 1 / theta**2 / 2)
    assert abs(ours - (V - 1 / theta) / 2) < 5 * spread / math.sqrt(n)


def test_training_finds_every_level_of_a_gaussian():
    """Two precisions by stochastic gradients; the tolerance is their last noise."""
    noise = NoiseLevels((0.5, 1.0))
    energy = Parabola(2.0, 2.0)

    def sample(n, *, generator):
        x = torch.randn(n, 1, dtype=torch.float64, generator=generator)
        return math.sqrt(V) * x

    loss = RecoveryLikelihood(noise, ConditionalChain(8, 0.9))
    config = TrainConfig(150, 512, 0.04, ema_decay=0.92, precision="float32")
    fitted = train(energy, loss, sample, config, generator=make_generator(0)).energy
    truth = [1 / (noise.signals[t] ** 2 * V + noise.noises[t] ** 2) for t in (0, 1)]
    # The learning rate falls to zero: what is left is the noise of about the last
    # 25 batches of 256 rows a level, twice the error of as many data, times five.
    error = 5 * 2 * math.sqrt(2 / (25 * 256))
    assert fitted.theta.tolist() == pytest.approx(truth, rel=error)


def test_weights_are_those_of_the_papers_code():
    noise = NoiseLevels((0.2, 0.4))
    x = pairs(40)[0]
    chain = ConditionalChain(2, 0.3)
    energy = Parabola(1.0, 1.0)
    slopes = [
        torch.autograd.grad(
            RecoveryLikelihood(noise, chain, weighted=weights)(
                energy, x, generator=make_generator(3)
            ),
            energy.theta,
        )[0]
        for weights in (False, True, (3.0, 1.0))
    ]
    for slope, want in zip(slopes[1:], ([1.0, 0.5], [3.0, 1.0]), strict=True):
        assert slope / slopes[0] == pytest.approx(torch.tensor(want).double())


def test_the_regulariser_holds_the_energies():
    energy = Parabola(2.0)
    x = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
    level = torch.zeros(2, dtype=torch.long)
    loss = recovery_likelihood_loss(energy, x, x, level, regulariser=0.1)
    assert loss.item() == pytest.approx(0.1 * (1 + 81) / 2)


def test_the_alarm_names_step_level_and_largest_energy():
    class Collapsing(Parabola):
        def forward(self, x, level):
            return super().forward(x, level) * torch.where(level == 1, -1e6, 1.0)

    loss = RecoveryLikelihood(
        NoiseLevels((0.5, 0.6)), ConditionalChain(5, 0.4, adjusted=False)
    )
    match = r"stopped at step 0: the energy gap .* level 1, largest energy \d"
    with pytest.raises(DivergenceError, match=match) as caught:
        train(
            Collapsing(1.0, 1.0),
            RecoveryLikelihood(NoiseLevels((0.5, 0.6)), ConditionalChain(2, 0.001)),
            lambda n, *, generator: (
                30 * torch.randn(n, 1, generator=generator).double()
            ),
            TrainConfig(2, 16, precision="float32"),
            generator=make_generator(0),
        )
    assert caught.value.step == 0
    with pytest.raises(DivergenceError, match="chains diverged at level 1"):
        loss(
            lambda x, level: -1e9 * (x**4).sum(1) * level,
            pairs(20)[0],
            generator=make_generator(0),
        )


def test_step_sizes_follow_the_acceptance_rate():
    """Steep energies ask for short steps; where hardly any is refused, longest ones."""
    noise = NoiseLevels((0.5, 0.6))
    loss = RecoveryLikelihood(noise, ConditionalChain(5, 0.5), target_acceptance=0.7)
    energy = Parabola(400.0, 1.0)
    x = pairs(500)[0]
    for k in range(150):
        loss(energy, x / 20, generator=make_generator(k))
    chain = ConditionalChain(5, tuple(loss.step_sizes.tolist()))
    rates = []
    for t in (0, 1):
        level, generator = torch.full((500,), t), make_generator(7)
        here = noise.perturb(x / 20, level, generator=generator)
        above = noise.step(here, level, generator=generator)
        _, rate = draw_conditional(
            energy, noise, above, level, chain, normals(generator)
        )
        rates.append(float(rate.mean()))
    assert 0.6 < rates[0] < 0.8
    assert loss.step_sizes[1] == 0.6 and rates[1] > 0.7
    with pytest.raises(InputError, match="target_acceptance needs adjusted=True"):
        RecoveryLikelihood(
            noise, ConditionalChain(5, adjusted=False), target_acceptance=0.7
        )


def test_a_saturated_gap_pulls_failed_chains_down_and_bounds_every_row():
    c = 5.0
    gap = torch.tensor([-1e9, -50.0, -5.0, -1.0, 0.0, 4.0, 5.0, 50.0, 1e9])
    gap = gap.double().requires_grad_()
    value = saturated_gap(gap, c)
    (slope,) = torch.autograd.grad(value.sum(), gap)
    inside = (gap >= -c) & (gap <= c)
    assert torch.equal(value[inside], gap[inside])
    assert torch.equal(slope[inside], torch.ones_like(slope[inside]))
    # Beyond c the slope is c / gap: of its own sign above, turned round below.
    assert torch.allclose(slope[~inside], c / gap[~inside])
    assert bool((slope * gap.abs() <= c + 1e-9).all())
    above = value[gap > c]
    want = c * (1 + torch.log(gap[gap > c] / c))
    assert torch.allclose(above, want)


def test_an_alarm_tells_of_a_gap_that_stays_saturated():
    """Where most chains end far above the data, with energies that are finite."""
    energy, usual = Parabola(1.0, 2.0), torch.zeros((), dtype=torch.float64)
    level = torch.tensor([0, 0, 1, 1, 1])
    x = torch.zeros(5, 1, dtype=torch.float64)
    # Gaps of 0, -0.5, -18, -25 and -36.
    ends = torch.tensor([0.0, 1.0, 18**0.5, 5.0, 6.0], dtype=torch.float64)[:, None]
    of = {"trusted_gap": 30.0, "usual_gap": usual}
    # The running mean is -18 (1 - 0.99^n): below -15 from n = 179 on.
    for n in range(1, 179):
        recovery_likelihood_loss(energy, x, ends, level, **of)
        assert float(usual) == pytest.approx(-18 * (1 - 0.99**n))
    with pytest.raises(DivergenceError) as caught:
        recovery_likelihood_loss(energy, x, ends, level, **of)
    words = str(caught.value)
    assert "is usually -15, less than -c / 2 = -15" in words
    assert "worst at level 1, largest energy 36" in words and "\n" not in words
    # The half of smaller terms may fail: the test of clipped terms is for that.
    usual.zero_()
    ends[2] = 1.0
    for _ in range(500):
        recovery_likelihood_loss(energy, x, ends, level, **of)


def test_training_stops_where_chains_overshoot_for_long():
    """A step beyond 2 / sqrt(curvature) leads farther up the other side."""

    class Steep(Parabola):
        def forward(self, x, level):
            # Raised and lowered, but never steeper or flatter.
            return super().forward(x.detach(), level) * 0 + 50 * (x**2).sum(1)

    def run(patient):
        return train(
            Steep(1.0),
            RecoveryLikelihood(
                NOISE,
                ConditionalChain(1, 1.0, adjusted=False),
                trusted_gap=10.0,
                largest_gap=None,
                patient=patient,
            ),
            lambda n, *, generator: torch.randn(n, 1, generator=generator).double(),
            TrainConfig(100, 16, precision="float32"),
            generator=make_generator(0),
        )

    with pytest.raises(DivergenceError, match=r"stopped at step \d+: .*usually -"):
        run(patient=False)
    assert len(run(patient=True).losses) == 100


# Mixed precision


def rounding_error(energy, x, level):
    """Standard deviation of what bfloat16 does to energies of a linear head.

    A number is moved by at most u of itself, anywhere between: by u / sqrt(3) in the
    mean square. A layer's product rounds its weights, its input and its output, and
    carries the error that came in; SiLU stretches an error by at most 1.1.
    """
    square = (2.0**-8) ** 2 / 3
    h, variance = x.flatten(1), torch.zeros(len(x), x[0].numel())
    for k, layer in enumerate([*energy.layers, energy.last]):
        weights, biases = layer.weight.square(), layer.bias.square()
        variance = (variance + 2 * square * h.square()) @ weights.T + square * biases
        h = layer(h)
        variance = variance + square * h.square()
        if layer is not energy.last:
            h = nn.functional.silu(h + energy.shifts[level] if k == 0 else h)
            variance = 1.1**2 * variance + square * h.square()
    return variance[:, 0].sqrt() / energy.noises[level].square()


@pytest.mark.parametrize("head", ["linear", "denoiser"])
def test_in_bfloat16_chains_keep_single_precision(head):
    noise = NoiseLevels((0.5, 0.7), 0.3)
    generator = make_generator(3)
    noises = noise.noises[:2]
    energy = PerceptronEnergy((6,), noises, 16, 2, head, generator=generator)
    loss = RecoveryLikelihood(noise, ConditionalChain(4, 0.5, start="noisy"))
    x = torch.randn(64, 6, generator=generator)
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        loss(energy, x, generator=generator).backward()
    chains = loss.last
    assert chains.samples.dtype == chains.data.dtype == torch.float32
    # Their states have digits that bfloat16 has not.
    assert (chains.samples != chains.samples.bfloat16().float()).float().mean() > 0.9
    for parameter in energy.parameters():
        assert parameter.grad.dtype == torch.float32


def test_in_bfloat16_the_loss_agrees_within_its_rounding():
    noise = NoiseLevels((0.5, 0.7), 0.3)
    generator = make_generator(4)
    noises = noise.noises[:2]
    energy = PerceptronEnergy((6,), noises, 16, 2, "linear", generator=generator)
    data, samples = torch.randn(2, 256, 6, generator=generator)
    samples = 2 * samples
    level = torch.randint(2, (256,), generator=generator)
    single = recovery_likelihood_loss(energy, data, samples, level)
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        half = recovery_likelihood_loss(energy, data, samples, level)
    with torch.no_grad():
        errors = [rounding_error(energy, x, level).mean() for x in (data, samples)]
        gaps = (energy(data, level) - energy(samples, level)).abs()
        off = float((half - single).abs())
    assert half.dtype == torch.float32
    # Rows share the weights' rounding: their errors may all have one sign.
    tolerance = 5 * float(sum(errors))
    assert 0 < off < tolerance
    # That is no large number beside what a row contributes.
    assert tolerance < 0.2 * float(gaps.mean())


def test_denoising_score_matching_at_the_truth():
    """The least loss, 1 - std^2 / variance a coordinate, and no gradient there."""
    n = 50_000
    noise = NoiseLevels((0.5, 0.8, 0.9))
    x, _, _ = pairs(n)
    level = 1 + torch.arange(n) % 2
    variances = [noise.signals[t] ** 2 * V + noise.noises[t] ** 2 for t in range(3)]
    energy = Parabola(*(1 / v for v in variances))
    loss = denoising_score_matching_loss(
        energy, noise, x, level, generator=make_generator(1)
    )
    least = [1 - noise.noises[t] ** 2 / variances[t] for t in (1, 2)]
    # The residual is Gaussian: its square has a variance of twice the mean's.
    error = 5 * math.sqrt(2 * sum(v**2 for v in least) / 2 / n)
    assert abs(loss.item() - sum(least) / 2) < error
    (slopes,) = torch.autograd.grad(loss, energy.theta)
    # 2 std r x a row, residual r and x independent, half the rows a level.
    for t in (1, 2):
        per_row = 2 * noise.noises[t] * math.sqrt(least[t - 1] * variances[t])
        assert abs(float(slopes[t])) < 5 * per_row * math.sqrt(0.5 / n)
    assert slopes[0] == 0


@pytest.mark.parametrize(("data_sigma", "lowest"), [(0.0, 1), (0.1, 0)])
def test_score_matching_leaves_levels_without_noise_out(data_sigma, lowest):
    energy = Parabola(1.0, 2.0, 3.0)
    loss = DenoisingScoreMatching(NoiseLevels((0.3, 0.5, 0.8), data_sigma))
    value = loss(energy, pairs(200)[0], generator=make_generator(0))
    (slopes,) = torch.autograd.grad(value, energy.theta)
    assert (slopes != 0).tolist() == [lowest == 0, True, True]
