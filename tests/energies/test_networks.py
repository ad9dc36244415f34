"""Energies that are networks: by hand, their base distribution, their size."""

from functools import partial

import pytest
import torch

from ebmtut.energies import MLPEnergy, ResNetEnergy
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states


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
