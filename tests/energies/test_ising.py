"""Energies of Ising models by loops, and lattices against the dense model."""

import pytest
import torch

from ebmtut.energies import Ising, LatticeIsing, lattice_adjacency, lattice_coloring
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


def adjacency_by_loops(side, periodic):
    a = torch.zeros(side * side, side * side, dtype=torch.float64)
    for r in range(side):
        for c in range(side):
            for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                row, col = r + dr, c + dc
                inside = 0 <= row < side and 0 <= col < side
                if periodic or inside:
                    a[r * side + c, row % side * side + col % side] = 1
    return a


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("side", [3, 4, 5])
def test_adjacency(side, periodic):
    a = lattice_adjacency(side, periodic)
    assert torch.equal(a, adjacency_by_loops(side, periodic))


def test_open_lattices_may_be_small():
    assert lattice_adjacency(1, periodic=False).tolist() == [[0.0]]
    assert lattice_adjacency(2, periodic=False).sum() == 8
    assert lattice_adjacency(3, dtype=torch.float32).dtype == torch.float32


@pytest.mark.parametrize(("side", "n_colors"), [(3, 3), (4, 2), (5, 3), (10, 2)])
def test_neighbours_have_different_colours(side, n_colors):
    colors = lattice_coloring(side)
    assert colors.dtype == torch.int64
    assert sorted(colors.unique().tolist()) == list(range(n_colors))
    row, col = lattice_adjacency(side).nonzero(as_tuple=True)
    assert (colors[row] != colors[col]).all()


@pytest.mark.parametrize("side", [3, 4, 7])
@pytest.mark.parametrize(("sigma", "bias"), [(0.3, 0.0), (-0.2, 0.4)])
def test_rolls_equal_the_dense_model(side, sigma, bias):
    lattice = LatticeIsing(side, sigma, bias)
    dense = lattice.to_dense()
    half = torch.full((50, side * side), 0.5).double()
    x = bernoulli(half, generator=make_generator(0))
    # Sums of at most 4 side**2 terms of size one.
    assert torch.allclose(lattice(x), dense(x), rtol=0, atol=1e-12)
    ratios = lattice.flip_log_ratios(x)
    assert torch.allclose(ratios, dense.flip_log_ratios(x), rtol=0, atol=1e-12)


def test_ground_state():
    lattice = LatticeIsing(4, 0.25, 0.5)
    up = torch.ones(1, 16, dtype=torch.float64)
    # 32 edges, each counted twice, and 16 fields.
    assert float(lattice(up)) == pytest.approx(-0.25 * 2 * 32 - 0.5 * 16)
