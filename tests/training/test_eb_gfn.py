"""Energies learned with a GFlowNet, and a GFlowNet of a known energy."""

import pytest
import torch

from ebmtut.checks import DivergenceError
from ebmtut.energies import Energy, TableEnergy
from ebmtut.flows import BitsGFlowNet, back_and_forth, terminal_distribution
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states
from ebmtut.training import EBGFNConfig, train_eb_gfn, train_gflownet

X = enumerate_states(3, dtype=torch.float32)
DATA = torch.tensor([0.3, 0.02, 0.08, 0.1, 0.05, 0.25, 0.15, 0.05])


class Table(Energy):
    """Three bits, each state with an energy of its own."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(8))

    def forward(self, x):
        return self.table[(x @ torch.tensor([4.0, 2, 1])).long()]


def sample(n, *, generator):
    return X[torch.multinomial(DATA, n, True, generator=generator)]


@pytest.mark.parametrize("n_back", [1, 3])
def test_the_gradient_is_that_of_the_likelihood(n_back):
    """Started from the model, a step of any policy gives its exact gradient."""
    energy, n = Table(), 40_000
    with torch.no_grad():
        energy.table.copy_(torch.linspace(-1, 1, 8))
    distribution = (-energy.table).softmax(0).detach()
    g = make_generator(0)
    policy = BitsGFlowNet(3, 8, generator=make_generator(1))
    start = X[torch.multinomial(distribution, n, True, generator=g)]
    y, _ = back_and_forth(policy, energy, start, n_back, generator=g)
    x = sample(n, generator=g)
    (energy(x).mean() - energy(y).mean()).backward()
    noise = ((DATA * (1 - DATA) + distribution * (1 - distribution)) / n).sqrt()
    assert ((energy.table.grad - (DATA - distribution)).abs() < 5 * noise).all()


def test_energy_and_gflownet_learn_the_data():
    energy = Table()
    policy = BitsGFlowNet(3, 32, generator=make_generator(0))
    config = EBGFNConfig(
        n_steps=150,
        n_samples=128,
        n_last=50,
        n_policy_steps=1,
        learning_rate=1e-2,
        energy_learning_rate=0.1,
    )
    found = train_eb_gfn(energy, policy, sample, config, generator=make_generator(1))
    distribution = (-found.energy.table.detach()).softmax(0)
    gap = float((DATA * (DATA / distribution).log()).sum())
    mean = DATA @ X
    bits = (X * mean + (1 - X) * (1 - mean)).prod(1)
    assert gap < 0.02 < float((DATA * (DATA / bits).log()).sum()) / 5
    # As the GFlowNet follows, its proposals are taken more and more often.
    assert found.accepted[-30:].mean() > 0.8


def test_divergence_is_told():
    class Bad(Table):
        def forward(self, x):
            return super().forward(x) / 0

    policy = BitsGFlowNet(3, 4, generator=make_generator(0))
    config = EBGFNConfig(n_steps=3, n_samples=4)
    with pytest.raises(DivergenceError, match="the GFlowNet diverged at step 0"):
        train_eb_gfn(Bad(), policy, sample, config, generator=make_generator(0))


P = torch.tensor([0.3, 0.02, 0.08, 0.1, 0.05, 0.25, 0.15, 0.05])
ENERGY = TableEnergy(-(5 * P).log(), 3)


def fresh():
    return BitsGFlowNet(3, 32, generator=make_generator(0))


def test_the_distribution_and_log_z_are_those_of_the_energy():
    found = train_gflownet(fresh(), ENERGY, 250, 1e-2, generator=make_generator(1))
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
