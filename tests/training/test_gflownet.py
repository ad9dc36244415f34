"""A GFlowNet learns the distribution of an energy, and says if it diverged."""

import pytest
import torch

from ebmtut.checks import DivergenceError
from ebmtut.energies import TableEnergy
from ebmtut.flows import BitsGFlowNet, terminal_distribution
from ebmtut.random import make_generator
from ebmtut.training import train_gflownet

P = torch.tensor([0.3, 0.02, 0.08, 0.1, 0.05, 0.25, 0.15, 0.05])
ENERGY = TableEnergy(-(5 * P).log(), 3)


def fresh():
    return BitsGFlowNet(3, 32, generator=make_generator(0))


def test_the_distribution_and_log_z_are_those_of_the_energy():
    found = train_gflownet(fresh(), ENERGY, 400, 1e-2, generator=make_generator(1))
    learned = terminal_distribution(found.policy).exp()
    assert float((learned - P).abs().sum()) / 2 < 0.02
    # Z = 5, and the energies of an untrained policy are far off.
    assert abs(float(found.policy.log_z.detach().exp()) - 5) < 0.1
    assert float((terminal_distribution(fresh()).exp() - P).abs().sum()) / 2 > 0.2
    assert found.losses[-50:].mean() < found.losses[:50].mean() / 100


def test_a_loss_that_is_not_finite_names_its_step():
    with pytest.raises(DivergenceError, match="the GFlowNet diverged at step 0"):
        train_gflownet(
            fresh(), lambda x: x.sum(1) / 0, 3, 1e-2, generator=make_generator(0)
        )
