import pytest
import torch
from scipy import stats

from ebmtut import transport
from ebmtut.random import make_generator
from ebmtut.transport.grid import _exponential_minus
from ebmtut.transport.grid_cost import instances_innermost

SHAPES = [(5, 7, 9), (1, 8, 8), (140, 3, 4), (2, 1, 6), (3, 14, 5)]


def images(shape, seed=0, zeros=0.3, dtype=torch.float64):
    generator = make_generator(seed)
    x = torch.rand(shape, generator=generator, dtype=dtype)
    x *= torch.rand(shape, generator=generator) > zeros
    x[:, 0, 0] += 0.1
    return x / x.sum((1, 2), keepdim=True)


def test_dense_cost_is_the_squared_distance_of_pixels():
    cost = transport.grid_cost(3, 4, dtype=torch.float64)
    at = torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0)).double() / 4
    torch.testing.assert_close(cost.dense(), transport.cost_matrix(at, at))


@pytest.mark.parametrize("shape", SHAPES)
def test_separable_min_plus_equals_the_dense_one(shape):
    cost = transport.grid_cost(*shape[1:], dtype=torch.float64)
    h = torch.randn(shape, generator=make_generator(1), dtype=torch.float64)
    h[:, 0, 1:] = torch.inf
    dense = (cost.dense() + h.reshape(len(h), 1, -1)).amin(-1).reshape(shape)
    for result in (transport.min_plus(h, cost), transport.min_plus_reference(h, cost)):
        torch.testing.assert_close(result, dense, rtol=0, atol=1e-15)


def test_separable_min_plus_with_costs_that_are_no_distance():
    generator = make_generator(2)
    sides = (torch.randn(n, n, generator=generator) for n in (5, 6))
    cost = transport.GridCost(*sides)
    h = torch.randn(9, 5, 6, generator=generator)
    found = transport.min_plus(h, cost)
    assert torch.equal(found, transport.min_plus_reference(h, cost))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("height", [0.0, 1e-3, 1.0])
def test_what_is_left_out_changes_no_minimum(height, dtype):
    """Of smooth potentials most sources are too far away to be looked at."""
    shape = (150, 13, 22)  # more images than lanes, sides that fill no block
    cost = transport.grid_cost(*shape[1:], dtype=dtype)
    h = torch.randn(shape, generator=make_generator(4), dtype=dtype) * height
    # Minus a c-transform: for each target many sources are tied up to rounding.
    h = -transport.min_plus_reference(h, cost)
    h[:40, 3:9, 5:] = torch.inf
    h[7] = torch.inf
    found = transport.min_plus(h, cost)
    assert torch.equal(found, transport.min_plus_reference(h, cost))


def test_layout_does_not_matter():
    cost = transport.grid_cost(4, 5, dtype=torch.float64)
    h = images((6, 4, 5))
    laid_out = instances_innermost(h)
    assert laid_out.stride() == (1, 30, 6)
    assert torch.equal(transport.min_plus(h, cost), transport.min_plus(laid_out, cost))


def test_one_pass_is_algorithm_1_with_the_dense_matrix():
    cost = transport.grid_cost(4, 5, dtype=torch.float64)
    p, q = images((6, 4, 5), 1), images((6, 4, 5), 2)
    U = torch.randn(p.shape, generator=make_generator(3), dtype=torch.float64)
    found = transport.grid_gibbs_pass(U, p, q, cost, 0.01, generator=make_generator(4))

    generator = make_generator(4)
    zeros = torch.zeros_like(p)
    M = cost.dense()
    g = U - _exponential_minus(zeros, p, 0.01, generator)
    L = (g.flatten(1)[:, :, None] - M).amax(1)
    h = L + _exponential_minus(zeros, q, 0.01, generator).flatten(1)
    expected = (M + h[:, None, :]).amin(2)
    torch.testing.assert_close(found.L.flatten(1), L, rtol=0, atol=1e-13)
    torch.testing.assert_close(found.U.flatten(1), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_is_exponential_with_the_mean_of_the_conditional(dtype):
    mass = images((40, 20, 25), dtype=dtype, zeros=0)
    base = torch.randn(mass.shape, generator=make_generator(1), dtype=dtype)
    zero = torch.zeros_like(base)
    draws = _exponential_minus(zero, mass, 0.5, make_generator(7))
    theta = (draws * mass / 0.5).flatten()
    assert theta.min() > 0
    assert stats.kstest(theta.numpy(), "expon").pvalue > 1e-4
    # Neighbours in memory and successive blocks of 128 are uncorrelated.
    for lag in (1, 128):
        pair = torch.stack([theta[:-lag], theta[lag:]])
        assert abs(float(torch.corrcoef(pair)[0, 1])) < 5 / len(theta) ** 0.5
    shifted = _exponential_minus(base, mass, 0.5, make_generator(7))
    torch.testing.assert_close(shifted, draws - base)
    other = _exponential_minus(zero, mass, 0.5, make_generator(8))
    assert not torch.equal(draws, other)


def test_duals_are_feasible_and_bound_the_loss_from_below():
    ot = pytest.importorskip("ot")
    cost = transport.grid_cost(4, 5, dtype=torch.float64)
    p, q = images((6, 4, 5), 1), images((6, 4, 5), 2)
    M = cost.dense()
    exact = torch.tensor(
        [
            ot.emd2(a.flatten().numpy(), b.flatten().numpy(), M.numpy())
            for a, b in zip(p, q, strict=True)
        ]
    )
    generator = make_generator(3)
    U = torch.zeros_like(p)
    gaps = []
    for temperature in (1e-2, 1e-3, 1e-4, 1e-5):
        for _ in range(250):
            U = transport.grid_gibbs_pass(
                U, p, q, cost, temperature, generator=generator
            ).U
        duals = transport.grid_duals(U, p, q, cost)
        spread = duals.U.flatten(1)[:, :, None] - duals.L.flatten(1)[:, None, :] - M
        assert spread.max() < 1e-15
        value = transport.grid_dual_value(U, p, q, cost)
        dense = [
            transport.dual_value(a.flatten(), b.flatten(), M, g=u.flatten())
            for a, b, u in zip(p, q, U, strict=True)
        ]
        torch.testing.assert_close(value, torch.stack(dense), rtol=0, atol=1e-14)
        assert bool((value <= exact + 1e-12).all())
        gaps.append(float(((exact - value) / exact).max()))
    # Coordinate moves of order T / p: a short run is a few percent short.
    assert gaps[-1] < 0.1 < 0.5 < gaps[0]
