"""MPLP, linear programs and coordinate descent against brute force."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.energies import RBM, BoltzmannMachine, Ising, PairwiseGraph
from ebmtut.message_passing.coordinate_descent import perturb_and_coordinate_descent
from ebmtut.message_passing.linear_programs import relax
from ebmtut.message_passing.log_partition import exact_perturb_and_map
from ebmtut.message_passing.mplp import mplp, mplp_reference
from ebmtut.random import make_generator
from tests.message_passing.models import random_tree
from tests.shared import normal

seeds = st.integers(0, 10**6)


def random_machine(n_sites, seed, *, attractive=False):
    generator = make_generator(seed)
    weight = 2 * torch.randn(n_sites, n_sites, generator=generator, dtype=torch.float64)
    bias = torch.randn(n_sites, generator=generator, dtype=torch.float64)
    return BoltzmannMachine(weight.abs() if attractive else weight, bias)


def draw(n_samples, n_sites, seed):
    return normal(n_samples, n_sites, seed=seed + 1)


def best(model, unaries):
    """Best bits and their scores by trying all."""
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
def test_compact_and_standard_programs_agree(n_sites, seed):
    model, unaries = random_machine(n_sites, seed), draw(2, n_sites, seed)
    compact, standard = (relax(model, unaries, form=f) for f in ("compact", "standard"))
    assert torch.allclose(compact.bound, standard.bound, atol=1e-6)
    # Optima of continuous random programs are unique.
    assert torch.allclose(compact.relaxed, standard.relaxed, atol=1e-5)
    halves = 2 * compact.relaxed
    assert torch.allclose(halves, halves.round(), atol=1e-5)


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


@pytest.mark.parametrize("form", ["compact", "standard"])
@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1e9, 1e30])
def test_the_program_does_not_depend_on_the_unit(form, scale):
    model, unaries = random_machine(6, 1), draw(3, 6, 1)
    wide = BoltzmannMachine(scale * model.weight.double(), model.bias.double())
    found = relax(wide, scale * unaries.double(), form=form)
    want = relax(model, unaries.double(), form=form)
    torch.testing.assert_close(found.bound / scale, want.bound, rtol=1e-6, atol=0)
    torch.testing.assert_close(found.relaxed, want.relaxed, rtol=0, atol=1e-6)


def random_rbm(seed=0, n_hidden=4, n_visible=5):
    generator = make_generator(seed)
    shapes = ((n_hidden, n_visible), (n_hidden,), (n_visible,))
    return RBM(
        *(torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)
    )


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
    standard = relax(rbm, unaries, form="standard")
    assert torch.allclose(ours.bound, standard.bound, atol=1e-6)


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
