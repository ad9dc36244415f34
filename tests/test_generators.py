"""The contract of `generator`: nothing else is drawn from, and nothing else will do.

torch takes None for its global generator, so that a forgotten one would be no error
but a run that no seed repeats.
"""

import copy
import importlib
import inspect
import pkgutil
from functools import partial

import pytest
import torch

import ebmtut
from ebmtut import (
    data,
    energies,
    flows,
    losses,
    message_passing,
    metrics,
    random,
    samplers,
    transport,
)
from ebmtut.checks import InputError
from ebmtut.flows import gflownet
from ebmtut.flows.graph_gflownet import SetPolicy, set_ways
from ebmtut.flows.graph_transformer import HollowGraphTransformer
from ebmtut.flows.graphs import GraphFlowNetwork
from ebmtut.noise import NoiseLevels
from ebmtut.paths import AnnealingPath, BasePath
from ebmtut.states import enumerate_states, states_to_index
from ebmtut.training import FlowConfig, FlowFollower, TrainConfig, train, train_flow
from ebmtut.training.eb_gfn import EBGFNConfig, train_eb_gfn
from ebmtut.training.gflownet import train_gflownet
from ebmtut.training.graph_flow import GraphFlowConfig, train_graph_flow
from ebmtut.training.set_policy import train_set_policy
from ebmtut.widgets import dual_explorer, message_explorer, transport_explorer

X = enumerate_states(4, dtype=torch.float32)
LATTICE = energies.LatticeIsing(3, 0.1)
SPINS = torch.zeros(2, 9)
ISING = energies.Ising(torch.ones(4, 4))
MACHINE = energies.BoltzmannMachine(torch.ones(4, 4), torch.ones(4))
PAIRS = energies.RBM(torch.ones(2, 4), torch.zeros(2), torch.zeros(4))
STATE = message_passing.start_persistent(MACHINE, 2, generator=random.make_generator(0))
DIRECTED = losses.DirectedNeighborhood(
    enumerate_states(2), ((1,), (0, 2, 3), (3, 1), (0, 1)), states_to_index
)
CELLS = metrics.HistogramProposal(torch.ones(2, 2), 2)
GRID = {"bits_per_coordinate": 2, "coarse_bits": 1}
PAIR = energies.GraphBatch.from_edges([(2, [(0, 1)])])
GRAPH_FLOW = GraphFlowNetwork(width=2)
FLOW = flows.Flow(
    AnnealingPath(energies.LatticeIsing(3, 0.2)),
    flows.OddLatticeNetwork(3, width=2, n_hidden=2),
)
SWEEP = flows.gibbs_kernel(FLOW.path, energies.lattice_coloring(3))
POLICY = gflownet.BitsGFlowNet(4, 2, generator=random.make_generator(0))
IMAGE = torch.ones(1, 3, 3)
PICTURES = torch.rand(3, 6, 6, generator=random.make_generator(0))
MASSES = PICTURES / PICTURES.sum((1, 2), keepdim=True)
GRID_COST = transport.grid_cost(6)
LINE = torch.full((1, 3), 1 / 3)
LINE_COST = torch.ones(3, 3) - torch.eye(3)
PROBLEM = (LINE[0], LINE[0], LINE_COST)
NMF = transport.WNMFConfig(n_components=2, n_epochs=1)
MARTINGALE = {"temperatures": [0.1, 0.1], "n_chains": 2}


LEVEL = torch.zeros(len(X), dtype=torch.long)
NOISE = NoiseLevels((0.5,), 0.1)
CHAIN = samplers.ConditionalChain(1)


def parabola(x, level):
    return (x**2).sum(1) / 2


def adapted(*, generator):
    def make(step_size):
        return samplers.hmc(lambda x: parabola(x, LEVEL), step_size)

    samplers.adapt_step_size(make, X, 1.0, generator=generator, low=0.01, high=0.99)


def free(x):
    return x.sum(1)


def one_epoch(*, generator):
    state = transport.wnmf_start(MASSES, NMF, generator=random.make_generator(0))
    transport.wnmf_epoch(state, MASSES, GRID_COST, NMF, generator=generator)


def training(*, generator):
    def loss(energy, x, *, generator):
        return energy(x).mean()

    def sample(n, *, generator):
        return X[torch.randint(len(X), (n,), generator=generator)]

    energy = energies.MLPEnergy(4, 2, 2)
    train(energy, loss, sample, TrainConfig(1), generator=generator)


def gibbs_step(*, generator):
    sampler = samplers.gibbs(LATTICE)
    sampler.step(sampler.init(SPINS), generator=generator)


def advance(*, generator):
    chains = losses.PersistentChains(X, n_steps=1, restart_probability=0.5)
    chains.advance(samplers.gibbs(ISING), X, generator=generator)


def followed(*, generator):
    steps = {"n_trajectories": 2, "n_time_steps": 1, "learning_rate": 1e-3}
    FlowFollower(copy.deepcopy(FLOW), SWEEP, **steps).fit(1, generator=generator)


# Each takes a generator. CALLS has them by the name of what is public.
MADE = (
    partial(metrics.BernoulliProposal.uniform(4).sample, 3),
    partial(losses.Bernoulli(0.1).negatives, X, 3),
    partial(gflownet.BitsGFlowNet, 3),
    partial(data.DensityData("moons").kl, free, metrics.Estimate(0.0, 0.0), 3),
    partial(data.DensityData("moons").sample_bits, 3),
    partial(DIRECTED.negatives, X[:, :2], 3),
    partial(losses.Grid().negatives, X, 3),
    partial(losses.DenoisingScoreMatching(NOISE).__call__, parabola, X),
    partial(energies.FourierEnergy, 2, 3),
    partial(NOISE.perturb, X, LEVEL),
    partial(NOISE.step, X, LEVEL),
    partial(losses.RecoveryLikelihood(NOISE, CHAIN).__call__, parabola, X),
    partial(losses.denoising_score_matching_loss, parabola, NOISE, X, LEVEL),
    partial(random.generator_on, device="cpu"),
    partial(samplers.inpaint, parabola, NOISE, X, X, CHAIN),
    partial(random.normal, X),
    partial(samplers.progressive_samples, parabola, NOISE, X, CHAIN),
    partial(metrics.HistogramProposal.fit, free, **GRID),
    partial(CELLS.sample, 3),
    partial(GraphFlowNetwork, width=2),
    partial(flows.HollowAttention, 3, width=4),
    partial(flows.HollowConvolution, 3, width=2),
    partial(HollowGraphTransformer, width=4),
    partial(flows.HollowMLP, 3, width=2),
    partial(flows.HollowTransformer, 3, width=4),
    partial(energies.MLPEnergy, 3),
    partial(energies.ResNetEnergy, 2, 2, 1),
    partial(flows.OddLatticeNetwork, 3, width=2),
    partial(energies.PerceptronEnergy, (2,), (1.0,), 2),
    partial(SetPolicy, width=2),
    partial(set_ways, SetPolicy(width=2), PAIR, 2),
    partial(flows.TimeFeatures, 2),
    partial(
        energies.WideResNetEnergy, energies.WideResNetConfig(4, 1, (1,), 0.9, 1, 4)
    ),
    partial(losses.Pool(2).negatives, X, 3),
    partial(transport.WarmChains(LINE, LINE_COST).__call__, LINE, [0.1, 0.1]),
    partial(
        samplers.anneal,
        lambda beta: samplers.vertex_gibbs(energies.MaxCut(PAIR)),
        X[:2, :2],
        [1.0],
    ),
    partial(gflownet.back_and_forth, POLICY, free, X, 2),
    partial(gflownet.backward_trajectories, POLICY, X),
    partial(random.bernoulli, torch.full((3,), 0.5)),
    partial(random.bernoulli_indices, 9, 0.1),
    partial(data.binarize, PICTURES),
    partial(samplers.block_gibbs, PAIRS, X, 1),
    partial(samplers.boltzmann_gibbs, MACHINE, X, 1),
    partial(samplers.boltzmann_gwg, MACHINE, X, 1),
    partial(transport.bounded_gibbs_ot, *PROBLEM, 1, start=0.1),
    partial(random.categorical, torch.zeros(3)),
    partial(
        samplers.deconvolution_gibbs, IMAGE, torch.ones(1, 1, 2, 2), IMAGE[:, 1:, 1:], 1
    ),
    partial(data.digits_at_hand, "drawn", n_glyphs=1),
    partial(losses.coupling_discrepancy_losses, torch.ones(2, 4, 4), X, losses.Grid()),
    partial(data.drawn_faces, 1),
    partial(samplers.draw_samples, ISING, 2, n_sweeps=1),
    partial(losses.draw_rbm, "Gibbs-reset", PAIRS, 2, (1,)),
    partial(losses.energy_discrepancy_loss, free, X, losses.Grid()),
    partial(random.exponential, (3,)),
    partial(gflownet.forward_trajectories, POLICY, 2),
    partial(transport.gibbs_ot, *PROBLEM, [0.1, 0.1]),
    partial(transport.gibbs_ot_oracle, [0.1, 0.1]),
    partial(transport.gibbs_ot_reference, *PROBLEM, [0.1, 0.1]),
    partial(data.glyph_digits, 1),
    partial(samplers.greedy_independent_set, PAIR, 2),
    partial(transport.grid_gibbs_pass, 0 * MASSES, MASSES, MASSES, GRID_COST, 0.1),
    partial(metrics.grid_log_partition, free, n_samples=2, **GRID),
    partial(random.gumbel, (3,)),
    partial(samplers.ising_gibbs, LATTICE, SPINS, 1),
    partial(samplers.ising_gibbs_reference, LATTICE, SPINS, 1),
    partial(data.ising_samples, 3, 0.1, 2, n_sweeps=1),
    partial(
        losses.learn_rbm, X, "PMP", n_hidden=2, n_steps=1, n_sweeps=1, batch_size=2
    ),
    partial(data.load_digits, n_glyphs=1, offline=True),
    partial(data.load_faces, offline=True),
    partial(metrics.log_partition_annealed, ISING, 2, 1),
    partial(metrics.log_partition_importance, free, CELLS, 2),
    partial(
        metrics.log_partition_particles,
        parabola,
        NOISE,
        2,
        n_particles=2,
        n_starts=1,
        n_runs=2,
    ),
    partial(metrics.log_partition_uniform, free, 4, 2),
    partial(
        metrics.log_partitions,
        ISING,
        metrics.BernoulliProposal.uniform(4),
        n_draws=2,
        n_chains=2,
        n_steps=1,
    ),
    partial(metrics.log_weights, free, CELLS, 2),
    partial(random.logistic, (3,)),
    partial(message_explorer, n_samples=40),
    partial(
        message_passing.persistent_perturb_and_max_product, MACHINE, STATE, 1, rho=0.5
    ),
    partial(message_passing.perturb_and_coordinate_descent, MACHINE, 2, 1),
    partial(message_passing.perturb_and_map_lp, MACHINE, 1),
    partial(message_passing.perturb_and_max_product, MACHINE, 2, 1),
    partial(dual_explorer),
    partial(data.random_graphs, "erdos-renyi", 2, 3, 4),
    partial(losses.random_rbm, 2, 3),
    partial(samplers.run_chain, samplers.gibbs(LATTICE), SPINS, 1),
    partial(metrics.sample_by_proposal, free, CELLS, 2, batch=9, min_draws=9),
    partial(message_passing.sample_deconvolution, IMAGE, 1, (2, 2), 1),
    partial(data.sample_density, "moons", 3),
    partial(data.shape_images, 1, density=0.5),
    partial(transport.simulate_martingale, *PROBLEM, **MARTINGALE),
    partial(random.spawn_seed),
    partial(message_passing.start_persistent, MACHINE, 2),
    partial(
        metrics.train_image_classifier, torch.zeros(4, 8, 8), torch.arange(4), n_steps=2
    ),
    partial(
        train_graph_flow,
        GRAPH_FLOW,
        energies.MaxCut(PAIR),
        GraphFlowConfig(n_graphs=1, n_copies=2, n_time_steps=1),
        TrainConfig(1),
    ),
    partial(FLOW.path.sample_start, 2),
    partial(BasePath(energies.MLPEnergy(3), torch.zeros(3)).sample_start, 2),
    partial(samplers.annealed_importance_sampling, FLOW.path, SWEEP, 4, 2),
    partial(samplers.boltzmann_annealing, ISING, 4, 2),
    partial(flows.reverse_elbo, FLOW, torch.zeros(2, 9), bound=100.0),
    partial(flows.simulate, FLOW, 2, 2),
    partial(flows.simulate_exact, FLOW, 2, bound=100.0),
    partial(
        train_flow,
        copy.deepcopy(FLOW),
        FlowConfig(
            n_time_steps=2, n_trajectories=2, n_rollouts=1, inner_steps=1, n_times=2
        ),
        TrainConfig(1, batch_size=4),
    ),
    partial(
        train_eb_gfn,
        energies.MLPEnergy(4),
        copy.deepcopy(POLICY),
        lambda n, *, generator: X[:n],
        EBGFNConfig(n_steps=1, n_samples=2, n_last=1),
    ),
    partial(
        train_gflownet,
        copy.deepcopy(POLICY),
        energies.MLPEnergy(4),
        1,
        1e-3,
        n_trajectories=2,
    ),
    partial(
        train_set_policy,
        SetPolicy(width=2),
        PAIR,
        1.0,
        TrainConfig(1, precision="float32"),
        n_graphs=1,
        n_copies=2,
    ),
    partial(transport_explorer),
    partial(transport.wasserstein_nmf, PICTURES, NMF),
    partial(transport.wnmf_start, MASSES, NMF),
)
CALLS = {call.func.__qualname__: call for call in MADE} | {
    "Bernoulli.negatives, rare": partial(
        losses.Bernoulli(0.01, sparse=True).negatives, X, 3
    ),
    "adapt_step_size": adapted,
    "PersistentChains.advance": advance,
    "gibbs.step": gibbs_step,
    "train": training,
    "FlowFollower.fit": followed,
    "wnmf_epoch": one_epoch,
}
# None is a choice of theirs: a threshold, and a fresh generator of seed 0.
OPTIONAL = """
FourierEnergy GraphFlowNetwork HollowAttention HollowConvolution
HollowGraphTransformer HollowMLP HollowTransformer MLPEnergy OddLatticeNetwork
PerceptronEnergy ResNetEnergy SetPolicy TimeFeatures WideResNetEnergy binarize
"""
# No functions of their own: what others are to offer, what is inside of a loop,
# a base class, and the check itself.
OTHERS = """
HollowNetwork Kernel.__call__ Loss.__call__ Perturbation.negatives Proposal.sample
ResumableLoop RunState Step.__call__ check_generator
"""

every_call = pytest.mark.parametrize("name", CALLS)


@pytest.fixture(autouse=True)
def no_files(monkeypatch, tmp_path):
    monkeypatch.setenv("EBMTUT_CACHE", str(tmp_path))
    monkeypatch.delenv("EBMTUT_DATA", raising=False)


@every_call
def test_the_global_generator_is_left_alone(name):
    before = torch.get_rng_state()
    CALLS[name](generator=random.make_generator(0))
    assert torch.equal(torch.get_rng_state(), before)


@every_call
@pytest.mark.parametrize("wrong", [None, 0])
def test_nothing_else_is_taken_for_a_generator(name, wrong):
    if wrong is None and name in OPTIONAL.split():
        pytest.skip("None is a choice")
    before = torch.get_rng_state()
    words = rf"^generator must be .*Generator.* got {wrong}$"
    with pytest.raises(InputError, match=words):
        CALLS[name](generator=wrong)
    assert torch.equal(torch.get_rng_state(), before)


def public():
    """Names of all public functions and methods that take a generator."""
    for info in pkgutil.walk_packages(ebmtut.__path__, "ebmtut."):
        if "._" in info.name or info.name.split(".")[1] in ("experiments", "kernels"):
            continue
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isclass(thing):
                for method in vars(thing):
                    if method == "__call__" or not method.startswith("_"):
                        yield f"{name}.{method}", getattr(thing, method)
            if callable(thing):
                yield name, thing


def takes_a_generator(function):
    try:
        return "generator" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # built in
        return False


def test_every_public_function_is_here():
    names = {name for name, function in public() if takes_a_generator(function)}
    missing = names - set(CALLS) - set(OTHERS.split())
    assert not missing
