"""Distributions of the random numbers, and the contract of generators.

Tolerances: Kolmogorov-Smirnov and chi-square p-values above 1e-4, frequencies
within 5 standard errors; with fixed seeds the outcome of a test is reproducible.
"""

import math
import random

import numpy as np
import pytest
import scipy.stats
import torch

from ebmtut.checks import InputError
from ebmtut.random import (
    bernoulli,
    bernoulli_indices,
    categorical,
    check_seed,
    exponential,
    generator_on,
    gumbel,
    logistic,
    make_generator,
    spawn_seed,
)
from tests.pretended_gpu import pretended_gpu

DRAWS = {
    "bernoulli": lambda g: bernoulli(torch.full((50,), 0.4), generator=g),
    "bernoulli_indices": lambda g: bernoulli_indices(10**6, 1e-4, generator=g)[:20],
    "categorical": lambda g: categorical(torch.zeros(50, 7), generator=g),
    "exponential": lambda g: exponential((50,), generator=g),
    "gumbel": lambda g: gumbel((50,), generator=g),
    "logistic": lambda g: logistic((50,), generator=g),
    "spawn_seed": lambda g: torch.tensor([spawn_seed(g) for _ in range(3)]),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_seed_decides_and_global_streams_rest(draw):
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = draw(make_generator(3))
    assert torch.equal(first, draw(make_generator(3)))
    assert not torch.equal(first, draw(make_generator(4)))
    generator = make_generator(3)
    assert not torch.equal(draw(generator), draw(generator))
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    assert np.array_equal(states[2], np.random.get_state()[1])  # noqa: NPY002


def test_a_generator_goes_on_where_it_lives_and_seeds_one_elsewhere():
    generator = make_generator(2)
    assert generator_on(generator, "cpu") is generator
    seed = spawn_seed(make_generator(2))
    with pretended_gpu() as (device, _):
        there = generator_on(make_generator(2), device)
        assert there.device.type == device
        assert there.initial_seed() == seed


def test_bernoulli_frequencies():
    probs = torch.tensor([0.0, 1e-3, 0.3, 0.999, 1.0], dtype=torch.float64)
    n = 100_000
    bits = bernoulli(probs.expand(n, 5), generator=make_generator(1))
    assert bits.dtype == torch.float64
    assert set(bits.unique().tolist()) == {0.0, 1.0}
    error = (bits.mean(0) - probs).abs()
    assert (error <= 5 * (probs * (1 - probs) / n).sqrt()).all()


def test_bernoulli_in_half_precision_keeps_small_probabilities():
    # Eight random bits could not tell 0.001 from 0.
    probs = torch.full((200_000,), 0.001, dtype=torch.bfloat16)
    bits = bernoulli(probs, generator=make_generator(2))
    assert bits.dtype == torch.bfloat16
    p = float(probs[0])
    assert abs(float(bits.float().mean()) - p) < 5 * math.sqrt(p / 200_000)


@pytest.mark.parametrize(("n", "prob"), [(6, 0.3), (1, 0.02), (5, 0.97)])
def test_bernoulli_indices_have_the_distribution_of_independent_bits(n, prob):
    generator, n_draws = make_generator(5), 4000
    counts = np.zeros(2**n)
    for _ in range(n_draws):
        found = bernoulli_indices(n, prob, generator=generator)
        counts[int((2**found).sum())] += 1
    ones = np.array([bin(state).count("1") for state in range(2**n)])
    expected = n_draws * prob**ones * (1 - prob) ** (n - ones)
    # Rare states are one cell, so that every cell is expected five times.
    rare = expected < 5
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-4


def test_bernoulli_indices_of_many_bits():
    n, prob = 10**7, 1e-4
    found = bernoulli_indices(n, prob, generator=make_generator(6)).numpy()
    assert (np.diff(found) > 0).all()
    assert abs(len(found) - n * prob) < 5 * math.sqrt(n * prob)
    assert scipy.stats.kstest(found / n, "uniform").pvalue > 1e-4
    assert len(bernoulli_indices(0, prob, generator=make_generator(6))) == 0


def test_categorical_frequencies():
    logits = torch.tensor([0.0, -math.inf, 2.0, -1.0, 700.0 - 699.0])
    n = 50_000
    index = categorical(logits.expand(n, 5), generator=make_generator(3))
    assert index.dtype == torch.int64
    assert index.shape == (n,)
    counts = index.bincount(minlength=5).double()
    assert counts[1] == 0
    expected = n * logits.double().softmax(0)
    keep = expected > 0
    result = scipy.stats.chisquare(counts[keep], expected[keep])
    assert result.pvalue > 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("draw", "distribution"),
    [
        (exponential, scipy.stats.expon),
        (gumbel, scipy.stats.gumbel_r),
        (logistic, scipy.stats.logistic),
    ],
)
def test_continuous_distributions(draw, distribution, dtype):
    x = draw((20_000,), generator=make_generator(5), dtype=dtype)
    assert x.dtype == dtype
    assert torch.isfinite(x).all()
    assert scipy.stats.kstest(x.double().numpy(), distribution.cdf).pvalue > 1e-4


def test_generator_of_another_device_is_refused():
    with pytest.raises(InputError, match="generator must live on meta, got one on cpu"):
        gumbel((3,), generator=make_generator(0), device="meta")


@pytest.mark.cuda
def test_draws_on_the_gpu():
    generator = make_generator(0, "cuda")
    probs = torch.full((1000, 4), 0.25, device="cuda")
    bits = bernoulli(probs, generator=generator)
    assert bits.device.type == "cuda"
    assert abs(float(bits.mean()) - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 4000)
    assert categorical(probs.log(), generator=generator).device.type == "cuda"
    assert gumbel((3,), generator=generator, device="cuda").device.type == "cuda"
    assert 0 <= spawn_seed(generator) < 2**63


@pytest.mark.parametrize("seed", [0, 2**62])
def test_a_seed_leaves_room_for_those_counted_from_it(seed):
    check_seed(seed)
    make_generator(seed + 10**6 + 10**9)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_there_is_one_line(device):
    with pytest.raises(InputError, match=rf"^device must be .* got {device}$") as error:
        make_generator(0, device)
    assert "\n" not in str(error.value)
