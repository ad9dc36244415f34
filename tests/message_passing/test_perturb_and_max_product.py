"""Perturb-and-max-product against listed states; noise and messages that persist."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2, kstest

from ebmtut.energies import RBM, BoltzmannMachine, Ising, PairwiseGraph
from ebmtut.message_passing import (
    exact_perturb_and_map,
    max_product,
    persistent_perturb_and_max_product,
    perturb_and_max_product,
    start_persistent,
)
from ebmtut.message_passing.persistent import correlated_normals, logistic_from_normal
from ebmtut.random import logistic, make_generator
from ebmtut.states import states_to_index
from tests.message_passing.models import random_tree


def toy(theta=0.331):
    """Return Section 5.1's model: four spins, all coupled alike, no field."""
    coupling = theta / 2 * (1 - torch.eye(4).double())
    return BoltzmannMachine.from_ising(Ising(coupling))


def homogeneity_p(one, other, n_states):
    """p-value of two samples with the same distribution; rare states count as one."""
    counts = np.stack(
        [np.bincount(states_to_index(x), minlength=n_states) for x in (one, other)]
    )
    often = counts.sum(0) >= 20
    counts = np.c_[counts[:, often], counts[:, ~often].sum(1)]
    counts = counts[:, counts.sum(0) > 0]
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    statistic = ((counts - expected) ** 2 / expected).sum()
    return chi2.sf(statistic, counts.shape[1] - 1)


@pytest.mark.parametrize("n", [4, 9])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("init", ["zero", "symmetric"])
def test_on_trees_it_is_perturb_and_map(n, seed, init):
    """Against the best of all states under other noise, and under the same."""
    model = random_tree(n, seed)
    got = perturb_and_max_product(
        model, 10_000, 100, init=init, generator=make_generator(seed + 2)
    )
    noise = logistic((10_000, n), generator=make_generator(9), dtype=torch.float64)
    want = exact_perturb_and_map(model, n, noise)
    assert homogeneity_p(got, want, 2**n) > 1e-4
    same = logistic(
        (10_000, n), generator=make_generator(seed + 2), dtype=torch.float64
    )
    assert torch.equal(got, exact_perturb_and_map(model, n, same))


def test_the_symmetric_start_has_no_side():
    """With no field neither value is preferred; the paper's start prefers 0."""
    n = 40_000
    spins = {
        init: 2
        * perturb_and_max_product(toy(), n, 100, init=init, generator=make_generator(3))
        - 1
        for init in ("zero", "symmetric")
    }
    # The mean of four equal-signed spins has variance at most 1.
    assert abs(spins["symmetric"].mean()) < 5 / math.sqrt(n)
    assert spins["zero"].mean() < -0.05


def test_clamped_perturb_and_map_is_an_exact_draw():
    """Given v the hidden units are independent, and logistic noise is exact.

    Once the damped messages have settled: each sweep halves what is missing.
    """
    g = make_generator(2)
    model = RBM(torch.randn(3, 4, generator=g), torch.zeros(3), torch.zeros(4))
    v = torch.tensor([1.0, 0.0, 1.0, 1.0])
    n = 20_000
    clamp = torch.cat([v, torch.full((3,), float("nan"))]).expand(n, 7)
    x = perturb_and_max_product(model, n, 30, clamp=clamp, generator=g)
    p = torch.sigmoid(model.hidden_logits(v[None]))[0]
    assert torch.equal(x[:, :4], v.expand(n, 4))
    assert ((x[:, 4:].mean(0) - p).abs() < 5 * (p * (1 - p) / n).sqrt()).all()
    # Independent, too: covariances vanish.
    assert (torch.cov(x[:, 4:].T) - torch.diag(p * (1 - p))).abs().max() < 0.02


MODELS = {
    "matrix": BoltzmannMachine(
        torch.randn(5, 5, generator=make_generator(0)).double(), torch.zeros(5).double()
    ),
    "graph": PairwiseGraph(
        torch.tensor([[0, 1, 2], [1, 2, 4]]), torch.ones(3), torch.zeros(5)
    ),
    "rbm": RBM(torch.ones(2, 3), torch.zeros(2), torch.zeros(3)),
}


def walk(model, rho, n_steps, n_sweeps, *, n=50, seed=0):
    """Return the states of a walk, the start included."""
    generator = make_generator(seed)
    states = [start_persistent(model, n, generator=generator)]
    for _ in range(n_steps):
        states.append(
            persistent_perturb_and_max_product(
                model, states[-1], n_sweeps, rho=rho, generator=generator
            )
        )
    return states


def test_the_map_is_the_quantile_transform():
    # Phi(z) = 1/2, and the 97.5th percentile of both distributions.
    z = torch.tensor([0.0, 1.959963984540054], dtype=torch.float64)
    want = torch.tensor([0.0, math.log(0.975 / 0.025)], dtype=torch.float64)
    torch.testing.assert_close(logistic_from_normal(z), want, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_map_is_odd_and_finite_in_the_tails(dtype):
    z = torch.linspace(-30, 30, 601, dtype=dtype)
    y = logistic_from_normal(z)
    assert y.isfinite().all() and (y.diff() > 0).all()
    torch.testing.assert_close(y, -y.flip(0))
    # Mills' ratio: -log Phi(-30) = 450 + log(30 sqrt(2 pi)) + O(1 / 900).
    assert float(y[-1]) == pytest.approx(
        450 + math.log(30 * math.sqrt(2 * math.pi)), abs=2e-3
    )


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.99, 1.0])
def test_the_noise_stays_logistic_and_its_correlation_is_that_of_rho(rho):
    generator = make_generator(3)
    n = 40_000
    first = torch.randn(n, generator=generator, dtype=torch.float64)
    z, n_steps = first, 3
    for _ in range(n_steps):
        z = correlated_normals(z, rho, generator=generator)
    assert kstest(logistic_from_normal(z).numpy(), "logistic").pvalue > 1e-4
    want = rho ** (n_steps / 2)
    got = float((first * z).mean())
    # Var(z z') = 1 + correlation^2.
    assert abs(got - want) < 5 * math.sqrt((1 + want**2) / n)


@pytest.mark.parametrize("name", MODELS)
def test_frozen_noise_is_one_long_run(name):
    """At rho = 1 and with one model, steps add up."""
    model = MODELS[name]
    states = walk(model, 1.0, 4, 3)
    unaries = model.pair_terms().bias + logistic_from_normal(states[0].normals)
    whole = max_product(model, unaries, 12, return_messages=True)
    torch.testing.assert_close(states[-1].normals, states[0].normals)
    torch.testing.assert_close(states[-1].messages, whole.messages)
    assert torch.equal(states[-1].x, whole.x)


def test_on_a_chain_its_samples_are_those_of_pmp():
    """Max-product is exact from any start, so every step samples as PMP does."""
    edges = torch.tensor([[0, 1], [1, 2]])
    weight = torch.tensor([1.5, -2.0], dtype=torch.float64)
    model = PairwiseGraph(edges, weight, torch.tensor([0.2, 0.0, 0.5]).double())
    n = 20_000
    got = walk(model, 0.9, 2, 60, n=n)[-1].x
    want = perturb_and_max_product(model, n, 60, generator=make_generator(9))
    for pair in ((0, 1), (1, 2), (0, 2), (0, 0), (1, 1), (2, 2)):
        one, other = ((x[:, pair[0]] * x[:, pair[1]]).mean() for x in (got, want))
        # Two means of bits: variance at most 1 / (4 n) each.
        assert abs(float(one - other)) < 5 * math.sqrt(2 / (4 * n))
