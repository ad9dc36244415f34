"""Networks and RBMs as energies: by hand, their base distribution, their size."""

import math
from functools import partial

import pytest
import torch

from ebmtut.energies import RBM, MLPEnergy, PairwiseGraph, ResNetEnergy
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states
from tests.shared import normal


def test_forward_by_hand():
    energy = MLPEnergy(3, hidden=4, n_layers=2).double()
    x = enumerate_states(3)
    first, _, last = energy.net
    h = x @ first.weight.T + first.bias
    want = (h * torch.sigmoid(h)) @ last.weight[0] + last.bias
    assert torch.allclose(energy(x), want)


@pytest.mark.parametrize(
    ("make", "n"),
    [(partial(MLPEnergy, 3, 4), 3), (partial(ResNetEnergy, 4, 3, 2, 1), 16)],
)
def test_base_is_a_bernoulli_distribution(make, n):
    probs = torch.linspace(0.1, 0.9, n).double()
    plain, based = make().double(), make(base_probs=probs).double()
    x = torch.randint(2, (8, n), generator=make_generator(0)).double()
    extra = plain(x) - based(x) - x @ probs.logit()
    # Logits are stored in single precision.
    assert torch.allclose(extra, torch.zeros(8).double(), atol=3e-7 * n)
    assert "base_logits" in based.state_dict()
    assert "base_logits" not in dict(based.named_parameters())


def test_autocast_leaves_the_energy_unrounded():
    energy = MLPEnergy(16, hidden=32, base_probs=torch.full((16,), 1e-3))
    x = torch.zeros(4, 16)
    x[:, :3] = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        rough = energy(x)
    assert rough.dtype == torch.float32
    # The base alone adds up to 20.7, of which bfloat16 would keep 8 bits, that
    # is 0.06; only the hidden units, of size below one, may be rounded.
    with torch.no_grad():
        assert (rough - energy(x)).abs().max() < 0.01


def test_the_papers_size() -> None:
    """Eight blocks of two convolutions with 64 maps, two of them with a shortcut."""
    energy = ResNetEnergy(28)
    three, one = 64 * 64 * 9 + 64, 64 * 64 + 64
    want = (9 * 64 + 64) + 16 * three + 2 * one + (64 + 1)
    assert sum(p.numel() for p in energy.parameters()) == want
    assert energy(torch.zeros(3, 784)).shape == (3,)


def test_a_moved_image_has_the_same_energy_without_base() -> None:
    """Convolutions and a mean know no place, as far from the rim as the network sees.

    Without a halved resolution three blocks see seven pixels around; the patch of
    ink stays farther from the rim than that.
    """
    energy = ResNetEnergy(24, 4, 3, 0, generator=make_generator(1)).double()
    x = torch.zeros(2, 24, 24, dtype=torch.float64)
    x[0, 9:11, 9:11] = 1
    x[1, 11:13, 12:14] = 1
    one, other = energy(x.flatten(1))
    assert torch.isclose(one, other, rtol=1e-12)
    x[1, 11, 12] = 0
    assert not torch.isclose(one, energy(x.flatten(1))[1], rtol=1e-6)


def test_made_again_from_its_arguments() -> None:
    energy = ResNetEnergy(6, 5, 3, 1, torch.full((36,), 0.2))
    again = ResNetEnergy(**energy.constructor_arguments())
    again.load_state_dict(energy.state_dict())
    x = torch.randint(2, (4, 36), generator=make_generator(0)).float()
    assert torch.equal(energy(x), again(x))


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
