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
from tests.shared import normal


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


def test_clamped_visible_units_leave_independent_hidden_ones():
    rbm = RBM(normal(3, 2), normal(3, seed=1), normal(2, seed=2))
    v = torch.tensor([1.0, 0.0]).double()
    clamp = torch.full((40_000, 5), math.nan).double()
    clamp[:, :2] = v
    x = perturb_and_max_product(
        rbm, 40_000, 8, clamp=clamp, generator=make_generator(5)
    )
    assert (x[:, :2] == v).all()
    want = torch.sigmoid(rbm.hidden_logits(v[None]))[0]
    # The damped messages are within 2^-8 of their fixed point, |w| at most.
    bias = 2**-8 * rbm.weight.abs().sum(1) / 4
    error = (want * (1 - want) / 40_000).sqrt()
    assert ((x[:, 2:].mean(0) - want).abs() < 5 * error + bias).all()
