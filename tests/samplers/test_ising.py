"""Compiled sweeps and annealed importance sampling against exact answers."""

import math

import numba
import numpy as np
import pytest
import torch

from ebmtut import _compiled
from ebmtut.energies import (
    BoltzmannMachine,
    Ising,
    LatticeIsing,
    lattice_adjacency,
    lattice_coloring,
)
from ebmtut.exact import exact_log_partition, exact_mean, lattice_log_partition
from ebmtut.flows import gibbs_kernel
from ebmtut.kernels import multispin as multispin
from ebmtut.kernels.dense_gibbs import REFRESH, DenseChains
from ebmtut.kernels.lanes import LANES
from ebmtut.kernels.lattice_gibbs import (
    GROUP,
    LatticeChains,
    lane_streams,
    lattice_sweeps,
)
from ebmtut.kernels.xoshiro import xoshiro_next, xoshiro_states
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.samplers import (
    annealed_importance_sampling,
    boltzmann_annealing,
    ising_gibbs,
    ising_gibbs_reference,
)
from tests.samplers.systems import distribution_p, swept_distribution

RUNS = {"compiled": ising_gibbs, "torch": ising_gibbs_reference}
every_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def dense_model():
    generator = make_generator(2)
    coupling = torch.randn(5, 5, dtype=torch.float64, generator=generator)
    bias = torch.randn(5, dtype=torch.float64, generator=generator)
    return Ising(0.25 * coupling, 0.4 * bias)


@every_run
@pytest.mark.parametrize("n_sweeps", [1, 2])
def test_odd_lattice_sweeps_by_color(run, n_sweeps):
    """The order of the three colours shows after one sweep."""
    energy = LatticeIsing(3, 0.15, 0.2)
    start = torch.tensor([1, 0, 0, 1, 1, 0, 0, 1, 0], dtype=torch.float64)
    order = torch.argsort(lattice_coloring(3), stable=True)
    distribution = swept_distribution(energy, start, order.repeat(n_sweeps))
    n_chains = 100_000
    x = run(energy, start.repeat(n_chains, 1), n_sweeps, generator=make_generator(0))
    assert distribution_p(x, distribution) > 1e-4


@every_run
def test_even_lattice_sweeps_by_color(run):
    """The distribution of the first 8 of 16 sites after one sweep."""
    energy = LatticeIsing(4, -0.12, 0.1)
    start = (torch.arange(16) % 3 == 0).double()
    order = torch.argsort(lattice_coloring(4), stable=True)
    distribution = swept_distribution(energy, start, order).reshape(256, 256).sum(1)
    x = run(energy, start.repeat(50_000, 1), 1, generator=make_generator(1))
    assert distribution_p(x[:, :8], distribution) > 1e-4


@every_run
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_sweeps", [1, 2])
def test_dense_sweeps_by_site(run, n_sweeps, dtype):
    energy = dense_model()
    start = torch.tensor([1, 0, 0, 1, 1], dtype=dtype)
    distribution = swept_distribution(energy, start, list(range(5)) * n_sweeps)
    x = run(energy, start.repeat(100_000, 1), n_sweeps, generator=make_generator(3))
    assert distribution_p(x, distribution) > 1e-4


@pytest.mark.parametrize("side", [5, 6])
def test_mean_energy_matches_the_transfer_matrix(side):
    """E[s'As] = d log Z / d sigma, within five standard errors."""
    sigma, bias, step = 0.12, 0.08, 1e-4
    exact = (
        lattice_log_partition(side, sigma + step, bias)
        - lattice_log_partition(side, sigma - step, bias)
    ) / (2 * step)
    start = torch.rand(20_000, side * side, generator=make_generator(5)) < 0.5
    energy, generator = LatticeIsing(side, sigma, bias), make_generator(6)
    x = ising_gibbs(energy, start.double(), 100, generator=generator)
    s = 2 * x - 1
    value = ((s @ lattice_adjacency(side)) * s).sum(1)
    assert abs(value.mean() - exact) < 5 * value.std() / math.sqrt(len(value))


@pytest.mark.parametrize("energy", [LatticeIsing(3, 0.1), dense_model()])
def test_chains_are_independent(energy):
    """Chains that share a word or follow one another are uncorrelated."""
    n_chains, n_sites = 6400, energy.n_sites
    start = torch.zeros(n_chains, n_sites, dtype=torch.float64)
    x = ising_gibbs(energy, start, 50, generator=make_generator(9))
    x = x - x.mean(0)
    for shift in (1, 2, 32, 64, 128):
        product = (x * x.roll(shift, 0)).mean(0) / x.var(0)
        assert product.abs().max() < 5 / math.sqrt(n_chains)


@pytest.mark.usefixtures("threads_for_little_work")
@pytest.mark.parametrize("energy", [LatticeIsing(3, 0.1), dense_model()])
def test_threads_do_not_change_the_result(energy):
    start = torch.zeros(200, energy.n_sites)
    results = []
    for n_threads in (1, 3):
        torch.set_num_threads(n_threads)
        results.append(ising_gibbs(energy, start, 5, generator=make_generator(0)))
    assert torch.equal(*results)


def test_splitmix_matches_published_values():
    """First outputs of SplitMix64 from the seed 1234567 (Rosetta Code)."""
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
    ]
    assert xoshiro_states(1234567, 2)[0].tolist() == expected


def test_xoshiro_matches_published_values():
    """First outputs of xoshiro256++ from the state 1, 2, 3, 4 (reference C)."""
    state = tuple(np.uint64(k) for k in (1, 2, 3, 4))
    draws = []
    for _ in range(5):
        draw, *state = xoshiro_next(*state)
        state = tuple(np.uint64(s) for s in state)
        draws.append(int(draw))
    assert draws == [
        41943041,
        58720359,
        3588806011781223,
        3591011842654386,
        9228616714210784205,
    ]


@pytest.mark.parametrize("side", [3, 63, 64, 65, 130])
def test_every_site_is_redrawn_once_a_sweep_and_sees_its_neighbors(side):
    """P(1) = 1 with all four neighbours set, else 0: one sweep as plain torch does."""
    bits = np.random.default_rng(1).random((1, side * side)) < 0.9
    certain = multispin.threshold_bits(np.array([0.0, 0.0, 0.0, 0.0, 1.0]))
    grid = bits.reshape(side, side).copy()
    colors = lattice_coloring(side).reshape(side, side).numpy()
    for color in range(colors.max() + 1):
        rolls = [np.roll(grid, step, axis) for axis in (0, 1) for step in (-1, 1)]
        grid = np.where(colors == color, np.logical_and.reduce(rolls), grid)
    chance = bits.astype(np.uint8)
    for plan, packed, unpack, row_side in (
        (
            multispin.row_plan(side),
            multispin.pack_rows(chance, side),
            lambda words: multispin.unpack_rows(words, side),
            side,
        ),
        (
            multispin.chain_plan(side),
            multispin.pack_chains(chance),
            lambda words: multispin.unpack_chains(words, 1),
            0,
        ),
    ):
        words = plan.lay_out(packed)
        lattice_sweeps(words, *plan.arrays, certain, lane_streams(0, 1), 1, row_side)
        swept = unpack(words[:, plan.place])
        assert (swept.reshape(side, side) == grid).all()


def spins_of(words):
    """Bits of words, from the least significant on."""
    return np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)


def test_spins_that_wait_for_the_same_place_are_independent():
    """Ones of P = 2^-8: each is settled by one bit in a pool, where places collide.

    Two that shared this bit would both be 1 twice as often. Pairs at one place of a
    class's n blocks that are both 1 have the moments of S (S - 1) / 2 for a binomial S.
    """
    p, plan, n_sweeps = 2.0**-8, multispin.chain_plan(32), 400
    thresholds = multispin.threshold_bits(np.full(5, p))
    words, streams = np.zeros((1, plan.size), dtype=np.uint64), lane_streams(7, 1)
    ones = []
    for _ in range(n_sweeps):
        lattice_sweeps(words, *plan.arrays, thresholds, streams, 1, 0)
        blocks = spins_of(words[0, : 32 * 32]).reshape(2, -1, 64 * LANES)
        ones.append(blocks.sum(1))
    n, ones = blocks.shape[1], np.array(ones)
    assert n > 2 * GROUP
    error = math.sqrt(ones.size * n * p * (1 - p))
    assert abs(ones.sum() - ones.size * n * p) < 5 * error
    pairs = (ones * (ones - 1) // 2).sum()
    mean = math.comb(n, 2) * p**2
    variance = mean * (1 - p**2 + 2 * (n - 2) * p * (1 - p))
    assert abs(pairs - ones.size * mean) < 5 * math.sqrt(ones.size * variance)


@pytest.mark.parametrize("n_sweeps", [1, 3])
def test_chains_packed_by_rows_have_the_exact_distribution(n_sweeps):
    """Packed as few chains are; many here, to see all 512 states."""
    energy, n_chains = LatticeIsing(3, 0.15, 0.2), 50_000
    start = torch.tensor([1, 0, 0, 1, 1, 0, 0, 1, 0], dtype=torch.float64)
    order = torch.argsort(lattice_coloring(3), stable=True)
    distribution = swept_distribution(energy, start, order.repeat(n_sweeps))
    logit = 4 * energy.sigma * torch.tensor([-4, -2, 0, 2, 4]) + 2 * energy.bias
    plan = multispin.row_plan(3)
    bits = start.byte().repeat(n_chains, 1).numpy()
    words = plan.lay_out(multispin.pack_rows(bits, 3))
    thresholds = multispin.threshold_bits(torch.sigmoid(logit.double()).numpy())
    streams = lane_streams(3, n_chains)
    lattice_sweeps(words, *plan.arrays, thresholds, streams, n_sweeps, 3)
    x = torch.from_numpy(multispin.unpack_rows(words[:, plan.place], 3)).double()
    assert distribution_p(x, distribution) > 1e-4


def test_thresholds_are_the_binary_digits():
    p = np.array([0.0, 0.3, 0.5, 1 - 2**-40, 1.0])
    digits = multispin.threshold_bits(p) & np.uint64(1)
    weights = 2.0 ** -np.arange(1, multispin.PROBABILITY_BITS + 1)
    np.testing.assert_allclose(weights @ digits, p, rtol=0, atol=2**-47)


def test_a_folder_that_cannot_be_written_costs_only_the_cache(monkeypatch):
    compile_ = numba.njit

    def no_folder(*args, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return compile_(*args, **options)

    monkeypatch.setattr(numba, "njit", no_folder)
    assert _compiled.compiled(lambda x: x + 1)(1) == 2


@pytest.mark.parametrize("energy", [LatticeIsing(3, 0.1), Ising(torch.ones(9, 9) / 9)])
def test_starts_in_bfloat16(energy):
    x = torch.zeros(4, 9)
    plain = ising_gibbs(energy, x, 5, generator=make_generator(0))
    got = ising_gibbs(energy, x.bfloat16(), 5, generator=make_generator(0))
    assert got.dtype == torch.bfloat16 and torch.equal(got.float(), plain)


PATH = AnnealingPath(LatticeIsing(3, 0.25, 0.1))
KERNEL = gibbs_kernel(PATH, lattice_coloring(3))
N = 4000


@pytest.mark.parametrize("resample_below", [0.0, 0.9])
@pytest.mark.parametrize(
    "model",
    [None, PATH.target, dense_model(), BoltzmannMachine.from_ising(dense_model())],
    ids=["kernel", "lattice", "dense", "Boltzmann machine"],
)
def test_mean_weight_and_weighted_energy_are_exact(model, resample_below):
    """By a kernel on the path, or compiled."""
    generator = make_generator(0)
    more = {"generator": generator, "resample_below": resample_below}
    target = PATH.target if model is None else model
    n_sites = target.n_sites
    want = float(exact_log_partition(target, n_sites)) - n_sites * math.log(2)
    energy = float(exact_mean(target, target))
    ratios, energies = [], []
    for _ in range(16):
        if model is None:
            found = annealed_importance_sampling(PATH, KERNEL, N // 16, 5, **more)
        else:
            found = boltzmann_annealing(model, N // 16, 5, **more)
        w = (found.log_weights - want).exp()
        ratios.append(w.mean())
        energies.append((w * target(found.x.double())).mean())
        assert (found.n_resampled > 0) == (resample_below > 0)
    for values, exact in ((ratios, 1.0), (energies, energy)):
        got = torch.stack(values)
        assert abs(float((got.mean() - exact) / (got.std() / math.sqrt(16)))) < 5


KEPT = {
    "dense": (DenseChains, dense_model(), 9),
    "lattice, chains in words": (LatticeChains, LatticeIsing(5, 0.2, 0.1), 150),
    "lattice, rows in words": (LatticeChains, LatticeIsing(65, 0.2, 0.1), 2),
}


@pytest.mark.parametrize("kind, energy, n", KEPT.values(), ids=KEPT)
def test_kept_chains_go_on_as_one_call_would(kind, energy, n):
    """Across the sweep at which fields are summed anew; copies keep their energies."""
    generator = make_generator(0)
    start = torch.randint(2, (n, energy.n_sites), generator=generator).double()
    at_once, one_by_one = kind(energy, start, 7), kind(energy, start, 7)
    torch.testing.assert_close(one_by_one.energies(), energy(start))
    at_once.sweep(REFRESH + 3)
    for _ in range(REFRESH + 3):
        one_by_one.sweep(1)
    x = one_by_one.states(torch.float64)
    assert torch.equal(x, at_once.states(torch.float64))
    torch.testing.assert_close(one_by_one.energies(), energy(x))
    rows = torch.randint(n, (n,), generator=generator)
    one_by_one.choose(rows)
    assert torch.equal(one_by_one.states(torch.float64), x[rows])
    torch.testing.assert_close(one_by_one.energies(), energy(x[rows]))


def test_half_the_strength_is_half_the_model():
    """Bit by bit, for a factor of two rounds nothing."""
    model, lattice = dense_model(), LatticeIsing(5, 0.2, 0.1)
    half = Ising(model.coupling / 2, model.bias / 2), LatticeIsing(5, 0.1, 0.05)
    for kind, whole, weak in zip(
        (DenseChains, LatticeChains), (model, lattice), half, strict=True
    ):
        start = torch.zeros(100, whole.n_sites, dtype=torch.float64)
        by_strength, by_model = kind(whole, start, 3), kind(weak, start, 3)
        by_strength.sweep(2, 0.5)
        by_model.sweep(2)
        x = by_strength.states(torch.float64)
        assert torch.equal(x, by_model.states(torch.float64))


def test_one_step_is_importance_sampling_from_the_uniform_distribution():
    start = torch.randint(2, (50, 9)).float()
    found = annealed_importance_sampling(
        PATH, KERNEL, 50, 1, generator=make_generator(0), start=start
    )
    torch.testing.assert_close(found.log_weights.float(), -PATH.target(start))
