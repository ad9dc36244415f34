import pytest
import torch

from ebmtut.energies import Ising
from ebmtut.random import bernoulli, make_generator
from ebmtut.states import bits_to_spins, enumerate_states
from tests.shared import normal


def test_energy_by_loops():
    coupling, bias = normal(4, 4), normal(4, seed=1)
    energy = Ising(coupling, bias)
    x = enumerate_states(4)
    for state, got in zip(x, energy(x), strict=True):
        s = [2 * float(b) - 1 for b in state]
        want = -sum(s[i] * float(bias[i]) for i in range(4))
        for i in range(4):
            for j in range(4):
                if i != j:  # the diagonal is dropped
                    want -= s[i] * float(coupling[i, j]) * s[j]
        assert float(got) == pytest.approx(want, abs=1e-12)


def test_each_edge_counts_twice():
    coupling = torch.tensor([[0.0, 0.3], [0.3, 0.0]], dtype=torch.float64)
    energies = Ising(coupling)(enumerate_states(2))
    assert energies.tolist() == pytest.approx([-0.6, 0.6, 0.6, -0.6])


def test_raw_coupling_is_symmetrised_without_diagonal():
    raw = normal(5, 5)
    energy = Ising(raw)
    assert torch.equal(energy.coupling, raw)
    symmetric = energy.symmetric_coupling
    assert torch.equal(symmetric, symmetric.T)
    assert (symmetric.diagonal() == 0).all()
    assert torch.allclose(symmetric.triu(1), ((raw + raw.T) / 2).triu(1))
    # Copied: a later change of the argument changes nothing.
    raw.zero_()
    assert energy.coupling.abs().sum() > 0


def test_no_field_is_a_zero_field():
    coupling = normal(4, 4)
    x = enumerate_states(4)
    without, zero = Ising(coupling), Ising(coupling, torch.zeros(4).double())
    assert torch.equal(without(x), zero(x))
    assert torch.equal(without.flip_log_ratios(x), zero.flip_log_ratios(x))
    # Without a field the distribution is symmetric under a flip of all spins.
    assert torch.allclose(without(x), without(1 - x))


def test_learnable_gradient_is_minus_the_statistics():
    energy = Ising(normal(4, 4), normal(4), learnable=True)
    x = bernoulli(torch.full((6, 4), 0.5).double(), generator=make_generator(2))
    energy(x).sum().backward()
    s = bits_to_spins(x)
    pairs = (s.T @ s).fill_diagonal_(0)
    assert torch.allclose(energy.coupling.grad, -pairs)
    assert torch.allclose(energy.bias.grad, -s.sum(0))
