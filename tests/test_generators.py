"""The contract of `generator`: nothing else is drawn from, and nothing else will do.

torch takes None for its global generator, so that a forgotten one would be no error
but a run that no seed repeats.
"""

import copy
import importlib
import inspect
import pkgutil

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
from ebmtut.random import (
    bernoulli,
    bernoulli_indices,
    categorical,
    exponential,
    generator_on,
    gumbel,
    logistic,
    make_generator,
    normal,
    spawn_seed,
)
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
STATE = message_passing.start_persistent(MACHINE, 2, generator=make_generator(0))
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
POLICY = gflownet.BitsGFlowNet(4, 2, generator=make_generator(0))
PICTURES = torch.rand(3, 6, 6, generator=make_generator(0))
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


def adapted(g):
    def make(step_size):
        return samplers.hmc(lambda x: parabola(x, LEVEL), step_size)

    samplers.adapt_step_size(make, X, 1.0, generator=g, low=0.01, high=0.99)


def free(x):
    return x.sum(1)


def one_epoch(g):
    state = transport.wnmf_start(MASSES, NMF, generator=make_generator(0))
    transport.wnmf_epoch(state, MASSES, GRID_COST, NMF, generator=g)


def training(g):
    def loss(energy, x, *, generator):
        return energy(x).mean()

    def sample(n, *, generator):
        return X[torch.randint(len(X), (n,), generator=generator)]

    train(energies.MLPEnergy(4, 2, 2), loss, sample, TrainConfig(1), generator=g)


def gibbs_step(g):
    sampler = samplers.gibbs(LATTICE)
    sampler.step(sampler.init(SPINS), generator=g)


def advance(g):
    chains = losses.PersistentChains(X, n_steps=1, restart_probability=0.5)
    chains.advance(samplers.gibbs(ISING), X, generator=g)


def discrepancy(perturbation):
    return lambda g: losses.energy_discrepancy_loss(free, X, perturbation, generator=g)


# Each takes a generator; by the name of what is public.
CALLS = {
    "BernoulliProposal.sample": lambda g: metrics.BernoulliProposal.uniform(4).sample(
        3, generator=g
    ),
    "Bernoulli.negatives": lambda g: losses.Bernoulli(0.1).negatives(X, 3, generator=g),
    "Bernoulli.negatives, rare": lambda g: losses.Bernoulli(
        0.01, sparse=True
    ).negatives(X, 3, generator=g),
    "BitsGFlowNet": lambda g: gflownet.BitsGFlowNet(3, generator=g),
    "DensityData.kl": lambda g: data.DensityData("moons").kl(
        lambda x: x.sum(1), metrics.Estimate(0.0, 0.0), 3, generator=g
    ),
    "DensityData.sample_bits": lambda g: data.DensityData("moons").sample_bits(
        3, generator=g
    ),
    "DirectedNeighborhood.negatives": lambda g: DIRECTED.negatives(
        X[:, :2], 3, generator=g
    ),
    "Grid.negatives": lambda g: losses.Grid().negatives(X, 3, generator=g),
    "DenoisingScoreMatching.__call__": lambda g: losses.DenoisingScoreMatching(NOISE)(
        parabola, X, generator=g
    ),
    "FourierEnergy": lambda g: energies.FourierEnergy(2, 3, generator=g),
    "NoiseLevels.perturb": lambda g: NOISE.perturb(X, LEVEL, generator=g),
    "NoiseLevels.step": lambda g: NOISE.step(X, LEVEL, generator=g),
    "RecoveryLikelihood.__call__": lambda g: losses.RecoveryLikelihood(NOISE, CHAIN)(
        parabola, X, generator=g
    ),
    "adapt_step_size": adapted,
    "denoising_score_matching_loss": lambda g: losses.denoising_score_matching_loss(
        parabola, NOISE, X, LEVEL, generator=g
    ),
    "generator_on": lambda g: generator_on(g, "cpu"),
    "inpaint": lambda g: samplers.inpaint(parabola, NOISE, X, X, CHAIN, generator=g),
    "normal": lambda g: normal(X, generator=g),
    "progressive_samples": lambda g: samplers.progressive_samples(
        parabola, NOISE, X, CHAIN, generator=g
    ),
    "HistogramProposal.fit": lambda g: metrics.HistogramProposal.fit(
        free, generator=g, **GRID
    ),
    "HistogramProposal.sample": lambda g: CELLS.sample(3, generator=g),
    "GraphFlowNetwork": lambda g: GraphFlowNetwork(width=2, generator=g),
    "HollowAttention": lambda g: flows.HollowAttention(3, width=4, generator=g),
    "HollowConvolution": lambda g: flows.HollowConvolution(3, width=2, generator=g),
    "HollowGraphTransformer": lambda g: HollowGraphTransformer(width=4, generator=g),
    "HollowMLP": lambda g: flows.HollowMLP(3, width=2, generator=g),
    "HollowTransformer": lambda g: flows.HollowTransformer(3, width=4, generator=g),
    "MLPEnergy": lambda g: energies.MLPEnergy(3, generator=g),
    "ResNetEnergy": lambda g: energies.ResNetEnergy(2, 2, 1, generator=g),
    "OddLatticeNetwork": lambda g: flows.OddLatticeNetwork(3, width=2, generator=g),
    "PerceptronEnergy": lambda g: energies.PerceptronEnergy(
        (2,), (1.0,), 2, generator=g
    ),
    "SetPolicy": lambda g: SetPolicy(width=2, generator=g),
    "set_ways": lambda g: set_ways(SetPolicy(width=2), PAIR, 2, generator=g),
    "TimeFeatures": lambda g: flows.TimeFeatures(2, generator=g),
    "WideResNetEnergy": lambda g: energies.WideResNetEnergy(
        energies.WideResNetConfig(4, 1, (1,), 0.9, 1, 4), generator=g
    ),
    "PersistentChains.advance": advance,
    "Pool.negatives": lambda g: losses.Pool(2).negatives(X, 3, generator=g),
    "WarmChains.__call__": lambda g: transport.WarmChains(LINE, LINE_COST)(
        LINE, [0.1, 0.1], generator=g
    ),
    "anneal": lambda g: samplers.anneal(
        lambda beta: samplers.vertex_gibbs(energies.MaxCut(PAIR)),
        X[:2, :2],
        [1.0],
        generator=g,
    ),
    "back_and_forth": lambda g: gflownet.back_and_forth(
        POLICY, free, X, 2, generator=g
    ),
    "backward_trajectories": lambda g: gflownet.backward_trajectories(
        POLICY, X, generator=g
    ),
    "bernoulli": lambda g: bernoulli(torch.full((3,), 0.5), generator=g),
    "bernoulli_indices": lambda g: bernoulli_indices(9, 0.1, generator=g),
    "binarize": lambda g: data.binarize(PICTURES, generator=g),
    "block_gibbs": lambda g: samplers.block_gibbs(PAIRS, X, 1, generator=g),
    "boltzmann_gibbs": lambda g: samplers.boltzmann_gibbs(MACHINE, X, 1, generator=g),
    "boltzmann_gwg": lambda g: samplers.boltzmann_gwg(MACHINE, X, 1, generator=g),
    "bounded_gibbs_ot": lambda g: transport.bounded_gibbs_ot(
        *PROBLEM, 1, start=0.1, generator=g
    ),
    "categorical": lambda g: categorical(torch.zeros(3), generator=g),
    "deconvolution_gibbs": lambda g: samplers.deconvolution_gibbs(
        torch.ones(1, 3, 3), torch.ones(1, 1, 2, 2), torch.ones(1, 2, 2), 1, generator=g
    ),
    "digits_at_hand": lambda g: data.digits_at_hand("drawn", generator=g, n_glyphs=1),
    "coupling_discrepancy_losses": lambda g: losses.coupling_discrepancy_losses(
        torch.ones(2, X.shape[1], X.shape[1]), X, losses.Grid(), generator=g
    ),
    "drawn_faces": lambda g: data.drawn_faces(1, generator=g),
    "draw_samples": lambda g: samplers.draw_samples(ISING, 2, n_sweeps=1, generator=g),
    "draw_rbm": lambda g: losses.draw_rbm("Gibbs-reset", PAIRS, 2, (1,), generator=g),
    "energy_discrepancy_loss": discrepancy(losses.Grid()),
    "exponential": lambda g: exponential((3,), generator=g),
    "gibbs.step": gibbs_step,
    "forward_trajectories": lambda g: gflownet.forward_trajectories(
        POLICY, 2, generator=g
    ),
    "gibbs_ot": lambda g: transport.gibbs_ot(*PROBLEM, [0.1, 0.1], generator=g),
    "gibbs_ot_oracle": lambda g: transport.gibbs_ot_oracle([0.1, 0.1], generator=g),
    "gibbs_ot_reference": lambda g: transport.gibbs_ot_reference(
        *PROBLEM, [0.1, 0.1], generator=g
    ),
    "glyph_digits": lambda g: data.glyph_digits(1, generator=g),
    "greedy_independent_set": lambda g: samplers.greedy_independent_set(
        PAIR, 2, generator=g
    ),
    "grid_gibbs_pass": lambda g: transport.grid_gibbs_pass(
        torch.zeros_like(MASSES), MASSES, MASSES, GRID_COST, 0.1, generator=g
    ),
    "grid_log_partition": lambda g: metrics.grid_log_partition(
        free, generator=g, n_samples=2, **GRID
    ),
    "gumbel": lambda g: gumbel((3,), generator=g),
    "ising_gibbs": lambda g: samplers.ising_gibbs(LATTICE, SPINS, 1, generator=g),
    "ising_gibbs_reference": lambda g: samplers.ising_gibbs_reference(
        LATTICE, SPINS, 1, generator=g
    ),
    "ising_samples": lambda g: data.ising_samples(3, 0.1, 2, n_sweeps=1, generator=g),
    "learn_rbm": lambda g: losses.learn_rbm(
        X, "PMP", n_hidden=2, n_steps=1, n_sweeps=1, batch_size=2, generator=g
    ),
    "load_digits": lambda g: data.load_digits(generator=g, n_glyphs=1, offline=True),
    "load_faces": lambda g: data.load_faces(generator=g, offline=True),
    "log_partition_annealed": lambda g: metrics.log_partition_annealed(
        ISING, 2, 1, generator=g
    ),
    "log_partition_importance": lambda g: metrics.log_partition_importance(
        free, CELLS, 2, generator=g
    ),
    "log_partition_particles": lambda g: metrics.log_partition_particles(
        parabola, NOISE, 2, n_particles=2, n_starts=1, n_runs=2, generator=g
    ),
    "log_partition_uniform": lambda g: metrics.log_partition_uniform(
        free, 4, 2, generator=g
    ),
    "log_partitions": lambda g: metrics.log_partitions(
        ISING,
        metrics.BernoulliProposal.uniform(4),
        n_draws=2,
        n_chains=2,
        n_steps=1,
        generator=g,
    ),
    "log_weights": lambda g: metrics.log_weights(free, CELLS, 2, generator=g),
    "logistic": lambda g: logistic((3,), generator=g),
    "message_explorer": lambda g: message_explorer(n_samples=40, generator=g),
    "persistent_perturb_and_max_product": lambda g: (
        message_passing.persistent_perturb_and_max_product(
            MACHINE, STATE, 1, rho=0.5, generator=g
        )
    ),
    "perturb_and_coordinate_descent": lambda g: (
        message_passing.perturb_and_coordinate_descent(MACHINE, 2, 1, generator=g)
    ),
    "perturb_and_map_lp": lambda g: message_passing.perturb_and_map_lp(
        MACHINE, 1, generator=g
    ),
    "perturb_and_max_product": lambda g: message_passing.perturb_and_max_product(
        MACHINE, 2, 1, generator=g
    ),
    "dual_explorer": lambda g: dual_explorer(generator=g),
    "random_graphs": lambda g: data.random_graphs("erdos-renyi", 2, 3, 4, generator=g),
    "random_rbm": lambda g: losses.random_rbm(2, 3, generator=g),
    "run_chain": lambda g: samplers.run_chain(
        samplers.gibbs(LATTICE), SPINS, 1, generator=g
    ),
    "sample_by_proposal": lambda g: metrics.sample_by_proposal(
        free, CELLS, 2, generator=g, batch=9, min_draws=9
    ),
    "sample_deconvolution": lambda g: message_passing.sample_deconvolution(
        torch.ones(1, 3, 3), 1, (2, 2), 1, generator=g
    ),
    "sample_density": lambda g: data.sample_density("moons", 3, generator=g),
    "shape_images": lambda g: data.shape_images(1, generator=g, density=0.5),
    "simulate_martingale": lambda g: transport.simulate_martingale(
        *PROBLEM, generator=g, **MARTINGALE
    ),
    "spawn_seed": spawn_seed,
    "start_persistent": lambda g: message_passing.start_persistent(
        MACHINE, 2, generator=g
    ),
    "train": training,
    "train_image_classifier": lambda g: metrics.train_image_classifier(
        torch.zeros(4, 8, 8), torch.arange(4), generator=g, n_steps=2
    ),
    "train_graph_flow": lambda g: train_graph_flow(
        GRAPH_FLOW,
        energies.MaxCut(PAIR),
        GraphFlowConfig(n_graphs=1, n_copies=2, n_time_steps=1),
        TrainConfig(1),
        generator=g,
    ),
    "FlowFollower.fit": lambda g: FlowFollower(
        copy.deepcopy(FLOW), SWEEP, n_trajectories=2, n_time_steps=1, learning_rate=1e-3
    ).fit(1, generator=g),
    "AnnealingPath.sample_start": lambda g: FLOW.path.sample_start(2, generator=g),
    "BasePath.sample_start": lambda g: BasePath(
        energies.MLPEnergy(3), torch.zeros(3)
    ).sample_start(2, generator=g),
    "annealed_importance_sampling": lambda g: samplers.annealed_importance_sampling(
        FLOW.path, SWEEP, 4, 2, generator=g
    ),
    "reverse_elbo": lambda g: flows.reverse_elbo(
        FLOW, torch.zeros(2, 9), bound=100.0, generator=g
    ),
    "simulate": lambda g: flows.simulate(FLOW, 2, 2, generator=g),
    "simulate_exact": lambda g: flows.simulate_exact(FLOW, 2, bound=100.0, generator=g),
    "train_flow": lambda g: train_flow(
        copy.deepcopy(FLOW),
        FlowConfig(
            n_time_steps=2, n_trajectories=2, n_rollouts=1, inner_steps=1, n_times=2
        ),
        TrainConfig(1, batch_size=4),
        generator=g,
    ),
    "train_eb_gfn": lambda g: train_eb_gfn(
        energies.MLPEnergy(4),
        gflownet.BitsGFlowNet(4, 2, generator=make_generator(0)),
        lambda n, *, generator: X[:n],
        EBGFNConfig(n_steps=1, n_samples=2, n_last=1),
        generator=g,
    ),
    "train_gflownet": lambda g: train_gflownet(
        gflownet.BitsGFlowNet(4, 2, generator=make_generator(0)),
        energies.MLPEnergy(4),
        1,
        1e-3,
        generator=g,
        n_trajectories=2,
    ),
    "train_set_policy": lambda g: train_set_policy(
        SetPolicy(width=2),
        PAIR,
        1.0,
        TrainConfig(1, precision="float32"),
        generator=g,
        n_graphs=1,
        n_copies=2,
    ),
    "transport_explorer": lambda g: transport_explorer(generator=g),
    "wasserstein_nmf": lambda g: transport.wasserstein_nmf(PICTURES, NMF, generator=g),
    "wnmf_epoch": one_epoch,
    "wnmf_start": lambda g: transport.wnmf_start(MASSES, NMF, generator=g),
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
    CALLS[name](make_generator(0))
    assert torch.equal(torch.get_rng_state(), before)


@every_call
@pytest.mark.parametrize("wrong", [None, 0])
def test_nothing_else_is_taken_for_a_generator(name, wrong):
    if wrong is None and name in OPTIONAL.split():
        pytest.skip("None is a choice")
    before = torch.get_rng_state()
    with pytest.raises(
        InputError, match=rf"^generator must be .*Generator.* got {wrong}$"
    ):
        CALLS[name](wrong)
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
