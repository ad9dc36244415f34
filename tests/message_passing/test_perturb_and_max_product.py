"""Perturb-and-max-product against perturb-and-MAP by listing all states."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from ebmtut.energies import RBM, BoltzmannMachine, Ising
from ebmtut.message_passing import exact_perturb_and_map, perturb_and_max_product
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
