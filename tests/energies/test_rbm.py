"""The restricted Boltzmann machine against sums over its hidden units."""

import math

import pytest
import torch

from ebmtut.energies import RBM, PairwiseGraph
from ebmtut.states import enumerate_states
from tests.shared import normal

N_HIDDEN, N_VISIBLE = 3, 4


@pytest.fixture
def rbm():
    return RBM(normal(N_HIDDEN, N_VISIBLE), normal(N_HIDDEN), normal(N_VISIBLE, seed=1))


@pytest.fixture
def joint():
    """All states of both layers, visible units first."""
    x = enumerate_states(N_HIDDEN + N_VISIBLE, dtype=torch.float64)
    return x[:, :N_VISIBLE], x[:, N_VISIBLE:]


def test_the_joint_energy_of_one_unit_each():
    tiny = RBM(torch.tensor([[2.0]]), torch.tensor([0.5]), torch.tensor([-1.0]))
    v = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    h = torch.tensor([[0.0], [1.0], [0.0], [1.0]])
    assert tiny.joint_energy(v, h).tolist() == [0.0, -0.5, 1.0, -1.5]


def test_the_free_energy_sums_the_hidden_units_out(rbm, joint):
    v, h = joint
    want = -torch.logsumexp(-rbm.joint_energy(v, h).view(-1, 2**N_HIDDEN), 1)
    visible = enumerate_states(N_VISIBLE, dtype=torch.float64)
    torch.testing.assert_close(rbm(visible), want, rtol=0, atol=1e-12)


def test_the_logits_are_those_of_the_joint_distribution(rbm, joint):
    v, h = joint
    for i in range(N_HIDDEN):
        on, off = h.clone(), h.clone()
        on[:, i], off[:, i] = 1, 0
        want = rbm.joint_energy(v, off) - rbm.joint_energy(v, on)
        torch.testing.assert_close(rbm.hidden_logits(v)[:, i], want)
    for j in range(N_VISIBLE):
        on, off = v.clone(), v.clone()
        on[:, j], off[:, j] = 1, 0
        want = rbm.joint_energy(off, h) - rbm.joint_energy(on, h)
        torch.testing.assert_close(rbm.visible_logits(h)[:, j], want)


def test_as_a_pairwise_model_it_is_the_joint_energy(rbm, joint):
    v, h = joint
    terms = rbm.pair_terms()
    edges = torch.stack([terms.first, terms.second])
    graph = PairwiseGraph(edges, terms.weight, terms.bias)
    want = rbm.joint_energy(v, h)
    torch.testing.assert_close(graph(torch.cat([v, h], 1)), want)


def test_learnable_means_gradients():
    learned = RBM(torch.ones(2, 3), torch.zeros(2), torch.zeros(3), learnable=True)
    fixed = RBM(torch.ones(2, 3), torch.zeros(2), torch.zeros(3))
    learned(torch.ones(1, 3)).sum().backward()
    # -dF/dc is v; -dF/dW is sigmoid(3) for every entry.
    assert learned.visible_bias.grad.tolist() == [-1.0] * 3
    want = torch.full((2, 3), -1 / (1 + math.exp(-3)))
    torch.testing.assert_close(learned.weight.grad, want)
    assert not any(p.requires_grad for p in fixed.parameters())
