"""Energies of levels: gradients by hand, and what they refuse."""

import pytest
import torch

from ebmtut.energies import FourierEnergy, at_level, conditional_energy
from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator

NOISE = NoiseLevels((0.3, 0.6, 1.0), 0.05)


def network(n_layers=3):
    """A network of random weights in float64, all of its parts at work."""
    generator = make_generator(5)
    energy = FourierEnergy(2, 3, 8, n_layers, 4, generator=generator).double()
    with torch.no_grad():
        for weight in energy.parameters():
            noise = torch.randn(weight.shape, dtype=torch.float64, generator=generator)
            weight.add_(0.5 * noise)
    return energy


def states(n=9):
    generator = make_generator(1)
    x = torch.randn(n, 2, dtype=torch.float64, generator=generator)
    return x, torch.arange(n) % 3


@pytest.mark.parametrize("n_layers", [1, 2, 4])
def test_the_gradient_by_hand_is_that_of_autograd(n_layers):
    energy, (x, level) = network(n_layers), states()
    value, gradient = energy.energy_and_gradient(x, level)
    x.requires_grad_()
    exact = energy(x, level)
    (expected,) = torch.autograd.grad(exact.sum(), x)
    assert value == pytest.approx(exact.detach(), abs=1e-12)
    assert gradient == pytest.approx(expected, abs=1e-11)


def test_the_conditional_gradient_is_that_of_autograd():
    energy, (x, level) = network(), states()
    above = torch.randn(9, 2, dtype=torch.float64, generator=make_generator(2))
    for of_levels in (energy, lambda z, t: energy(z, t)):
        conditional = conditional_energy(of_levels, NOISE, above, level)
        value, gradient = conditional.energy_and_gradient(x)
        z = x.clone().requires_grad_()
        exact = conditional(z)
        (expected,) = torch.autograd.grad(exact.sum(), z)
        assert value == pytest.approx(exact.detach(), abs=1e-12)
        assert gradient == pytest.approx(expected, abs=1e-11)


def test_training_starts_from_the_gaussian():
    x, level = states()
    energy = FourierEnergy(2, 3).double()
    assert energy(x, level).tolist() == pytest.approx(((x**2).sum(1) / 2).tolist())


def test_the_network_is_bounded():
    """Where no data teach it, the Gaussian keeps the distribution in place."""
    energy = network()
    far = 1e4 * states(300)[0]
    level = torch.zeros(300, dtype=torch.long)
    gates = [
        layer.weight.abs().sum() + layer.bias.abs().sum() for layer in energy.inner
    ]
    bound = (
        energy.first.weight.abs().sum(1) + energy.first.bias.abs()
    ).max() + energy.shifts.abs().max()
    for gate in gates:
        bound = gate * bound + energy.shifts.abs().max()
    bound = energy.last.weight.abs().sum() * bound + energy.last.bias.abs().sum()
    assert energy.network(far, level).abs().max() <= bound


def test_a_level_alone():
    energy, (x, _) = network(), states()
    level = torch.full((9,), 2)
    assert torch.equal(at_level(energy, 2)(x), energy(x, level))
