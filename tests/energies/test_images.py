"""Energies of images: sizes by formula, heads in closed form, the paper's details."""

from typing import Any

import pytest
import torch

from ebmtut import energies
from ebmtut.energies.wide_resnet import sinusoidal_embedding
from ebmtut.random import make_generator

NOISES = (0.2, 0.5, 0.9)
SMALL = energies.WideResNetConfig(
    8, 2, (1, 2), 0.9, 4, channels=8, n_colors=1, n_levels=3
)


def states(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = make_generator(1)
    x = torch.randn(shape, generator=generator)
    return x, torch.randint(3, shape[:1], generator=generator)


def small_energy(head: str) -> energies.PerceptronEnergy:
    return energies.PerceptronEnergy((8, 8), NOISES, hidden=16, n_layers=2, head=head)


@pytest.mark.parametrize("head", ["denoiser", "signed", "linear"])
def test_a_small_energy_gives_one_number_a_state_and_repeats(head: str) -> None:
    x, level = states(5, 8, 8)
    energy = small_energy(head)
    values = energy(x, level)
    assert values.shape == (5,)
    assert torch.equal(values, small_energy(head)(x, level))
    # Rows do not see each other, and levels matter.
    assert torch.allclose(values[:2], energy(x[:2], level[:2]), atol=1e-4)
    assert not torch.allclose(values, energy(x, (level + 1) % 3))


@pytest.mark.parametrize("head", ["denoiser", "signed", "linear"])
@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("of", [{}, {"scale": 3.0, "spectral_norm": True}])
def test_the_gradient_by_hand_is_that_of_autograd(head, n_layers, of):
    energy = energies.PerceptronEnergy((4, 4), NOISES, 8, n_layers, head, **of).double()
    energy.eval()  # else every look at a bounded weight moves it a little
    x, level = states(7, 4, 4)
    x = x.double()
    value, gradient = energy.energy_and_gradient(x, level)
    exact = energy(x.requires_grad_(), level)
    (expected,) = torch.autograd.grad(exact.sum(), x)
    assert torch.allclose(value, exact, rtol=1e-12, atol=0)
    assert torch.allclose(gradient, expected, rtol=1e-10, atol=1e-10)
    # Prepared for its levels once, and asked for other states.
    here, other = energy.at_levels(level), torch.flip(x.detach(), (1,)).requires_grad_()
    exact = energy(other, level)
    (expected,) = torch.autograd.grad(exact.sum(), other)
    assert torch.allclose(here.energy(other), exact, rtol=1e-12, atol=0)
    assert torch.allclose(here.gradient(other), expected, rtol=1e-10, atol=1e-10)


def test_a_scale_is_a_factor_of_the_energy() -> None:
    x, level = states(5, 8, 8)
    scaled = energies.PerceptronEnergy((8, 8), NOISES, 8, scale=0.25)
    one = scaled.constructor_arguments() | {"scale": 1.0}
    assert one["shape"] == (8, 8)
    # A power of two: exact.
    energy = energies.PerceptronEnergy(**one)
    assert torch.equal(scaled(x, level), energy(x, level) / 4)


def test_a_denoiser_is_bounded_below_and_a_signed_head_is_not() -> None:
    for head, lowest in (("denoiser", 0.0), ("signed", -1e3)):
        energy = small_energy(head)
        with torch.no_grad():
            energy.last.weight.mul_(20)
        x, level = states(64, 8, 8)
        low = float(energy(30 * x, level).detach().min())
        assert low >= 0 if head == "denoiser" else low < lowest


def test_a_denoiser_that_knows_the_answer_gives_the_score():
    # All data are zero: the mean of the clean image is zero everywhere, and the
    # distribution of the level is N(0, noise^2).
    energy = small_energy("denoiser")
    with torch.no_grad():
        energy.last.weight.zero_()
        energy.last.bias.zero_()
    x, level = states(6, 8, 8)
    x.requires_grad_()
    values = energy(x, level)
    noises = torch.tensor(NOISES)[level]
    want = 0.5 * x.flatten(1).square().sum(1) / noises**2
    assert torch.allclose(values, want)
    (gradient,) = torch.autograd.grad(values.sum(), x)
    assert torch.allclose(gradient, x / noises[:, None, None] ** 2)


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        energies.WideResNetConfig(8, 1, (1, 1, 3), 0.5, 4, channels=4, n_levels=2),
        energies.WideResNetConfig(9, 3, (1, 2, 2, 2), 0.5, 4, channels=6),
    ],
)
def test_parameters_by_formula(config: energies.WideResNetConfig) -> None:
    energy = energies.WideResNetEnergy(config)
    trainable = sum(p.numel() for p in energy.parameters() if p.requires_grad)
    assert trainable == config.n_parameters()
    x = torch.zeros(2, config.n_colors, config.side, config.side)
    assert energy(x, torch.tensor([0, 1])).shape == (2,)


#: Trainable numbers of the columns of Tables 5 and 6, at the paper's 128 channels.
COUNTS = {
    "cifar10": 34_833_408,
    "celeba64": 56_269_568,
    "lsun_church64": 19_153_664,
    "lsun_bedroom64": 19_153_664,
    "lsun_church128": 29_119_232,
    "lsun_bedroom128": 71_904_512,
}


def test_every_column_has_its_number_of_parameters(monkeypatch):
    """Built whole, on a device that holds no numbers; norms have none to train."""

    def without_numbers(kind: Any, *sizes: int, device: Any = None, **of: Any) -> Any:
        return kind(*sizes, device="meta", **of)

    monkeypatch.setattr(torch.nn.utils, "skip_init", without_numbers)
    monkeypatch.setattr(
        energies.wide_resnet, "bounded", lambda layer, *args, **of: layer
    )
    assert COUNTS.keys() == energies.PAPER_NETWORKS.keys()
    for name, count in COUNTS.items():
        config = energies.PAPER_NETWORKS[name]
        energy = energies.WideResNetEnergy(config)
        assert sum(p.numel() for p in energy.parameters()) == count
        assert config.n_parameters() == count


def test_a_block_starts_as_its_shortcut_and_its_second_layer_learns() -> None:
    energy = energies.WideResNetEnergy(SMALL)
    h = torch.randn(2, 8, 4, 4, generator=make_generator(0))
    time = torch.randn(2, 32, generator=make_generator(1))
    block = energy.levels[0][0]
    assert torch.equal(block(h, time), h)
    block(h, time).square().sum().backward()
    weight = block.second.parametrizations.weight.original
    assert bool(weight.grad.abs().max() > 0)


def test_spectral_norms_are_one_or_at_most_one() -> None:
    energy = energies.WideResNetEnergy(SMALL)
    block = energy.levels[1][0]
    with torch.no_grad():
        block.second.parametrizations.weight.original.normal_(
            std=0.01, generator=make_generator(0)
        )
    small = torch.linalg.matrix_norm(block.second.weight.detach().flatten(1), 2)
    with torch.no_grad():
        block.second.parametrizations.weight.original.mul_(1e3)
    # A call is one power step: enough of them find the largest singular value.
    for _ in range(300):
        large = block.second.weight, block.first.weight, energy.embed[0].weight
    for weight in large:
        norm = torch.linalg.matrix_norm(weight.flatten(1), 2)
        assert float(norm.detach()) == pytest.approx(1.0, abs=2e-3)
    original = block.second.parametrizations.weight.original / 1e3
    want = torch.linalg.matrix_norm(original.flatten(1), 2)
    assert float(small.detach()) == pytest.approx(float(want.detach()), rel=1e-5)
    assert float(small.detach()) < 1


def test_the_embedding_has_geometric_frequencies() -> None:
    embedding = sinusoidal_embedding(torch.tensor([0, 1]), 8).double()
    assert torch.equal(embedding[0], torch.tensor([0.0] * 4 + [1.0] * 4).double())
    angles = 10_000 ** (-torch.arange(4).double() / 3)
    assert torch.allclose(embedding[1, :4], angles.sin(), atol=1e-6)
    assert torch.allclose(embedding[1, 4:], angles.cos(), atol=1e-6)
