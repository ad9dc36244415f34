"""Exact functions and metrics do not depend on units, on constants or on the order."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.energies import BoltzmannMachine, GraphBatch
from ebmtut.exact import (
    exact_log_partition,
    exact_mean,
    maximum_cuts,
    maximum_independent_sets,
)
from ebmtut.metrics import (
    covariance_error,
    effective_sample_size,
    estimate_log_mean_exp,
    gaussian_frechet_distance,
    mmd,
    nearest_neighbors,
    negative_log_rmse,
    pair_covariances,
    rmse,
)
from ebmtut.random import make_generator
from ebmtut.transport import dual_value, sinkhorn

seeds = st.integers(0, 999)
scales = st.floats(-30, 30).map(lambda exponent: 10.0**exponent)
shifts = st.floats(-1e6, 1e6)
many = settings(deadline=None, max_examples=15)


def normal(*size, seed):
    return torch.randn(*size, generator=make_generator(seed), dtype=torch.float64)


@many
@given(seeds, st.floats(-1e9, 1e9), st.permutations(range(5)))
def test_enumeration(seed, shift, order):
    """A constant moves log Z by itself, and the order of the sites moves nothing."""
    weight, bias = normal(5, 5, seed=seed), normal(5, seed=seed + 1)
    weight = (weight + weight.T).fill_diagonal_(0)
    model = BoltzmannMachine(weight, bias)
    other = BoltzmannMachine(weight[order][:, order], bias[order])
    log_z = float(exact_log_partition(model, 5))
    assert float(exact_log_partition(other, 5)) == pytest.approx(log_z, abs=1e-12)
    moved = exact_log_partition(lambda x: model(x) + shift, 5)
    assert float(moved) + shift == pytest.approx(log_z, abs=1e-13 + 1e-15 * abs(shift))
    mean = exact_mean(model, lambda x: x)
    torch.testing.assert_close(exact_mean(other, lambda x: x), mean[order])


@many
@given(seeds, st.integers(2, 7), st.data())
def test_optima_of_graphs(seed, n, data):
    pairs = [(i, j) for i in range(n) for j in range(i)]
    chosen = torch.rand(len(pairs), generator=make_generator(seed)) < 0.5
    edges = [pair for pair, is_edge in zip(pairs, chosen, strict=True) if is_edge]
    order = data.draw(st.permutations(range(n)))
    renamed = [(order[i], order[j]) for i, j in edges]
    graphs = [GraphBatch.from_edges([(n, each)]) for each in (edges, renamed)]
    for solve in (maximum_cuts, maximum_independent_sets):
        one, other = (float(solve(graph).value) for graph in graphs)
        assert one == other


@many
@given(seeds, scales, shifts)
def test_weights(seed, scale, shift):
    """Only ratios of weights count; a sum of their logarithms takes any size."""
    log_w = normal(50, seed=seed)
    ess = effective_sample_size(log_w)
    w = log_w.exp()
    assert ess == pytest.approx(float(w.sum() ** 2 / (w**2).sum() / 50), rel=1e-12)
    assert effective_sample_size(log_w.flip(0) + shift) == pytest.approx(ess, rel=1e-8)
    found = estimate_log_mean_exp(log_w + math.log(scale))
    want = estimate_log_mean_exp(log_w)
    assert found.value - math.log(scale) == pytest.approx(want.value, abs=1e-12)
    assert found.stderr == pytest.approx(want.stderr, rel=1e-9)


@many
@given(seeds, scales, st.permutations(range(6)))
def test_errors(seed, scale, order):
    x, y = normal(2, 6, seed=seed)
    assert rmse(scale * x[order], scale * y[order]) == pytest.approx(
        scale * rmse(x, y), rel=1e-12
    )
    assert negative_log_rmse(scale * x, scale * y) == pytest.approx(
        negative_log_rmse(x, y) - math.log(scale), abs=1e-10
    )


@many
@given(seeds, st.permutations(range(6)), st.permutations(range(9)))
def test_sets_of_bits(seed, sites, rows):
    """Order of rows and sites, and the names of the two values, do not matter."""
    x, y = (normal(2, 9, 6, seed=seed) > 0).double()
    for change in (lambda z: z[rows], lambda z: z[:, sites], lambda z: 1 - z):
        assert mmd(change(x), change(y)) == pytest.approx(mmd(x, y), abs=1e-14)
    truth = pair_covariances(y)
    error = covariance_error(x, truth)
    assert covariance_error(x[rows], truth) == pytest.approx(error, rel=1e-12)
    assert covariance_error(x[:, sites], truth[sites][:, sites]) == pytest.approx(
        error, rel=1e-12
    )
    torch.testing.assert_close(pair_covariances(1 - y), truth)


@many
@given(seeds, st.floats(-6, 6).map(lambda e: 10.0**e), shifts)
def test_distances(seed, scale, shift):
    x = normal(7, 3, seed=seed)
    y = normal(8, 3, seed=seed + 1)
    near, moved = nearest_neighbors(x, y), nearest_neighbors(x + shift, y + shift)
    assert torch.equal(near.place, moved.place)
    covariances = [torch.cov(z.T) for z in (x, y)]
    want = gaussian_frechet_distance(x[0], covariances[0], y[0], covariances[1])
    found = gaussian_frechet_distance(
        scale * (x[0] + shift),
        scale**2 * covariances[0],
        scale * (y[0] + shift),
        scale**2 * covariances[1],
    )
    assert found == pytest.approx(scale**2 * want, rel=1e-6)


@many
@given(seeds, scales, st.floats(-100, 100), st.permutations(range(5)))
def test_certificates_of_transport(seed, scale, shift, order):
    """Of prices in any unit; a constant of the cost is paid by the whole mass."""
    cost, g = normal(5, 4, seed=seed), normal(5, seed=seed + 1)
    p, q = normal(5, seed=seed + 2).softmax(0), normal(4, seed=seed + 3).softmax(0)
    want = float(dual_value(p, q, cost, g=g))
    found = dual_value(p[order], q, scale * (cost[order] + shift), g=scale * g[order])
    assert float(found) / scale - shift == pytest.approx(want, abs=1e-12)
    plan = sinkhorn(p, q, cost, 0.5, 20)
    moved = sinkhorn(p[order], q, scale * (cost[order] + shift), scale * 0.5, 20)
    torch.testing.assert_close(moved, plan[order], rtol=1e-9, atol=1e-12)
