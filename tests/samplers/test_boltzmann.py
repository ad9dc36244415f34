"""Fast chains on Boltzmann machines, RBMs and deconvolution against enumeration."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.stats import chi2

from ebmtut.energies import RBM, BoltzmannMachine, PairwiseGraph
from ebmtut.exact import exact_probabilities
from ebmtut.kernels import graph_gibbs
from ebmtut.kernels import gwg as gwg_kernels
from ebmtut.message_passing import binary_convolution
from ebmtut.random import make_generator
from ebmtut.samplers import block_gibbs, boltzmann_gibbs, boltzmann_gwg
from ebmtut.samplers.deconvolution import deconvolution_gibbs
from ebmtut.states import enumerate_states, states_to_index
from tests.samplers.systems import distribution_p, swept_distribution

SAMPLERS = (boltzmann_gibbs, boltzmann_gwg)


def machine(n=4, seed=0):
    generator = make_generator(seed)
    weight = torch.randn(n, n, generator=generator)
    return BoltzmannMachine(weight, torch.randn(n, generator=generator))


@pytest.mark.parametrize(
    ("sampler", "n_steps", "how"),
    [
        (boltzmann_gibbs, 20, {}),
        (boltzmann_gwg, 60, {}),
        (boltzmann_gwg, 60, {"dtype": torch.float64}),
    ],
)
def test_many_short_chains_have_the_exact_distribution(sampler, n_steps, how):
    model, n = machine().to(**how), 40_000
    x = torch.zeros(n, 4, **how)
    x = sampler(model, x, n_steps, generator=make_generator(1), **how)
    assert x.dtype == how.get("dtype", torch.float32)
    counts = torch.bincount(states_to_index(x), minlength=16).double()
    expected = n * exact_probabilities(model.double(), 4).detach().exp()
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert chi2.sf(float(statistic), 15) > 1e-4


@pytest.mark.parametrize(
    ("dtype", "whole", "digits"),
    [("float32", "int32", 4e-7), ("float64", "int64", 4e-16)],
)
def test_the_weights_of_gwg_are_powers_of_two(dtype, whole, digits):
    """Up to the polynomial's error, 2e-7, in float32, and to roundings in float64."""
    field = np.linspace(-245, 245, 1001).astype(dtype)
    room, sums = np.zeros((2, 1024), whole), np.empty(512, dtype)
    (weight, power), side = room.view(dtype), np.full(1001, 0.5, dtype)
    double = None if dtype == "float32" else True
    still = np.zeros(1, dtype)[0]
    gwg_kernels._weigh(side, field, field, still, field, power, weight, double)
    total = gwg_kernels._scale_and_sum(*room, weight, sums, double)
    assert not weight[1001:].any()
    exact = 2.0 ** np.clip(field.astype(np.float64) / 2, -115, 115)
    assert np.abs(weight[:1001] / exact - 1).max() < digits
    lanes = weight.astype(np.float64).reshape(-1, gwg_kernels._LANES).sum(0)
    assert sums[: len(lanes)] == pytest.approx(lanes, rel=1e-5)
    assert total == pytest.approx(lanes.sum(), rel=1e-5)


@pytest.mark.usefixtures("threads_for_little_work")
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_seeds_threads_and_untouched_input(sampler):
    model, x = machine(40, seed=5), torch.zeros(6, 40)
    before = torch.get_rng_state()
    torch.set_num_threads(1)
    one = sampler(model, x, 30, generator=make_generator(0))
    torch.set_num_threads(3)
    same = sampler(model, x, 30, generator=make_generator(0))
    other = sampler(model, x, 30, generator=make_generator(1))
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert not x.any() and torch.equal(before, torch.get_rng_state())
    assert set(one.unique().tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_starts_of_half_precision_or_with_a_gradient(sampler):
    model, x = machine(40, seed=5), torch.zeros(6, 40)
    plain = sampler(model, x, 30, generator=make_generator(0))
    for start in (x.bfloat16(), x.half(), x.clone().requires_grad_()):
        got = sampler(model, start, 30, generator=make_generator(0))
        assert got.dtype == start.dtype and not got.requires_grad
        assert torch.equal(got.float(), plain)


def uneven_graph():
    """A hub, a triangle, a path and a site alone: three colours, degrees 0 to 4."""
    edges = torch.tensor([[0, 0, 0, 0, 1, 5, 3], [1, 2, 3, 4, 2, 6, 5]])
    generator = make_generator(8)
    weight = torch.randn(7, generator=generator)
    return PairwiseGraph(edges, weight, torch.randn(8, generator=generator))


GRAPH_SWEEPS = {"sites": graph_gibbs._by_sites, "chains": graph_gibbs._by_chains}


@pytest.mark.parametrize("n_sweeps", [1, 2])
@pytest.mark.parametrize("run", GRAPH_SWEEPS.values(), ids=GRAPH_SWEEPS)
def test_graphs_are_swept_by_color(run, n_sweeps):
    model, n_chains = uneven_graph(), 20_000
    start = torch.tensor([1, 0, 0, 1, 1, 0, 1, 0], dtype=torch.float64)
    order = torch.argsort(model.coloring(), stable=True)
    distribution = swept_distribution(model.double(), start, order.repeat(n_sweeps))
    bits = start.float().repeat(n_chains, 1).numpy()
    x = run(uneven_graph(), bits, n_sweeps, 3)
    assert distribution_p(torch.from_numpy(x).double(), distribution.detach()) > 1e-4


@pytest.mark.parametrize("n_chains", [1, 100])
def test_a_graph_and_its_dense_twin_agree(n_chains):
    """Mean bits of 70 sites over long runs, each within five standard errors."""
    generator = make_generator(1)
    pairs = torch.triu_indices(70, 70, 1)
    edges = pairs[:, torch.rand(pairs.shape[1], generator=generator) < 0.08]
    weight = 0.5 * torch.randn(edges.shape[1], generator=generator)
    graph = PairwiseGraph(edges, weight, torch.randn(70, generator=generator))
    means = []
    for model in (graph, graph.dense()):
        x, kept = torch.zeros(n_chains, 70), []
        for _ in range(400 // n_chains):
            x = boltzmann_gibbs(model, x, 50, generator=generator)
            kept.append(x)
        means.append(torch.cat(kept).double())
    error = torch.sqrt(sum(m.var(0) / len(m) for m in means) + 1e-6)
    assert ((means[0].mean(0) - means[1].mean(0)).abs() < 5 * error).all()


def test_strong_weights_settle_every_bit():
    edges = torch.tensor([[0, 1], [1, 2]])
    model = PairwiseGraph(
        edges, torch.tensor([2e3, -2e3]), torch.tensor([1e3, 1e3, -1e3])
    )
    for n_chains in (1, 65):
        x = boltzmann_gibbs(
            model, torch.zeros(n_chains, 3), 3, generator=make_generator(0)
        )
        assert (x == torch.tensor([1.0, 1.0, 0.0])).all()


def test_a_graph_without_edges_and_no_sweeps():
    model = PairwiseGraph(
        torch.zeros(2, 0, dtype=torch.long), torch.zeros(0), torch.zeros(3)
    )
    x = torch.tensor([[1.0, 0.0, 1.0]])
    assert torch.equal(boltzmann_gibbs(model, x, 0, generator=make_generator(0)), x)
    assert boltzmann_gibbs(model, x, 2, generator=make_generator(0)).shape == (1, 3)


@pytest.fixture
def model():
    g = make_generator(0)
    return RBM(
        torch.randn(3, 4, generator=g, dtype=torch.float64),
        torch.randn(3, generator=g, dtype=torch.float64),
        torch.randn(4, generator=g, dtype=torch.float64),
    )


def joint_distribution(model):
    """Probabilities of all (v, h), in the order of their indices."""
    states = enumerate_states(7).double()
    return states, torch.softmax(-model.joint_energy(states[:, :4], states[:, 4:]), 0)


def within_five_errors(samples, distribution):
    counts = torch.bincount(states_to_index(samples), minlength=len(distribution))
    error = (distribution * (1 - distribution) / len(samples)).sqrt()
    return ((counts / len(samples) - distribution).abs() <= 5 * error + 1e-12).all()


@pytest.mark.parametrize("n_sweeps", [1, 3])
def test_a_sweep_leaves_the_joint_distribution(model, n_sweeps):
    states, distribution = joint_distribution(model)
    generator = make_generator(1)
    n = 100_000
    start = states[torch.multinomial(distribution, n, True, generator=generator)]
    after = block_gibbs(model, start[:, :4], n_sweeps, generator=generator)
    assert within_five_errors(after, distribution)


def test_chains_forget_their_start(model):
    _, distribution = joint_distribution(model)
    start = torch.zeros(100_000, 4, dtype=torch.float64)
    generator = make_generator(2)
    assert not within_five_errors(
        block_gibbs(model, start, 1, generator=generator), distribution
    )
    assert within_five_errors(
        block_gibbs(model, start, 60, generator=generator), distribution
    )


# One strip of four pixels, one feature of two: three places, five bits.
STRIP = torch.tensor([[[1.0, 1.0, 0.0, 1.0]]], dtype=torch.float64)
PRIORS = {"location_prior": 0.3, "feature_prior": 0.6}
EVIDENCE = 0.8


def posterior():
    logits = [math.log(p / (1 - p)) for p in PRIORS.values()]
    states = enumerate_states(5)
    s, w = states[:, :3].view(-1, 1, 1, 3), states[:, 3:].view(-1, 1, 2)
    made = torch.cat(
        [binary_convolution(a[None], b[None]) for a, b in zip(s, w, strict=True)]
    )
    score = EVIDENCE * ((2 * STRIP - 1) * made).sum(dim=(1, 2))
    score += logits[0] * states[:, :3].sum(1) + logits[1] * states[:, 3:].sum(1)
    return score.softmax(0)


def test_stationary_distribution():
    """Many images would share W: chains are run one after the other instead."""
    distribution = posterior()
    generator = make_generator(0)
    s = torch.zeros(1, 1, 1, 3, dtype=torch.float64)
    w = torch.zeros(1, 1, 2, dtype=torch.float64)
    counts = torch.zeros(32)
    n_draws = 3000
    for _ in range(n_draws):
        # Six sweeps between draws: what correlation is left is far below noise.
        s, w = deconvolution_gibbs(
            STRIP, s, w, 6, evidence=EVIDENCE, generator=generator, **PRIORS
        )
        state = torch.cat([s.flatten(), w.flatten()])[None]
        counts[states_to_index(state)] += 1
    test = stats.chisquare(counts.numpy(), n_draws * distribution.numpy())
    assert test.pvalue > 1e-4


def test_two_images_share_their_feature():
    x = torch.tensor([[[1.0, 1, 0, 0]], [[0, 0, 1, 1]]])
    s, w = torch.zeros(2, 1, 1, 3), torch.ones(1, 1, 2)
    s, w = deconvolution_gibbs(x, s, w, 5, evidence=50.0, generator=make_generator(0))
    assert s[:, 0, 0].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert torch.equal(binary_convolution(s, w), x)
