"""Persistent noise has the right distribution, and persistent messages continue."""

import math

import pytest
import torch
from scipy.stats import kstest

from ebmtut.energies import RBM, BoltzmannMachine, PairwiseGraph
from ebmtut.message_passing import (
    max_product,
    persistent_perturb_and_max_product,
    perturb_and_max_product,
    start_persistent,
)
from ebmtut.message_passing.persistent import correlated_normals, logistic_from_normal
from ebmtut.random import make_generator

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
