"""MPLP, linear programs, coordinate descent and bounds of log Z by enumeration."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.energies import RBM, BoltzmannMachine, Ising, PairwiseGraph
from ebmtut.exact import exact_log_partition
from ebmtut.message_passing.coordinate_descent import perturb_and_coordinate_descent
from ebmtut.message_passing.linear_programs import relax
from ebmtut.message_passing.log_partition import (
    exact_perturb_and_map,
    log_partition_bound,
)
from ebmtut.message_passing.mplp import mplp, mplp_reference
from ebmtut.random import gumbel, logistic, make_generator
from tests.message_passing.models import random_tree
from tests.shared import normal

seeds = st.integers(0, 10**6)


def normals(seed, *shapes):
    generator = make_generator(seed)
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


def random_machine(n_sites, seed, *, attractive=False):
    weight, bias = normals(seed, (n_sites, n_sites), (n_sites,))
    return BoltzmannMachine(2 * (weight.abs() if attractive else weight), bias)


def draw(n_samples, n_sites, seed):
    return normal(n_samples, n_sites, seed=seed + 1)


def best(model, unaries):
    x = exact_perturb_and_map(model, unaries.shape[1], unaries - model.bias)
    return x, scores(model, x, unaries)


def scores(model, x, unaries):
    return -model(x) + ((unaries - model.bias) * x).sum(dim=1)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 8), seeds)
def test_mplp_is_exact_on_trees(n_sites, seed):
    model, unaries = random_tree(n_sites, seed), draw(4, n_sites, seed)
    x, value = best(model, unaries)
    result = mplp(model, unaries, tolerance=1e-10)
    assert result.converged.all()
    assert torch.equal(result.x, x)
    assert torch.allclose(result.bound, value, atol=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 8), seeds)
def test_bounds_hold_and_mplp_is_no_better_than_the_program(n_sites, seed):
    model, unaries = random_machine(n_sites, seed), draw(3, n_sites, seed)
    _, value = best(model, unaries)
    program = relax(model, unaries)
    for max_sweeps in (1, 3, 1000):
        result = mplp(model, unaries, max_sweeps=max_sweeps)
        assert (result.bound >= program.bound - 1e-6).all()
        assert (scores(model, result.x, unaries) <= value + 1e-9).all()
    assert (program.bound >= value - 1e-6).all()


def test_the_bound_of_mplp_never_rises():
    model, unaries = random_machine(7, 5), draw(6, 7, 5)
    bounds = [mplp(model, unaries, max_sweeps=k).bound for k in range(1, 30)]
    steps = torch.stack(bounds).diff(dim=0)
    assert (steps <= 1e-9).all() and (steps[0] < -1e-3).any()


@pytest.mark.parametrize("max_sweeps", [1, 4, 5000])
def test_mplp_kernel_and_reference(max_sweeps):
    model, unaries = random_machine(6, 2), draw(5, 6, 2)
    ours, plain = (
        run(model, unaries, max_sweeps=max_sweeps) for run in (mplp, mplp_reference)
    )
    # The plain version goes on until the slowest sample is done.
    assert torch.allclose(ours.beliefs, plain.beliefs, atol=1e-4)
    assert torch.allclose(ours.bound, plain.bound, atol=1e-4)
    assert torch.equal(ours.n_sweeps, plain.n_sweeps)
    assert torch.equal(ours.converged, plain.converged)
    assert bool(ours.converged.all()) == (max_sweeps == 5000)


def test_frustration_leaves_mplp_undecided():
    """Three spins that should all differ, no field: one half is the solution."""
    coupling = -torch.ones(3, 3, dtype=torch.float64)
    model = BoltzmannMachine.from_ising(Ising(coupling))
    no_field = model.bias.detach()[None]
    result = mplp(model, no_field)
    assert result.beliefs.abs().max() < 1e-5
    program = relax(model, no_field)
    assert torch.allclose(program.relaxed, torch.full((1, 3), 0.5).double())
    assert program.fractional.item() == 1
    assert not program.x.any()


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 7), seeds)
def test_cut_and_program_agree(n_sites, seed):
    model, unaries = random_machine(n_sites, seed), draw(2, n_sites, seed)
    cut, program = (relax(model, unaries, method=m) for m in ("cut", "program"))
    assert torch.allclose(cut.bound, program.bound, atol=1e-6)
    # Optima of continuous random programs are unique.
    assert torch.allclose(cut.relaxed, program.relaxed, atol=1e-5)
    halves = 2 * cut.relaxed
    assert torch.equal(halves, halves.round())


def test_cut_and_program_agree_where_some_bits_are_halves():
    """Forty sites with weak pairs, and samples one after the other."""
    weight, bias = normals(3, (40, 40), (40,))
    model = BoltzmannMachine(0.3 * weight, bias)
    unaries = 2 * draw(8, 40, 3)
    cut, program = (relax(model, unaries, method=m) for m in ("cut", "program"))
    assert torch.allclose(cut.relaxed, program.relaxed, atol=1e-5)
    assert torch.allclose(cut.bound, program.bound, atol=1e-6)
    assert torch.equal(cut.x, program.x)
    assert 0.1 < cut.fractional.mean() < 0.9


def test_a_bit_at_one_half_is_set_to_what_is_better():
    model, unaries = random_machine(9, 4), draw(20, 9, 4)
    found = relax(model, unaries)
    n_half = 0
    for i in range(9):
        one, zero = found.relaxed.clone(), found.relaxed.clone()
        one[:, i], zero[:, i] = 1, 0
        better = scores(model, one, unaries) > scores(model, zero, unaries)
        half = found.relaxed[:, i] == 0.5
        assert torch.equal(found.x[half, i].bool(), better[half])
        n_half += int(half.sum())
    assert n_half > 20


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 8), seeds, st.sampled_from([1.0, 1e9]))
def test_attractive_models_are_solved(n_sites, seed, large):
    """Also where one site is as good as held."""
    model = random_machine(n_sites, seed, attractive=True)
    unaries = 3 * draw(3, n_sites, seed)
    unaries[:, 0] *= large
    x, value = best(model, unaries)
    result = relax(model, unaries)
    assert torch.equal(result.x, x)
    assert not result.fractional.any()
    assert torch.allclose(result.bound, value, atol=1e-6)


def test_where_the_relaxation_is_integral_it_is_solved():
    """Frustrated models, on some samples of which the program says one half."""
    n_tight = n_loose = 0
    for seed in range(12):
        model, unaries = random_machine(7, seed), 2 * draw(6, 7, seed)
        x, value = best(model, unaries)
        result = relax(model, unaries)
        tight = result.fractional == 0
        assert torch.equal(result.x[tight], x[tight])
        assert torch.allclose(result.bound[tight], value[tight], atol=1e-6)
        # Elsewhere a vertex with halves is better than every state.
        assert (result.bound[~tight] > value[~tight] + 1e-6).all()
        n_tight, n_loose = n_tight + int(tight.sum()), n_loose + int((~tight).sum())
    assert n_tight > 0 and n_loose > 0


@pytest.mark.parametrize("method", ["cut", "program"])
@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1e9, 1e30])
def test_the_program_does_not_depend_on_the_unit(method, scale):
    model, unaries = random_machine(6, 1), draw(3, 6, 1)
    wide = BoltzmannMachine(scale * model.weight.double(), model.bias.double())
    found = relax(wide, scale * unaries.double(), method=method)
    want = relax(model, unaries.double(), method=method)
    torch.testing.assert_close(found.bound / scale, want.bound, rtol=1e-6, atol=0)
    torch.testing.assert_close(found.relaxed, want.relaxed, rtol=0, atol=1e-6)


def random_rbm(seed=0, n_hidden=4, n_visible=5):
    return RBM(*normals(seed, (n_hidden, n_visible), (n_hidden,), (n_visible,)))


def as_graph(rbm):
    terms = rbm.pair_terms()
    edges = torch.stack([terms.first, terms.second])
    return PairwiseGraph(edges, terms.weight, terms.bias)


def test_the_program_of_an_rbm_is_that_of_its_graph():
    rbm, unaries = random_rbm(), draw(4, 9, 0)
    ours, graph = relax(rbm, unaries), relax(as_graph(rbm), unaries)
    assert torch.equal(ours.relaxed, graph.relaxed)
    _, value = best(as_graph(rbm), unaries)
    assert (ours.bound >= value - 1e-6).all()
    program = relax(rbm, unaries, method="program")
    assert torch.allclose(ours.bound, program.bound, atol=1e-6)


@pytest.mark.parametrize("model", [random_machine(6, 1), random_rbm(1)])
def test_descent_ends_where_no_single_flip_helps(model):
    """A restart with the same noise from the end does not move."""
    end = perturb_and_coordinate_descent(model, 20, 60, generator=make_generator(3))
    more = perturb_and_coordinate_descent(model, 20, 61, generator=make_generator(3))
    assert torch.equal(end, more)
    assert set(end.unique().tolist()) == {0.0, 1.0}


def test_descent_stays_at_its_start_without_steps():
    rbm = random_rbm(2)
    v = (torch.rand(7, 5, generator=make_generator(1)) < 0.5).double()
    x = perturb_and_coordinate_descent(rbm, 7, 0, start=v, generator=make_generator(0))
    assert x.shape == (7, 9) and torch.equal(x[:, :5], v)


def random_ising(n_sites, seed, scale=1.0):
    coupling, bias = normals(seed, (n_sites, n_sites), (n_sites,))
    return Ising(scale * coupling, bias)


def draw_noise(n_samples, n_sites, seed):
    return logistic(
        (n_samples, n_sites), generator=make_generator(seed), dtype=torch.float64
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 8), st.integers(0, 10**6), st.floats(0.0, 1.5))
def test_it_is_an_upper_bound_when_the_maximum_is_exact(n_sites, seed, scale):
    energy = random_ising(n_sites, seed, scale)
    noise = draw_noise(2000, n_sites, seed)
    x = exact_perturb_and_map(energy, n_sites, noise)
    bound = log_partition_bound(energy, x, noise)
    assert bound.value >= float(exact_log_partition(energy, n_sites)) - 5 * bound.stderr


def test_it_is_tight_without_couplings():
    energy = Ising(torch.zeros(6, 6).double(), torch.linspace(-2, 2, 6).double())
    noise = draw_noise(20_000, 6, 0)
    bound = log_partition_bound(energy, exact_perturb_and_map(energy, 6, noise), noise)
    exact = float(exact_log_partition(energy, 6))
    assert abs(bound.value - exact) < 5 * bound.stderr
    assert bound.stderr < 0.02


def test_logistic_noise_leaves_the_mean_of_two_gumbels_and_less_variance():
    """The definition: two centred Gumbels a bit, one for each value."""
    energy = random_ising(4, 3)
    generator = make_generator(1)
    g0, g1 = (
        gumbel((20_000, 4), generator=generator, dtype=torch.float64) - 0.5772156649
        for _ in range(2)
    )
    x = exact_perturb_and_map(energy, 4, g1 - g0)
    ours = log_partition_bound(energy, x, g1 - g0)
    plain = -energy(x) + torch.where(x > 0.5, g1, g0).sum(dim=1)
    error = math.hypot(ours.stderr, float(plain.std()) / len(plain) ** 0.5)
    assert abs(ours.value - float(plain.mean())) < 5 * error
    assert ours.scores.var() < plain.var() / 2


def test_the_best_state_is_the_best():
    energy = random_ising(5, 7)
    noise = draw_noise(30, 5, 2)
    x = exact_perturb_and_map(energy, 5, noise)
    best = -energy(x) + (noise * x).sum(1)
    for i in range(5):
        y = x.clone()
        y[:, i] = 1 - y[:, i]
        assert (-energy(y) + (noise * y).sum(1) <= best).all()
    alone = exact_perturb_and_map(energy, 5, noise[:1])
    assert torch.equal(alone, x[:1])
