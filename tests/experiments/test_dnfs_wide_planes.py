"""What is counted in samples of a wide plane agrees with what can be known."""

import re

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from ebmtut.checks import DivergenceError
from ebmtut.data import density_scale, sample_density
from ebmtut.energies import Ising
from ebmtut.experiments.dnfs import planes
from ebmtut.experiments.dnfs.ebm_training import JointConfig, wide_joint
from ebmtut.experiments.dnfs.pretrained_ebm import PaddedEnergy, _reversed_states
from ebmtut.flows import Flow, HollowTransformer, flow_distributions
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states, gray_encode, states_to_index


def test_the_coarse_picture_is_the_histogram_of_the_points():
    points = sample_density("2spirals", 2000, generator=make_generator(0))
    scale = density_scale("2spirals")
    seen = planes.coarse_picture(
        planes.coarse_distribution(gray_encode(points, scale).float())
    )
    # Sign and four bits name 32 intervals of the 2**16 around 0.
    edges = np.linspace(-(2**15), 2**15, 33) / scale
    counts, _, _ = np.histogram2d(points[:, 1], points[:, 0], bins=(edges, edges))
    assert np.allclose(2000 * seen.numpy(), counts)


def test_exact_draws_have_the_distribution_of_independent_bits():
    n, logits = 5000, torch.zeros(32)
    logits[[0, 1, 2, 16, 17]] = torch.tensor([0.5, -1.0, 0.7, 1.0, -0.3])

    def energy(x):
        return -(x @ logits)

    drawn, log_z = planes.exact_draws(energy, n, generator=make_generator(1))
    mean = logits.sigmoid()
    error = (mean * (1 - mean) / n).sqrt()
    assert bool(((drawn.mean(0) - mean).abs() < 5 * error).all())
    # The proposal has a twentieth of its mass elsewhere: weights vary by as much.
    assert abs(log_z - float(softplus(logits).sum())) < 5 * 0.1 / n**0.5


def test_sites_that_are_not_seen_change_nothing():
    seen = Ising(0.3 * torch.ones(3, 3).triu(1))
    padded = PaddedEnergy(seen, 3, 4)
    x = enumerate_states(4).float()
    assert torch.equal(padded(x), seen(x[:, :3]))


def test_the_reversed_flow_has_the_distribution_of_the_master_equation():
    n, n_steps = 5000, 64
    path = AnnealingPath(Ising(0.4 * torch.ones(3, 3).triu(1)))
    network = HollowTransformer(3, width=8, n_layers=1, generator=make_generator(0))
    flow = Flow(path, network)
    x_all = enumerate_states(3).float()
    start = (-path.target(x_all).double()).softmax(0)
    generator = make_generator(2)
    x = x_all[torch.multinomial(start, n, True, generator=generator)]
    states = _reversed_states(flow, x, n_steps, generator=generator)
    assert torch.equal(states[-1], x)
    exact = flow_distributions(flow, n_steps, start=start, reverse=True)[-1]
    seen = torch.bincount(states_to_index(states[0]), minlength=8).double() / n
    # Five standard errors, and the error of a step of time.
    bound = 5 * (exact * (1 - exact) / n).sqrt() + 1 / n_steps
    assert bool(((seen - exact).abs() < bound).all())


def test_a_joint_training_that_diverges_names_its_step_and_the_largest_ratio():
    config = JointConfig(
        methods=("DNFS",),
        n_bits=16,
        n_steps=4,
        n_last=1,
        n_time_steps=2,
        n_samples=16,
        n_reused=1,
        width=8,
        learning_rate=1e-3,
        energy_learning_rate=1e12,
    )
    with pytest.raises(DivergenceError) as error:
        wide_joint("2spirals", config, 0)
    assert 0 < error.value.step < 4
    words = r"the energy diverged at step \d: the largest log-ratio of its flow was "
    assert re.match(words + r"[\d.e+-]+; try a smaller energy_lea", str(error.value))
