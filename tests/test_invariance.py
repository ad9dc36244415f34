"""Exact functions and metrics do not depend on units, on constants or on the order."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut import exact, metrics, transport
from ebmtut.energies import BoltzmannMachine, GraphBatch
from ebmtut.random import make_generator
from tests.shared import normal

seeds = st.integers(0, 999)
scales = st.floats(-30, 30).map(lambda exponent: 10.0**exponent)
shifts = st.floats(-1e6, 1e6)
many = settings(deadline=None, max_examples=15)


@many
@given(seeds, st.floats(-1e9, 1e9), st.permutations(range(5)))
def test_enumeration(seed, shift, order):
    """A constant moves log Z by itself, and the order of the sites moves nothing."""
    weight, bias = normal(5, 5, seed=seed), normal(5, seed=seed + 1)
    weight = (weight + weight.T).fill_diagonal_(0)
    model = BoltzmannMachine(weight, bias)
    other = BoltzmannMachine(weight[order][:, order], bias[order])
    log_z = float(exact.exact_log_partition(model, 5))
    assert float(exact.exact_log_partition(other, 5)) == pytest.approx(log_z, abs=1e-12)
    moved = exact.exact_log_partition(lambda x: model(x) + shift, 5)
    assert float(moved) + shift == pytest.approx(log_z, abs=1e-13 + 1e-15 * abs(shift))
    mean = exact.exact_mean(model, lambda x: x)
    torch.testing.assert_close(exact.exact_mean(other, lambda x: x), mean[order])
    log_p = exact.exact_probabilities(model, 5)
    for same in (
        exact.exact_probabilities(other, 5),
        exact.exact_probabilities(lambda x: model(x) + shift, 5),
    ):
        torch.testing.assert_close(
            same.sort().values,
            log_p.sort().values,
            rtol=1e-15 * (1 + abs(shift)),
            atol=1e-12,
        )
    states = log_p[:, None] + normal(32, seed=seed)
    torch.testing.assert_close(
        exact.contrastive_potential(shift - log_p, states) - shift,
        exact.contrastive_potential(-log_p, states),
        rtol=0,
        atol=1e-12 + 1e-15 * abs(shift),
    )


@many
@given(*[st.sampled_from([4, 6])] * 2, st.floats(-320, 0), st.floats(-1, 1))
def test_lattices(rows, cols, exponent, field):
    """Of either orientation, either sign, and however small the coupling is."""
    k = 10.0**exponent
    log_z = exact.transfer_log_partition(rows, cols, k, field)
    turned = exact.transfer_log_partition(cols, rows, k, -field)
    assert turned == pytest.approx(log_z, rel=1e-12)
    log_z = exact.transfer_log_partition(rows, cols, k)
    for same in (
        exact.torus_log_partition(rows, cols, k),
        exact.torus_log_partition(cols, rows, -k),
    ):
        assert same == pytest.approx(log_z, rel=1e-12)
    energies, p = exact.torus_energy_distribution(rows, cols, k)
    turned, other = exact.torus_energy_distribution(cols, rows, k)
    torch.testing.assert_close(turned, energies)
    torch.testing.assert_close(other, p, rtol=0, atol=1e-11)
    assert float(p.sum()) == pytest.approx(1, abs=1e-11)
    sign = (-1.0) ** torch.arange(rows // 2 + 1)
    torch.testing.assert_close(
        exact.torus_correlations(rows, cols, -k),
        sign * exact.torus_correlations(rows, cols, k),
        rtol=0,
        atol=1e-11,
    )


@many
@given(seeds, st.integers(2, 7), st.data())
def test_optima_of_graphs(seed, n, data):
    pairs = [(i, j) for i in range(n) for j in range(i)]
    chosen = torch.rand(len(pairs), generator=make_generator(seed)) < 0.5
    edges = [pair for pair, is_edge in zip(pairs, chosen, strict=True) if is_edge]
    order = data.draw(st.permutations(range(n)))
    renamed = [(order[i], order[j]) for i, j in edges]
    graphs = [GraphBatch.from_edges([(n, each)]) for each in (edges, renamed)]
    for solve in (exact.maximum_cuts, exact.maximum_independent_sets):
        one, other = (float(solve(graph).value) for graph in graphs)
        assert one == other


@many
@given(seeds, scales, shifts)
def test_weights(seed, scale, shift):
    """Only ratios of weights count; a sum of their logarithms takes any size."""
    log_w = normal(50, seed=seed)
    ess = metrics.effective_sample_size(log_w)
    w = log_w.exp()
    assert ess == pytest.approx(float(w.sum() ** 2 / (w**2).sum() / 50), rel=1e-12)
    moved = metrics.effective_sample_size(log_w.flip(0) + shift)
    assert moved == pytest.approx(ess, rel=1e-8)
    found = metrics.estimate_log_mean_exp(log_w + math.log(scale))
    want = metrics.estimate_log_mean_exp(log_w)
    assert found.value - math.log(scale) == pytest.approx(want.value, abs=1e-12)
    assert found.stderr == pytest.approx(want.stderr, rel=1e-9)


@settings(deadline=None, max_examples=5)
@given(seeds, shifts)
def test_estimates_of_log_z(seed, shift):
    """A constant of the energy is a constant of each, and nothing of a likelihood."""
    weight = normal(4, 4, seed=seed)
    model = BoltzmannMachine((weight + weight.T).fill_diagonal_(0), weight[0])
    fitted = metrics.BernoulliProposal(weight[1].sigmoid())

    def estimates(constant):
        def energy(x):
            return model(x.double()) + constant

        def new():
            return make_generator(seed)

        yield metrics.log_partition_uniform(energy, 4, 50, generator=new())
        yield metrics.log_partition_importance(energy, fitted, 50, generator=new())
        yield metrics.log_partition_annealed(energy, 5, 3, n_sites=4, generator=new())
        sizes = {"bits_per_coordinate": 2, "coarse_bits": 1, "n_samples": 50}
        yield metrics.grid_log_partition(energy, **sizes, generator=new()).log_partition
        x = fitted.sample(9, generator=new())
        mean = metrics.nll(energy, x, 1.0)
        assert metrics.nll(energy, x.flip(0), 1.0) == pytest.approx(mean, rel=1e-12)
        yield mean._replace(value=-mean.value)

    for one, other in zip(estimates(0.0), estimates(shift), strict=True):
        assert other.value + shift == pytest.approx(one.value, abs=1e-8)
        assert other.stderr == pytest.approx(one.stderr, rel=1e-8, abs=1e-9)


@many
@given(seeds, scales, shifts)
def test_densities_of_the_plane(seed, scale, shift):
    """In any unit of length, up to constants, and turned."""
    grid, other = metrics.PlaneGrid(1.0, 8), metrics.PlaneGrid(scale, 8)
    p, q = normal(2, 8, 8, seed=seed)
    where, area = p > 0, 2 * math.log(scale)
    found = other.log_partition(shift - p) + shift - area
    assert found == pytest.approx(grid.log_partition(-p), abs=1e-9)
    for change in (lambda z: z.flip(0) + shift, lambda z: z.T - shift):
        turned = change(p), change(q)
        for compare in ("kl", "total_variation"):
            want = getattr(grid, compare)(p, q)
            assert getattr(other, compare)(*turned) == pytest.approx(want, abs=1e-8)
        part = change(where.double()) - change(torch.zeros(8, 8)) > 0.5
        want = pytest.approx(grid.mass(q, where), abs=1e-8)
        assert other.mass(turned[1], part) == want
    x = normal(50, 2, seed=seed) / 3
    torch.testing.assert_close(other.histogram(scale * x) + area, grid.histogram(x))


@many
@given(seeds, scales, st.permutations(range(6)))
def test_errors(seed, scale, order):
    x, y = normal(2, 6, seed=seed)
    want = pytest.approx(scale * metrics.rmse(x, y), rel=1e-12)
    assert metrics.rmse(scale * x[order], scale * y[order]) == want
    want = metrics.negative_log_rmse(x, y) - math.log(scale)
    found = metrics.negative_log_rmse(scale * x, scale * y)
    assert found == pytest.approx(want, abs=1e-10)


@many
@given(seeds, st.permutations(range(6)), st.permutations(range(9)))
def test_sets_of_bits(seed, sites, rows):
    """Order of rows and sites, and the names of the two values, do not matter."""
    x, y = (normal(2, 9, 6, seed=seed) > 0).double()
    truth = metrics.pair_covariances(y)
    error = metrics.covariance_error(x, truth)
    assert metrics.covariance_error(x[rows], truth) == pytest.approx(error, rel=1e-12)
    moved = metrics.covariance_error(x[:, sites], truth[sites][:, sites])
    assert moved == pytest.approx(error, rel=1e-12)
    torch.testing.assert_close(metrics.pair_covariances(1 - y), truth)

    def numbers(a, b):
        yield metrics.covariance_error_of_fresh_sample(b, 5)
        yield metrics.hamming_kernel_mean(a, b, 0.3)
        yield float(metrics.hamming_distances(a, b).sum())
        yield metrics.mmd_of_fresh_sample(a, 5)

    for change in (lambda z: z[rows], lambda z: z[:, sites], lambda z: 1 - z):
        a, b = change(x), change(y)
        assert metrics.mmd(a, b) == pytest.approx(metrics.mmd(x, y), abs=1e-14)
        assert [*numbers(a, b)] == pytest.approx([*numbers(x, y)], rel=1e-12)
    p = (x + y + 1).softmax(1)
    want = pytest.approx(metrics.class_score(p), rel=1e-12)
    assert metrics.class_score(p[rows][:, sites]) == want


@many
@given(seeds, st.floats(-6, 6).map(lambda e: 10.0**e), shifts)
def test_distances(seed, scale, shift):
    x = normal(7, 3, seed=seed)
    y = normal(8, 3, seed=seed + 1)
    near = metrics.nearest_neighbors(x, y)
    moved = metrics.nearest_neighbors(x + shift, y + shift)
    assert torch.equal(near.place, moved.place)
    covariances = [torch.cov(z.T) for z in (x, y)]
    want = metrics.gaussian_frechet_distance(x[0], covariances[0], y[0], covariances[1])
    found = metrics.gaussian_frechet_distance(
        scale * (x[0] + shift),
        scale**2 * covariances[0],
        scale * (y[0] + shift),
        scale**2 * covariances[1],
    )
    assert found == pytest.approx(scale**2 * want, rel=1e-6)
    distances = []
    for points in ((x, y), (scale * (x.flip(0) + shift), scale * (y + shift))):
        features = (metrics.InceptionFeatures(z, z) for z in points)
        distances.append(metrics.fid(*features))
    assert distances[1] == pytest.approx(scale**2 * distances[0], rel=1e-6)
    for kind, power in (("squared_euclidean", 2), ("euclidean", 1), ("coulomb", -1)):
        turned = scale * (x.flip(0) + shift), scale * (y + shift)
        moved = transport.cost_matrix(*turned, kind)
        want = scale**power * transport.cost_matrix(x, y, kind).flip(0)
        torch.testing.assert_close(moved, want, rtol=1e-7, atol=0)


@many
@given(seeds, scales, st.floats(-100, 100), st.permutations(range(5)))
def test_certificates_of_transport(seed, scale, shift, order):
    """Of prices in any unit; a constant of the cost is paid by the whole mass."""
    cost, g = normal(5, 4, seed=seed), normal(5, seed=seed + 1)
    p, q = normal(5, seed=seed + 2).softmax(0), normal(4, seed=seed + 3).softmax(0)
    want = float(transport.dual_value(p, q, cost, g=g))
    turned = p[order], q, scale * (cost[order] + shift)
    found = transport.dual_value(*turned, g=scale * g[order])
    assert float(found) / scale - shift == pytest.approx(want, abs=1e-12)
    plan = transport.sinkhorn(p, q, cost, 0.5, 20)
    moved = transport.sinkhorn(*turned, scale * 0.5, 20)
    torch.testing.assert_close(moved, plan[order], rtol=1e-9, atol=1e-12)


def quantities(p, q, cost, U, L, unit):
    """In units of the cost: what a constant of it raises, and what it does not."""
    raised = {
        "c-transform": transport.c_transform(cost, h=L) / unit,
        "chain": transport.chain_value(p, q, U, L) / unit,
        "exact": transport.exact_oracle()(p, q, cost)[0] / unit,
        "Sinkhorn": transport.sinkhorn_oracle(unit / 2, 9)(p, q, cost)[0] / unit,
    }
    coupling = transport.transport_plan(p, q, cost, U, L, temperature=unit / 2).coupling
    others = {
        "plan": transport.transport_plan(p, q, cost, U, L).coupling,
        "weighed": coupling,
        "rounded": transport.feasible_plan(coupling, p, q),
        "marginals": torch.tensor(transport.marginal_error(coupling, p, q)),
        "bound": transport.temperature_bound(p, q, cost, U, L, unit / 2) / unit,
        "half step": transport.half_step_distribution(cost, unit / 2, U=U, p=p).mean
        / unit,
        "gibbs": transport.gibbs_ot(
            p, q, cost, [unit / 2] * 6, generator=make_generator(0)
        ).U
        / unit,
        "mirror": transport.mirror_step(p, U, 0.5 / unit),
    }
    return raised, others


@many
@given(seeds, scales, st.floats(-100, 100), st.permutations(range(5)))
def test_statistics_of_transport(seed, scale, shift, order):
    cost, U, L = normal(5, 4, seed=seed), normal(5, seed=seed + 1), normal(4, seed=seed)
    p, q = normal(5, seed=seed + 2).softmax(0), normal(4, seed=seed + 3).softmax(0)
    turned = p[order], q, cost[order], U[order], L
    raised, others = quantities(*turned, 1.0)
    moved = [scale * (x + shift) for x in turned[2:4]]
    higher, same = quantities(*turned[:2], *moved, scale * L, scale)
    close = {"rtol": 1e-7, "atol": 1e-9}
    for name, value in raised.items():
        torch.testing.assert_close(higher[name] - shift, value, **close, msg=name)
    for name, value in others.items():
        torch.testing.assert_close(same[name], value, **close, msg=name)
    plain, _ = quantities(p, q, cost, U, L, 1.0)
    for name, value in plain.items():
        want = value[order] if value.dim() else value
        torch.testing.assert_close(raised[name], want, **close, msg=name)
    gap = transport.relative_gap(p, q, cost, U, L)
    found = transport.relative_gap(*turned[:2], *(scale * x for x in turned[2:]))
    assert found == pytest.approx(gap, rel=1e-9)
    settled = transport.has_settled(U.repeat(3))
    assert transport.has_settled(scale * U.repeat(3)) == settled
    plan = transport.bregman_admm(p, q, cost, 9)
    again = transport.bregman_admm(p[order], q, scale * cost[order], 9)
    torch.testing.assert_close(again, plan[order])


@many
@given(seeds, scales, shifts)
def test_transport_of_images(seed, scale, shift):
    cost, g = transport.grid_cost(3, 4, dtype=torch.float64), normal(2, 3, 4, seed=seed)
    p, q = (normal(2, 12, seed=seed + k).softmax(1).view(2, 3, 4) for k in (1, 2))
    turned = transport.GridCost(scale * cost.columns, scale * cost.rows)
    moved = (scale * (g + shift)).mT
    close = {"rtol": 1e-8, "atol": 1e-8}
    want = transport.grid_dual_value(g, p, q, cost)
    found = transport.grid_dual_value(moved, p.mT, q.mT, turned)
    torch.testing.assert_close(found / scale, want, **close)
    want = transport.min_plus(g, cost)
    found = transport.min_plus(moved, turned).mT
    torch.testing.assert_close(found / scale - shift, want, **close)
    want = transport.smoothed_conjugate(g, q, cost, 0.1)
    found = transport.smoothed_conjugate(moved, q.mT, turned, scale * 0.1)
    torch.testing.assert_close(found / scale - shift, want, **close)
