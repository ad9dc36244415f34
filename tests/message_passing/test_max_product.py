"""Max-product and its samples: exact on trees, compiled as plain, lean in memory."""

import json
import math
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, kstest

from ebmtut.energies import RBM, BoltzmannMachine, Ising, PairwiseGraph
from ebmtut.message_passing import (
    STARTS,
    clamp_unaries,
    exact_perturb_and_map,
    max_product,
    max_product_reference,
    persistent_perturb_and_max_product,
    perturb_and_max_product,
    start_persistent,
)
from ebmtut.message_passing.persistent import correlated_normals, logistic_from_normal
from ebmtut.random import logistic, make_generator
from ebmtut.states import enumerate_states, states_to_index
from tests.message_passing.models import random_tree
from tests.shared import normal


def random_graph(n, density, seed):
    first, second = torch.triu_indices(n, n, 1)
    there = torch.rand(len(first), generator=make_generator(seed)) < density
    edges = torch.stack([first, second])[:, there]
    return PairwiseGraph(edges, normal(edges.shape[1], seed=seed), torch.zeros(n))


def max_marginals(model, unaries):
    """Log-odds of the max-marginals of one sample, by listing all states."""
    x = enumerate_states(len(unaries)).double()
    biases = model.pair_terms().bias.double()
    score = -model.double()(x) + x @ (unaries - biases)
    best = [[score[x[:, i] == v].max() for v in (0, 1)] for i in range(len(unaries))]
    return torch.tensor([one - zero for zero, one in best])


@pytest.mark.parametrize("init", STARTS)
@pytest.mark.parametrize("damping", [0.0, 0.5, 0.8])
def test_trees_are_solved_exactly(init, damping):
    for seed in range(4):
        tree, unaries = random_tree(7, seed, biased=False), normal(3, 7, seed=seed + 50)
        # Undamped, a tree is done after as many sweeps as it is long. With
        # damping a, errors fall at least like n^6 a^n.
        n_sweeps = 7 if damping == 0 else 400
        beliefs = max_product(tree, unaries, n_sweeps, damping=damping, init=init)
        for row, found in zip(unaries, beliefs.beliefs, strict=True):
            want = max_marginals(tree, row)
            torch.testing.assert_close(found, want, rtol=0, atol=1e-9)
        assert torch.equal(beliefs.x, (beliefs.beliefs > 0).double())


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 8),
    density=st.sampled_from([0.2, 0.6, 1.0]),
    seed=st.integers(0, 10**6),
    n_sweeps=st.integers(0, 12),
    damping=st.sampled_from([0.0, 0.3, 0.5]),
    init=st.sampled_from(STARTS),
)
def test_compiled_code_is_the_plain_one(n, density, seed, n_sweeps, damping, init):
    """In float64, over graphs, matrices, and whether messages are kept."""
    graph, unaries = random_graph(n, density, seed), normal(3, n, seed=seed + 1)
    options = {"damping": damping, "init": init, "return_messages": True}
    want = max_product_reference(graph, unaries, n_sweeps, **options)
    for model in (graph, graph.dense()):
        for kept in (False, True):
            options["return_messages"] = kept
            got = max_product(model, unaries, n_sweeps, **options)
            # Sums in another order: each sweep at most doubles an error twice.
            atol = 1e-14 * 4.0**n_sweeps
            torch.testing.assert_close(got.beliefs, want.beliefs, rtol=0, atol=atol)
    messages = max_product(graph, unaries, n_sweeps, **options).messages
    torch.testing.assert_close(messages, want.messages, rtol=0, atol=atol)


@pytest.mark.parametrize("init", STARTS)
@pytest.mark.parametrize("kept", [False, True])
def test_an_rbm_is_the_graph_of_its_two_sides(init, kept):
    rbm = RBM(normal(3, 4), torch.zeros(3), torch.zeros(4))
    terms = rbm.pair_terms()
    edges = torch.stack([terms.first, terms.second])
    graph = PairwiseGraph(edges, terms.weight, terms.bias)
    unaries = normal(5, 7, seed=3)
    options = {"init": init, "return_messages": kept}
    got = max_product(rbm, unaries, 6, **options)
    want = max_product_reference(graph, unaries, 6, **options)
    torch.testing.assert_close(got.beliefs, want.beliefs, rtol=0, atol=1e-10)
    if kept:
        torch.testing.assert_close(got.messages, want.messages, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["dense", "rbm"])
def test_rows_longer_than_a_line_of_the_cache(kind):
    """Rows that start and end within a line, at a line, and after several."""
    model = {
        "dense": BoltzmannMachine(normal(35, 35), torch.zeros(35)),
        "rbm": RBM(normal(18, 33), torch.zeros(18), torch.zeros(33)),
    }[kind]
    unaries = normal(3, len(model.pair_terms().bias), seed=1)
    start = max_product_reference(model, unaries, 2, return_messages=True).messages
    options = {"messages": start, "return_messages": True, "damping": 0.3}
    got = max_product(model, unaries, 2, **options)
    want = max_product_reference(model, unaries, 2, **options)
    # Beliefs sum fewer than 50 messages of size 5 to 2^-52; two sweeps multiply
    # an error by the number of neighbours at the most.
    atol = 50**2 * 250 * 2.0**-52
    torch.testing.assert_close(got.beliefs, want.beliefs, rtol=0, atol=atol)
    torch.testing.assert_close(got.messages, want.messages, rtol=0, atol=atol)


@pytest.mark.parametrize("init", STARTS)
@pytest.mark.parametrize("kind", ["rbm", "graph", "sparse matrix"])
def test_single_precision_is_as_near_as_rounding_lets_it(kind, init):
    graph = random_graph(40, 0.06, seed=2)
    model = {
        "rbm": RBM(normal(6, 9) / 8, torch.zeros(6), torch.zeros(9)),
        "graph": graph,
        "sparse matrix": graph.dense(),
    }[kind]
    unaries = normal(8, len(model.pair_terms().bias), seed=1)
    want = max_product_reference(model, unaries, 2, init=init).beliefs
    got = max_product(model, unaries.float(), 2, init=init).beliefs
    # Fewer than 10 messages of size 5 are summed to 2^-24; a sweep multiplies an error
    # by their number at the most.
    bound = 10**2 * 50 * 2.0**-24
    assert (got.double() - want).abs().max() < bound
    # Tight enough to tell half precision, whose unit is 2^-11, from single.
    assert bound < 2**-11 * float(want.abs().max())


def test_relabelling_the_sites_relabels_the_beliefs():
    weight, unaries = normal(9, 9), normal(2, 9, seed=1)
    order = torch.randperm(9, generator=make_generator(5))
    one = max_product(BoltzmannMachine(weight, torch.zeros(9)), unaries, 8)
    other = max_product(
        BoltzmannMachine(weight[order][:, order], torch.zeros(9)), unaries[:, order], 8
    )
    torch.testing.assert_close(other.beliefs, one.beliefs[:, order], rtol=0, atol=1e-9)


OF_SIX_SITES = {
    "dense": BoltzmannMachine(normal(6, 6), torch.zeros(6)),
    "graph": random_graph(6, 0.5, 0),
    "rbm": RBM(normal(2, 4), torch.zeros(2), torch.zeros(4)),
}


@pytest.mark.parametrize("model", OF_SIX_SITES.values(), ids=OF_SIX_SITES)
def test_a_warm_start_goes_on(model):
    unaries = normal(3, 6, seed=2)
    half = max_product(model, unaries, 4, return_messages=True)
    rest = max_product(model, unaries, 5, messages=half.messages)
    whole = max_product(model, unaries, 9)
    torch.testing.assert_close(rest.beliefs, whole.beliefs, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("threads_for_little_work")
def test_threads_change_nothing():
    for model in OF_SIX_SITES.values():
        unaries = normal(5, 6, seed=4)
        found, sent = [], []
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            found.append(max_product(model, unaries, 4).beliefs)
            kept = max_product(model, unaries, 2, return_messages=True)
            again = {"messages": kept.messages, "return_messages": True}
            sent.append(max_product(model, unaries, 2, **again).messages)
        assert torch.equal(*found) and torch.equal(*sent)


@pytest.mark.parametrize("init", STARTS)
@pytest.mark.parametrize("seed", range(5))
def test_a_clamped_tree_has_the_best_state_that_obeys(seed, init):
    tree, unaries = random_tree(7, seed, biased=False), normal(1, 7, seed=seed + 20)
    clamp = torch.full((1, 7), math.nan)
    clamp[0, [1, 4]] = torch.tensor([1.0, 0.0])
    held = clamp_unaries(tree, unaries, clamp)
    got = max_product(tree, held, 400, init=init).x[0]
    states = enumerate_states(7).double()
    states = states[(states[:, 1] == 1) & (states[:, 4] == 0)]
    score = -tree(states) + states @ unaries[0]  # the tree's own biases are zero
    assert torch.equal(got, states[score.argmax()])


@pytest.mark.parametrize("run", [max_product, max_product_reference])
def test_gradients_and_other_precisions_are_taken(run):
    model = BoltzmannMachine(normal(4, 4), torch.zeros(4))
    unaries = normal(2, 4, seed=1).float()
    double = max_product(model, unaries.double(), 3, return_messages=True).messages
    want = run(model, unaries, 2, messages=double.float())
    got = run(model, unaries.requires_grad_(), 2, messages=double)
    assert torch.equal(got.beliefs, want.beliefs) and not got.beliefs.requires_grad


def test_one_row_of_values_holds_all_samples():
    model = BoltzmannMachine(normal(3, 3), torch.zeros(3).double())
    clamp = torch.tensor([1.0, math.nan, 0.0])
    draws = [
        perturb_and_max_product(model, 20, 10, clamp=held, generator=make_generator(1))
        for held in (clamp, clamp.repeat(20, 1))
    ]
    assert torch.equal(*draws)
    assert draws[0][:, 0].all() and not draws[0][:, 2].any()
    assert 0 < draws[0][:, 1].sum() < 20
    unaries = torch.zeros(4, 3).double()
    rows = clamp_unaries(model, unaries, clamp.repeat(4, 1))
    assert torch.equal(clamp_unaries(model, unaries, clamp), rows)


SCRIPT = """
import json
import re
from pathlib import Path

import torch

from ebmtut.energies import BoltzmannMachine
from ebmtut.message_passing import max_product


def resident(name):
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(name + r":\\s*(\\d+) kB", status)[1])


def grown(n, **options):
    model = BoltzmannMachine(torch.ones(n, n) / n, torch.zeros(n))
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is used
    before = resident("VmRSS")
    max_product(model, torch.zeros(100, n), 1, **options)
    return resident("VmHWM") - before


grown(20), grown(20, return_messages=True)  # loads the kernels
print(json.dumps([grown(900), grown(900, return_messages=True)]))
"""


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="reads Linux's peak of memory"
)
def test_messages_of_one_chain_at_a_time():
    """Those of 100 chains are there only if they are asked for."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    lean, kept = json.loads(done.stdout)
    all_messages = 100 * 2 * (900 * 899 // 2) * 4
    assert kept > 0.9 * all_messages  # what is measured is there to be seen
    # The pairs, their indices and some copies: a dozen matrices in double.
    assert lean < 12 * 900**2 * 8 < all_messages / 4


def toy(theta=0.331):
    """Return Section 5.1's model: four spins, all coupled alike, no field."""
    coupling = theta / 2 * (1 - torch.eye(4).double())
    return BoltzmannMachine.from_ising(Ising(coupling))


def homogeneity_p(one, other, n_states):
    """p-value of two samples with the same distribution; rare states count as one."""
    counts = np.stack(
        [np.bincount(states_to_index(x), minlength=n_states) for x in (one, other)]
    )
    often = counts.sum(0) >= 20
    counts = np.c_[counts[:, often], counts[:, ~often].sum(1)]
    counts = counts[:, counts.sum(0) > 0]
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    statistic = ((counts - expected) ** 2 / expected).sum()
    return chi2.sf(statistic, counts.shape[1] - 1)


@pytest.mark.parametrize("n", [4, 9])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("init", ["zero", "symmetric"])
def test_on_trees_it_is_perturb_and_map(n, seed, init):
    """Against the best of all states under other noise, and under the same."""
    model = random_tree(n, seed)
    got = perturb_and_max_product(
        model, 10_000, 100, init=init, generator=make_generator(seed + 2)
    )
    noise_of = partial(logistic, (10_000, n), dtype=torch.float64)
    want = exact_perturb_and_map(model, n, noise_of(generator=make_generator(9)))
    assert homogeneity_p(got, want, 2**n) > 1e-4
    noise = noise_of(generator=make_generator(seed + 2))
    assert torch.equal(got, exact_perturb_and_map(model, n, noise))


def test_the_symmetric_start_has_no_side():
    """With no field neither value is preferred; the paper's start prefers 0."""
    n = 40_000
    zero, symmetric = (
        perturb_and_max_product(toy(), n, 100, init=init, generator=make_generator(3))
        for init in ("zero", "symmetric")
    )
    # The mean of four equal-signed spins has variance at most 1.
    assert abs((2 * symmetric - 1).mean()) < 5 / math.sqrt(n)
    assert (2 * zero - 1).mean() < -0.05


def test_clamped_perturb_and_map_is_an_exact_draw():
    """Given v the hidden units are independent, and logistic noise is exact.

    Once the damped messages have settled: each sweep halves what is missing.
    """
    g = make_generator(2)
    model = RBM(torch.randn(3, 4, generator=g), torch.zeros(3), torch.zeros(4))
    v = torch.tensor([1.0, 0.0, 1.0, 1.0])
    n = 20_000
    clamp = torch.cat([v, torch.full((3,), float("nan"))]).expand(n, 7)
    x = perturb_and_max_product(model, n, 30, clamp=clamp, generator=g)
    p = torch.sigmoid(model.hidden_logits(v[None]))[0]
    assert torch.equal(x[:, :4], v.expand(n, 4))
    assert ((x[:, 4:].mean(0) - p).abs() < 5 * (p * (1 - p) / n).sqrt()).all()
    # Independent, too: covariances vanish.
    assert (torch.cov(x[:, 4:].T) - torch.diag(p * (1 - p))).abs().max() < 0.02


MODELS = {
    "matrix": BoltzmannMachine(normal(5, 5), torch.zeros(5).double()),
    "graph": PairwiseGraph(
        torch.tensor([[0, 1, 2], [1, 2, 4]]), torch.ones(3), torch.zeros(5)
    ),
    "rbm": RBM(torch.ones(2, 3), torch.zeros(2), torch.zeros(3)),
}


def walk(model, rho, n_steps, n_sweeps, *, n=50, seed=0):
    """Return the states of a walk, the start included."""
    generator = make_generator(seed)
    states = [start_persistent(model, n, generator=generator)]
    for _ in range(n_steps):
        states.append(
            persistent_perturb_and_max_product(
                model, states[-1], n_sweeps, rho=rho, generator=generator
            )
        )
    return states


def test_the_map_is_the_quantile_transform():
    # Phi(z) = 1/2, and the 97.5th percentile of both distributions.
    z = torch.tensor([0.0, 1.959963984540054], dtype=torch.float64)
    want = torch.tensor([0.0, math.log(0.975 / 0.025)], dtype=torch.float64)
    torch.testing.assert_close(logistic_from_normal(z), want, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_map_is_odd_and_finite_in_the_tails(dtype):
    z = torch.linspace(-30, 30, 601, dtype=dtype)
    y = logistic_from_normal(z)
    assert y.isfinite().all() and (y.diff() > 0).all()
    torch.testing.assert_close(y, -y.flip(0))
    # Mills' ratio: -log Phi(-30) = 450 + log(30 sqrt(2 pi)) + O(1 / 900).
    want = 450 + math.log(30 * math.sqrt(2 * math.pi))
    assert float(y[-1]) == pytest.approx(want, abs=2e-3)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.99, 1.0])
def test_the_noise_stays_logistic_and_its_correlation_is_that_of_rho(rho):
    generator = make_generator(3)
    n = 40_000
    first = torch.randn(n, generator=generator, dtype=torch.float64)
    z, n_steps = first, 3
    for _ in range(n_steps):
        z = correlated_normals(z, rho, generator=generator)
    assert kstest(logistic_from_normal(z).numpy(), "logistic").pvalue > 1e-4
    want = rho ** (n_steps / 2)
    got = float((first * z).mean())
    # Var(z z') = 1 + correlation^2.
    assert abs(got - want) < 5 * math.sqrt((1 + want**2) / n)


@pytest.mark.parametrize("name", MODELS)
def test_frozen_noise_is_one_long_run(name):
    """At rho = 1 and with one model, steps add up."""
    model = MODELS[name]
    states = walk(model, 1.0, 4, 3)
    unaries = model.pair_terms().bias + logistic_from_normal(states[0].normals)
    whole = max_product(model, unaries, 12, return_messages=True)
    torch.testing.assert_close(states[-1].normals, states[0].normals)
    torch.testing.assert_close(states[-1].messages, whole.messages)
    assert torch.equal(states[-1].x, whole.x)


def test_on_a_chain_its_samples_are_those_of_pmp():
    """Max-product is exact from any start, so every step samples as PMP does."""
    edges = torch.tensor([[0, 1], [1, 2]])
    weight = torch.tensor([1.5, -2.0], dtype=torch.float64)
    model = PairwiseGraph(edges, weight, torch.tensor([0.2, 0.0, 0.5]).double())
    n = 20_000
    got = walk(model, 0.9, 2, 60, n=n)[-1].x
    want = perturb_and_max_product(model, n, 60, generator=make_generator(9))
    for pair in ((0, 1), (1, 2), (0, 2), (0, 0), (1, 1), (2, 2)):
        one, other = ((x[:, pair[0]] * x[:, pair[1]]).mean() for x in (got, want))
        # Two means of bits: variance at most 1 / (4 n) each.
        assert abs(float(one - other)) < 5 * math.sqrt(2 / (4 * n))
