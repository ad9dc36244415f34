import pytest
import torch

from ebmtut.energies import LatticeIsing, lattice_adjacency, lattice_coloring
from ebmtut.random import bernoulli, make_generator


def random_bits(n, n_sites, dtype=torch.float64):
    probs = torch.full((n, n_sites), 0.5, dtype=dtype)
    return bernoulli(probs, generator=make_generator(0))


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
    x = random_bits(50, side * side)
    # Sums of at most 4 side**2 terms of size one.
    assert torch.allclose(lattice(x), dense(x), rtol=0, atol=1e-12)
    ratios = lattice.flip_log_ratios(x)
    assert torch.allclose(ratios, dense.flip_log_ratios(x), rtol=0, atol=1e-12)


def test_ground_state():
    lattice = LatticeIsing(4, 0.25, 0.5)
    up = torch.ones(1, 16, dtype=torch.float64)
    # 32 edges, each counted twice, and 16 fields.
    assert float(lattice(up)) == pytest.approx(-0.25 * 2 * 32 - 0.5 * 16)
