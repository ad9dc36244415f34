"""The GPU's min-plus products: a minimum of the same sums, so equal to the last bit."""

import pytest
import torch

from ebmtut import transport
from ebmtut.kernels import gibbs_ot as gibbs_ot_kernels
from ebmtut.random import make_generator
from ebmtut.transport.gibbs_ot import PlainChain, chain_for, gibbs_ot_iteration


def uniform(*shape, seed=0, dtype=torch.float64):
    return torch.rand(shape, generator=make_generator(seed), dtype=dtype)


@pytest.fixture(autouse=True)
def _tiny_tiles(monkeypatch, by_kernel):
    from ebmtut.kernels import min_plus_triton as kernels

    by_kernel("ebmtut.kernels.grid_min_plus", "ebmtut.kernels.gibbs_ot")
    monkeypatch.setattr(kernels, "_M", 4)
    monkeypatch.setattr(kernels, "_I", 4)
    monkeypatch.setattr(kernels, "_K", 2)  # what is summed is split


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 5, 6), (1, 4, 3), (2, 1, 7)])
def test_separable_costs(shape, dtype, device):
    """Also where pixels are left out, and where all of a problem are."""
    _, height, width = shape
    cost = transport.GridCost(
        uniform(height, height, dtype=dtype).to(device),
        uniform(width, width, seed=1, dtype=dtype).to(device),
    )
    h = uniform(*shape, seed=2, dtype=dtype).to(device)
    h[0, 0, ::2] = torch.inf
    h[-1, :, -1] = torch.inf
    found = transport.min_plus(h, cost)
    assert torch.equal(found, transport.min_plus_reference(h, cost))


@pytest.mark.parametrize("turned", [False, True])
def test_a_chain_of_dense_problems(turned, device):
    """Three problems of one cost, some entries without mass, five iterations."""
    from ebmtut.kernels import min_plus_triton as kernels

    p, q = uniform(3, 6, seed=3), uniform(3, 7, seed=4)
    p[:, 2] = q[0, 1] = q[2, 3] = p[1, 0] = 0
    p, q = (x.div(x.sum(1, keepdim=True)).to(device) for x in (p, q))
    if turned:  # as masses are that came as columns
        p, q = (x.T.contiguous().T for x in (p, q))
    cost, g = uniform(6, 7, seed=5).to(device), uniform(3, 6, seed=6).to(device)
    iterations = gibbs_ot_iteration, kernels.iteration_over(cost)
    chains = [PlainChain(p, q, cost, g, iteration) for iteration in iterations]
    temperatures = torch.linspace(0.1, 0.05, 10, dtype=torch.float64).view(5, 2)
    theta = -uniform(5, chains[0].n_draws, seed=7).log()
    for chain in chains:
        chain.advance(temperatures.to(device), theta.to(device))
    for want, got in zip(*(chain.statistics(True) for chain in chains), strict=True):
        assert torch.equal(want, got)
    assert torch.equal(chains[0].dual_value(), chains[1].dual_value())


def test_the_public_door(device, monkeypatch):
    """The kernel's chain is the one that plain torch runs with the same draws."""
    monkeypatch.setattr(gibbs_ot_kernels, "_FEW", 2)
    p = torch.softmax(uniform(2, 6, seed=3), 1).to(device)
    q = torch.softmax(uniform(2, 5, seed=4), 1).to(device)
    cost = uniform(6, 5, seed=5).to(device)
    runs = [
        run(p, q, cost, torch.full((6,), 0.1), generator=make_generator(0, device))
        for run in (transport.gibbs_ot_reference, transport.gibbs_ot)
    ]
    assert torch.equal(runs[0].U, runs[1].U) and torch.equal(runs[0].L, runs[1].L)


@pytest.mark.parametrize(("n", "tiled"), [(15, False), (16, True)])
def test_few_problems_leave_tiles_empty_and_go_without_the_kernel(n, tiled, device):
    p, q = torch.full((n, 4), 0.25).to(device), torch.full((n, 5), 0.2).to(device)
    cost = uniform(4, 5).float().to(device)
    chain = chain_for(p, q, cost, p)
    made = isinstance(chain, PlainChain) and chain.iteration is not gibbs_ot_iteration
    assert made == tiled


@pytest.fixture
def launched(monkeypatch):
    """Grids, arguments and constants of launches that do not take place."""
    from ebmtut.kernels import min_plus_triton as kernels

    calls = []

    class Aside:
        def __getitem__(self, grid):
            return lambda *given, **constants: calls.append((grid, given, constants))

    for name, value in (("_M", 32), ("_I", 64), ("_K", 64)):
        monkeypatch.setattr(kernels, name, value)
    monkeypatch.setattr(kernels, "least_sums_tile", Aside())
    return calls


@pytest.mark.parametrize(
    ("side", "dtype", "tile"),
    [
        (28, torch.float32, (32, 32)),
        (28, torch.float64, (32, 32)),
        (64, torch.float32, (32, 64)),
        (64, torch.float64, (32, 32)),
        (3, torch.float32, (4, 4)),
    ],
)
def test_tiles_are_no_larger_than_the_image_needs(side, dtype, tile, launched):
    """Of 32 x 64, an image of 28 x 28 would fill 38 percent."""
    from ebmtut.kernels.min_plus_triton import least_sums_over

    square = torch.empty(side, side, dtype=dtype, device="meta")
    least_sums_over(square.expand(5, -1, -1), square)
    ((grid, _, constants),) = launched
    assert (constants["N_M"], constants["N_I"]) == tile and constants["num_warps"] == 1
    assert grid == (5, *(-(-side // n) for n in tile))


@pytest.mark.parametrize(
    ("n", "k", "parts"), [(64, 2048, 16), (64, 130, 3), (5, 64, 1)]
)
def test_few_tiles_are_found_in_parts(n, k, parts, launched):
    """64 dense problems of 2048 points make 64 tiles, where a GPU runs a thousand."""
    from ebmtut.kernels.min_plus_triton import least_sums_over

    values = torch.empty(1, k, n, device="meta")
    found = least_sums_over(values, torch.empty(k, 2048, device="meta"))
    ((grid, arguments, _),) = launched
    assert found.shape == (1, n, 2048)
    assert grid[0] == parts == arguments[-2] and arguments[-1] * parts >= k
