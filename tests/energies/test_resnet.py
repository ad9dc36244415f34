import torch

from ebmtut.energies import ResNetEnergy
from ebmtut.random import make_generator


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


def test_base_is_a_bernoulli_distribution() -> None:
    probs = torch.linspace(0.1, 0.9, 16)
    plain = ResNetEnergy(4, 3, 2, 1).double()
    based = ResNetEnergy(4, 3, 2, 1, base_probs=probs).double()
    x = torch.randint(2, (8, 16), generator=make_generator(0)).double()
    extra = plain(x) - based(x) - x @ probs.double().logit()
    assert torch.allclose(extra, torch.zeros(8).double(), atol=1e-5)


def test_made_again_from_its_arguments() -> None:
    energy = ResNetEnergy(6, 5, 3, 1, torch.full((36,), 0.2))
    again = ResNetEnergy(**energy.constructor_arguments())
    again.load_state_dict(energy.state_dict())
    x = torch.randint(2, (4, 36), generator=make_generator(0)).float()
    assert torch.equal(energy(x), again(x))
