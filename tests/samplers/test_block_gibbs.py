"""Block Gibbs leaves the distribution of an RBM as it is, and forgets its start."""

import pytest
import torch

from ebmtut.energies import RBM
from ebmtut.random import make_generator
from ebmtut.samplers import block_gibbs
from ebmtut.states import enumerate_states, states_to_index


@pytest.fixture
def model():
    g = make_generator(0)
    return RBM(
        torch.randn(3, 4, generator=g, dtype=torch.float64),
        torch.randn(3, generator=g, dtype=torch.float64),
        torch.randn(4, generator=g, dtype=torch.float64),
    )


def joint_distribution(model):
    """Probabilities of all (v, h), in the order of their indices."""
    states = enumerate_states(7).double()
    return states, torch.softmax(-model.joint_energy(states[:, :4], states[:, 4:]), 0)


def within_five_errors(samples, distribution):
    counts = torch.bincount(states_to_index(samples), minlength=len(distribution))
    error = (distribution * (1 - distribution) / len(samples)).sqrt()
    return ((counts / len(samples) - distribution).abs() <= 5 * error + 1e-12).all()


@pytest.mark.parametrize("n_sweeps", [1, 3])
def test_a_sweep_leaves_the_joint_distribution(model, n_sweeps):
    states, distribution = joint_distribution(model)
    generator = make_generator(1)
    n = 100_000
    start = states[torch.multinomial(distribution, n, True, generator=generator)]
    after = block_gibbs(model, start[:, :4], n_sweeps, generator=generator)
    assert within_five_errors(after, distribution)


def test_chains_forget_their_start(model):
    _, distribution = joint_distribution(model)
    start = torch.zeros(100_000, 4, dtype=torch.float64)
    generator = make_generator(2)
    assert not within_five_errors(
        block_gibbs(model, start, 1, generator=generator), distribution
    )
    assert within_five_errors(
        block_gibbs(model, start, 60, generator=generator), distribution
    )
