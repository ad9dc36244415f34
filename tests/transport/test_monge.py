"""Minima by Monge's property, and tiles passed over, are the same to the last bit."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.kernels import gibbs_ot as compiled
from ebmtut.kernels.gibbs_ot import CompiledChain
from ebmtut.kernels.monge import monge_minima, monge_of
from ebmtut.kernels.tiles import bisect, pruning_for
from ebmtut.random import make_generator
from ebmtut.transport import annealed_temperatures, cost_matrix
from ebmtut.transport.gibbs_ot import standard_exponential


def power_cost(x, y, power=2.0):
    return (x[:, None] - y).abs().pow(power)


def points(n, seed, dtype=torch.float64):
    """Points of a line in order, no two nearer than half of a mean gap."""
    gaps = torch.rand(n, dtype=torch.float64, generator=make_generator(seed)) + 0.5
    return (gaps.cumsum(0) / gaps.sum()).to(dtype)


def minima(kept, x):
    one = kept.cost.dtype.type(1)
    found = np.empty(kept.cost.shape[1], kept.cost.dtype)
    monge_minima(x, found, kept.cost, kept.cost_t, kept.size, kept.margin, one)
    return found


@settings(deadline=None)  # the first call compiles
@given(
    m1=st.integers(64, 150),
    m2=st.integers(64, 150),
    seed=st.integers(0, 2**31),
    scale=st.sampled_from([1e-6, 1e-2, 1.0, 1e3, 1e14]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_minima_are_those_of_a_look_at_all(m1, m2, seed, scale, dtype):
    """At any size of x, too; at the largest, sums no longer tell rows apart."""
    line = power_cost(points(m1, seed, dtype), points(m2, seed + 1, dtype))
    generator = make_generator(seed)
    for cost in (line, line.T.contiguous()):
        x = scale * torch.randn(len(cost), dtype=dtype, generator=generator)
        x[torch.rand(len(x), generator=generator) < 0.2] = torch.inf
        x[int(torch.randint(len(x), (), generator=generator))] = 0
        expected = (cost + x[:, None]).amin(0)
        assert np.array_equal(minima(monge_of(cost), x.numpy()), expected.numpy())


def test_what_is_no_cost_of_monge_is_told_apart():
    x, y = points(100, 2), points(90, 3)
    assert monge_of(power_cost(x, y)) is not None
    assert monge_of(power_cost(x, y, 1.5)) is not None
    assert monge_of(power_cost(x, y, 1.0)) is None  # differences of zero say nothing
    assert monge_of(power_cost(x, y, 0.5)) is None
    assert monge_of(cost_matrix(x, y, "coulomb")) is None
    assert monge_of(power_cost(x, y.flip(0))) is None
    forbidden = power_cost(x, y)
    forbidden[3, 4] = torch.inf
    assert monge_of(forbidden) is None
    swapped = power_cost(x, y)
    swapped[[50, 51]] = swapped[[51, 50]]
    assert monge_of(swapped) is None
    square = torch.rand(100, 2, dtype=torch.float64, generator=make_generator(4))
    assert monge_of(cost_matrix(square, square)) is None


def test_the_margin_is_what_neighbours_leave_and_small_ones_are_refused():
    """Of |x - y|^2 on cells of width 1 / n it is 2 / n^2, less rounding."""
    n = 256
    x = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    kept = monge_of(power_cost(x, x))
    assert 0 <= 2 / n**2 - kept.margin < 10 * np.finfo(float).eps
    assert monge_of(power_cost(x, x).float()) is not None
    fine = torch.arange(4096, dtype=torch.float64) / 4096
    assert monge_of(power_cost(fine, fine).float()) is None  # 1e-7, as a rounding
    assert monge_of(power_cost(x[:60], x[:60])) is None  # too small to be worth it
    assert monge_of(power_cost(x[:20], x)) is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [(128, 128), (150, 131), (64, 100)])
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_a_chain_on_a_line_changes_no_bit(shape, dtype, zeros):
    """With masses that are moved in between, some of them to nothing."""
    generator = make_generator(shape[1])
    p, q = (
        (torch.rand(m, dtype=torch.float64, generator=generator) + 0.05)
        * (torch.rand(m, generator=generator) >= zeros)
        for m in shape
    )
    p, q = (mass.div(mass.sum()).to(dtype) for mass in (p, q))
    cost = power_cost(*(points(m, 5, dtype) for m in shape))
    start = torch.zeros_like(p)[None]
    short, whole = (CompiledChain(p[None], q[None], cost, start) for _ in range(2))
    if zeros == 0:
        assert short.monge is not None
    whole.monge = whole.pruning = None
    schedule = annealed_temperatures(60, shape[0], power=2.0).view(-1, 2).to(dtype)
    for turn, part in enumerate(schedule.split(17)):
        draws = standard_exponential(
            len(part), short.n_draws, generator=make_generator(turn)
        )
        if turn == 2:
            moved = p.roll(5) * (torch.arange(len(p)) % 7 > 0)
            for chain in (short, whole):
                chain.set_p((moved / moved.sum() * (p > 0))[None])
        for chain in (short, whole):
            chain.advance(part, draws)
        both = (chain.statistics(complete=True) for chain in (short, whole))
        for one, other in zip(*both, strict=True):
            assert torch.equal(one, other)
        assert torch.equal(short.dual_value(), whole.dual_value())


N_ITERATIONS = 60


def line(m1, m2, dtype=torch.float64, *, shuffled=False, forbidden=False, zeros=0.0):
    """Squared distances on a line between masses that differ by factors."""
    generator = make_generator(m1)
    x = (torch.arange(m1, dtype=torch.float64) + 0.5) / m1
    y = (torch.arange(m2, dtype=torch.float64) + 0.5) / m2
    cost = (x[:, None] - y).square()
    if forbidden:
        cost[(x[:, None] - y).abs() < 0.02] = torch.inf
    p, q = (torch.rand(m, dtype=torch.float64, generator=generator) for m in (m1, m2))
    p, q = (
        mass.add(0.05) * (torch.rand(len(mass), generator=generator) >= zeros)
        for mass in (p, q)
    )
    if shuffled:
        cost = cost[torch.randperm(m1, generator=generator)]
        cost = cost[:, torch.randperm(m2, generator=generator)]
    return tuple(v.to(dtype) for v in (p / p.sum(), q / q.sum(), cost))


def chains(p, q, cost):
    """Two compiled chains, of which the second walks through the whole cost.

    The first would take a line's order instead, were it not told otherwise.
    """
    start = torch.zeros_like(p)[None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "monge_of", lambda cost: None)
        pruned, whole = (CompiledChain(p[None], q[None], cost, start) for _ in range(2))
    whole.pruning = None
    return pruned, whole


def advance(chain, schedule, seed):
    draws = standard_exponential(
        len(schedule), chain.n_draws, generator=make_generator(seed)
    )
    chain.advance(schedule, draws)


CASES = {
    "line": {},
    "single precision": {"dtype": torch.float32},
    "forbidden pairs": {"forbidden": True},
    "entries without mass": {"zeros": 0.2},
    "shuffled": {"shuffled": True},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("shape", [(256, 257), (290, 251)])
def test_pruning_changes_no_bit(shape, options):
    p, q, cost = line(*shape, **options)
    pruned, whole = chains(p, q, cost)
    schedule = (
        annealed_temperatures(N_ITERATIONS, shape[0], power=2.0).view(-1, 2).to(p)
    )
    if "zeros" not in options:
        assert pruned.pruning is not None
    for turn, part in enumerate(schedule.split(17)):
        if turn == 2:  # other masses, some of them none, as a model that learns has
            moved = p.roll(5) * (torch.arange(len(p)) % 7 > 0)
            pruned.set_p((moved / moved.sum())[None])
            whole.set_p((moved / moved.sum())[None])
        for chain in (pruned, whole):
            advance(chain, part, turn)
        both = (chain.statistics(complete=True) for chain in (pruned, whole))
        for one, other in zip(*both, strict=True):
            assert torch.equal(one, other)
        assert torch.equal(pruned.dual_value(), whole.dual_value())


def least_share(p, q, cost):
    """The least fraction of tiles that had to be evaluated with slacks."""
    chain, _ = chains(p, q, cost)
    schedule = annealed_temperatures(12, len(p), power=2.0).view(-1, 2).to(p)
    shares = []
    for turn, part in enumerate(schedule.split(1)):
        advance(chain, part, turn)
        shares.append(chain.pruning.control[2])
    return min(share for share in shares if share >= 0)


def test_on_a_line_little_is_looked_at_in_any_order_and_less_than_without_distances():
    p, q, cost = line(512, 512)
    share = least_share(p, q, cost)
    assert 0 < share < 0.1
    assert least_share(*line(512, 512, shuffled=True)) < 0.1
    unlike = torch.rand(cost.shape, dtype=cost.dtype, generator=make_generator(3))
    assert least_share(p, q, unlike) > 2 * share


@pytest.mark.parametrize("n", [16, 40, 57, 64, 200])
def test_points_of_a_plane_are_put_in_an_order_of_small_cells(n):
    """Every point stands once, and eight neighbours are near each other."""
    points = torch.rand(n, 2, dtype=torch.float64, generator=make_generator(n))
    others = torch.rand(16, 2, dtype=torch.float64, generator=make_generator(n + 1))
    order = np.arange(n)
    bisect(cost_matrix(points, others).numpy(), order)
    assert np.array_equal(np.sort(order), np.arange(n))
    cells = points[order][: n // 8 * 8].view(-1, 8, 2)
    spread = cells.var(1, unbiased=False).sum(1).mean()
    if n >= 40:  # a cell of a k-d tree has about 8 / n of the area
        assert spread < 4 * 8 / n * points.var(0, unbiased=False).sum()


def test_points_without_differences_stay():
    order = np.arange(100)
    bisect(np.ones((100, 16)), order)
    assert np.array_equal(np.sort(order), np.arange(100))


def test_small_costs_are_not_cut():
    cost = torch.rand(255, 256, generator=make_generator(0))
    assert pruning_for(cost) is None
    cost = torch.rand(31, 4000, generator=make_generator(0))
    assert pruning_for(cost) is None
    kept = pruning_for(torch.rand(256, 256).log())
    assert kept is not None and np.isfinite(kept.size)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fused_and_plain_differences_are_equal(dtype, monkeypatch):
    """Which of them the walk takes depends on the processor, its numbers do not."""
    p, q, cost = line(290, 251, dtype, shuffled=True)
    schedule = annealed_temperatures(N_ITERATIONS, 290, power=2.0).view(-1, 2).to(dtype)
    found = []
    for fuses in (True, False):
        monkeypatch.setattr(compiled, "_FUSES", fuses)
        both = chains(p, q, cost)
        for chain in both:
            advance(chain, schedule, seed=0)
        found.append([chain.statistics(complete=True) for chain in both])
    for one, other in zip(*found, strict=True):
        assert all(map(torch.equal, one, other))
