"""Chains, arcs and completions of Gaussians, whose distributions are known."""

import math
import re

import pytest
import torch

from ebmtut.checks import DivergenceError
from ebmtut.energies import PerceptronEnergy, conditional_energy
from ebmtut.noise import NoiseLevels, ddpm_noise
from ebmtut.random import make_generator, normal
from ebmtut.samplers import (
    ConditionalChain,
    denoised,
    inpaint,
    interpolate,
    paper_step_sizes,
    progressive_samples,
)
from ebmtut.samplers.conditional import averaged_normals, draw_conditional
from ebmtut.samplers.langevin import langevin_move, normals, vector_state
from tests.samplers.gaussian_chain import (
    CHAIN,
    MEAN,
    NOISE,
    SHORT,
    VARIANCE,
    distribution,
    energy,
    white,
)


def test_every_level_has_its_distribution():
    n = 20_000
    samples = progressive_samples(
        energy, NOISE, white(n), CHAIN, generator=make_generator(1)
    )
    assert samples.shape == (4, n, 2)
    error = 5 / math.sqrt(n)
    for t in range(3):
        mean, variance = distribution(t)
        assert ((samples[t].mean(0) - mean) / variance.sqrt()).abs().max() < error
        assert (samples[t].var(0) / variance - 1).abs().max() < error * math.sqrt(2)


def test_divergence_names_the_level_and_the_largest_energy():
    wild = ConditionalChain(60, (0.1, 9.0, 0.1), adjusted=False)
    match = (
        r"^chains diverged at level 1, Langevin step (\d+) of 60: \d+ of 50 energies "
        ".* largest"
    )
    with pytest.raises(DivergenceError, match=match) as raised:
        progressive_samples(
            lambda x, level: energy(x, level) + (x**4).sum(1),
            NOISE,
            white(50),
            wild,
            generator=make_generator(0),
        )
    # Of a fourth power a step of size 9 makes the cube, from about 1 and times 160: the
    # logarithm of the state trebles a step, and float32 ends after a few.
    told = re.match(match, str(raised.value))
    assert told is not None and 2 <= int(told[1]) <= 8


def test_the_denoised_state_is_the_mean_of_the_data_given_it():
    noise = NoiseLevels((0.5,), data_sigma=0.4)
    signal, std = noise.signals[0], noise.noises[0]
    x = white(5)

    def of_level_0(x, level):
        variance = signal**2 * VARIANCE + std**2
        return ((x - signal * MEAN) ** 2 / (2 * variance)).sum(1)

    # Of a Gaussian: the prior's mean, moved by the fraction of the variance.
    gain = signal * VARIANCE / (signal**2 * VARIANCE + std**2)
    want = MEAN + gain * (x - signal * MEAN)
    assert torch.allclose(denoised(of_level_0, noise, x), want)
    assert torch.allclose(denoised(energy, NOISE, x), x)


@pytest.mark.parametrize("chain", [SHORT, CHAIN, ConditionalChain(4, start="noisy")])
def test_the_ends_of_an_interpolation_are_the_samples(chain):
    noise = NoiseLevels((0.3, 0.6, 0.9))
    like = torch.empty(5, 2, dtype=torch.float64)
    path = interpolate(
        energy, noise, like, chain, 4, generators=(make_generator(3), make_generator(4))
    )
    assert path.shape == (4, 5, 2)
    for end, seed in ((0, 3), (-1, 4)):
        generator = make_generator(seed)
        start = normal(like, generator=generator)
        samples = progressive_samples(energy, noise, start, chain, generator=generator)
        assert torch.equal(path[end], samples[0])
    assert not torch.equal(path[1], path[0])


def test_between_two_runs_lie_draws_of_the_same_distribution():
    """The noise on an arc is white noise; so the middle is a sample, too."""
    n = 5000
    like = torch.empty(n, 2, dtype=torch.float64)
    generators = (make_generator(5), make_generator(6))
    middle = interpolate(energy, NOISE, like, CHAIN, 3, generators=generators)[1]
    mean, variance = distribution(0)
    error = 5 / math.sqrt(n)
    assert ((middle.mean(0) - mean) / variance.sqrt()).abs().max() < error
    assert (middle.var(0) / variance - 1).abs().max() < error * math.sqrt(2)


def test_inpainting_keeps_what_is_known_and_draws_the_rest():
    """Independent coordinates: the free one keeps its distribution."""
    n = 20_000
    data = torch.full((n, 2), 0.123456789, dtype=torch.float64)
    free = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(n, 2)
    x = inpaint(energy, NOISE, data, free, CHAIN, generator=make_generator(7))
    assert torch.equal(x[:, 0], data[:, 0])
    mean, variance = distribution(0)
    error = 5 / math.sqrt(n)
    assert abs(float((x[:, 1].mean() - mean[1]) / variance[1].sqrt())) < error
    assert abs(float(x[:, 1].var() / variance[1] - 1)) < error * math.sqrt(2)


def test_averaged_noise_takes_the_bias_of_long_steps_away():
    """All distributions are Gaussian: averaged steps have the exact variance."""
    n, t = 40_000, 1
    level = torch.full((n,), t)
    above = NOISE.signals[t + 1] * MEAN.expand(n, 2)
    shrinkage, sigma = NOISE.shrinkages[t], NOISE.sigmas[t]
    precision = 1 / distribution(t)[1] + shrinkage**2 / sigma**2
    delta = 0.8 * float(precision.max()) ** -0.5 * math.sqrt(2)
    ratios = {}
    for averaged in (False, True):
        chain = ConditionalChain(
            30, (1.0, delta, 1.0), adjusted=False, averaged=averaged
        )
        draw = normals(make_generator(0))
        found, _ = draw_conditional(energy, NOISE, above, level, chain, draw)
        ratios[averaged] = found.var(0) * precision
    error = 5 * math.sqrt(2 / n)
    assert float((ratios[True] - 1).abs().max()) < error
    # As `langevin` says: more than half as much again along the stiffer axis.
    biased = 1 / (1 - delta**2 * precision / 4)
    assert float((ratios[False] / biased - 1).abs().max()) < error
    assert float(biased.max()) > 1.4


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("head", ["denoiser", "signed", "linear", "any function"])
def test_the_quick_chain_is_the_plain_one(averaged, masked, head):
    """Gradients by hand without energies: the states of step after step by autograd."""
    noise, n_steps, n = NoiseLevels((0.4, 0.5, 0.8), 0.2), 5, 12
    kind = "denoiser" if head == "any function" else head
    network = PerceptronEnergy((4, 3), noise.noises[:3], 8, 3, kind).double()
    of_levels = (lambda x, t: network(x, t)) if head == "any function" else network
    level = torch.arange(n) % 3
    above, known = torch.randn(2, n, 4, 3, generator=make_generator(0)).double()
    free = (torch.arange(3) > 0).double() if masked else None
    sizes = (0.1, 0.2, 0.3)
    chain = ConditionalChain(
        n_steps, sizes, adjusted=False, start="noisy", averaged=averaged
    )
    found, acceptance = draw_conditional(
        of_levels, noise, above, level, chain, normals(make_generator(1)),
        known=known if masked else None, free=free,
    )  # fmt: skip

    def plain(x):  # known to none of the short cuts
        return conditional_energy(lambda z, t: network(z, t), noise, above, level)(x)

    draw = normals(make_generator(1))
    draw = averaged_normals(draw) if averaged else draw
    shrinkages = torch.tensor(noise.shrinkages, dtype=above.dtype)
    x = above / shrinkages[level][:, None, None]
    state = vector_state(plain, x if free is None else torch.where(free > 0, x, known))
    delta = torch.tensor(sizes, dtype=above.dtype)[level]
    for _ in range(n_steps):
        state, _ = langevin_move(plain, state, delta, draw, adjusted=False, free=free)
    # Some twenty roundings a step, of numbers of order 10, of which the chain is
    # no more than ten times as unsure.
    assert torch.allclose(found, state.x, rtol=0, atol=1e-12)
    assert bool((acceptance == 1).all())
    if masked:
        assert torch.equal(found[..., 0], known[..., 0])


def test_one_of_many_starts_is_kept_by_the_weights_of_the_distribution():
    """Two modes that no step of the chain joins: the starts divide the mass.

    The fraction in the far mode is that of importance resampling with M starts, whose
    bias falls as 1 / M; with 200 starts it is below 1 / 100 (checked by a single
    one: the fraction from the start alone is off by more than 0.2).
    """
    noise = NoiseLevels((0.95,))
    shift = torch.tensor([[2.0]], dtype=torch.float64)

    def two(x, level):  # weights 0.8 and 0.2, variances 0.02
        near = -((x - shift / 2) ** 2).sum(1) / 0.04 + math.log(0.8)
        far = -((x + shift / 2) ** 2).sum(1) / 0.04 + math.log(0.2)
        return -torch.logaddexp(near, far)

    n, above = 4000, 0.0
    seen = torch.full((n, 1), above, dtype=torch.float64)
    level = torch.zeros(n, dtype=torch.long)
    shares = {}
    for n_starts in (1, 200):
        chain = ConditionalChain(3, (0.02,), n_starts=n_starts)
        draw = normals(make_generator(0))
        found, _ = draw_conditional(two, noise, seen, level, chain, draw)
        shares[n_starts] = float((found > 0).double().mean())
    # Seen from 0 both modes are equally far: the weight of the mode is 0.8.
    assert shares[200] == pytest.approx(0.8, abs=0.01 + 5 * 0.4 / math.sqrt(n))
    assert abs(shares[1] - 0.8) > 0.2


def test_the_normal_approximation_has_the_distribution_of_equation_12():
    """From a fixed state above: mean x/a - (sigma/a)^2 grad E(x/a), width sigma/a."""
    n, noise = 20_000, NoiseLevels((0.3,))
    above = torch.tensor([0.4, 0.7], dtype=torch.float64).expand(n, 2)
    x = progressive_samples(
        energy, noise, above, ConditionalChain(0), generator=make_generator(2)
    )[0]
    a = math.sqrt(1 - 0.3**2)
    width = 0.3 / a
    center = above[0] / a
    mean = center - width**2 * (center - MEAN) / VARIANCE
    error = 5 / math.sqrt(n)
    assert ((x.mean(0) - mean) / width).abs().max() < error
    assert (x.var(0) / width**2 - 1).abs().max() < error * math.sqrt(2)


def test_step_sizes_of_the_paper():
    """c_t b sigma in y, so c_t b sigma / a in x; 1 at a marginal last level."""
    noise = ddpm_noise(6)
    sizes = paper_step_sizes(noise, math.sqrt(2e-4))
    for t in range(5):
        factor = math.sqrt(noise.noises[t] / 0.01)
        size = factor * math.sqrt(2e-4) * noise.sigmas[t] / noise.shrinkages[t]
        assert sizes[t] == pytest.approx(size)
    assert sizes[5] == pytest.approx(math.sqrt(2e-4 * noise.noises[5] / 0.01))
