"""Samplers on the same energies at equal cost, compared with exact answers.

Every method returns 1,000 samples after T steps, T = 1, 2, 4, ... until a run takes the
budget of CPU seconds. Run: python -m studies.comparison.sampling [PROBLEM ...]
"""

import math
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from ebmtut import energies, exact, flows, losses, samplers
from ebmtut.data import random_graphs
from ebmtut.energies import BoltzmannMachine, Ising, LatticeIsing
from ebmtut.experiments.comparison import spin_glass
from ebmtut.experiments.dnfs import lattices
from ebmtut.experiments.dnfs.recipes import CRITICAL
from ebmtut.experiments.experiment import stream
from ebmtut.message_passing import perturb_and_max_product
from ebmtut.paths import AnnealingPath
from ebmtut.random import bernoulli, make_generator
from ebmtut.states import enumerate_states
from ebmtut.training import FlowConfig, TrainConfig, train_flow
from studies.comparison import learning, shared
from studies.comparison.shared import Grid, Options

N_SAMPLES = 1000
SEEDS = range(12)
#: CPU seconds after which no longer run is begun.
BUDGET = 1.0
#: Runs of fewer seconds are timed three times.
REPEATED = 0.1
#: Sets of exact samples, and of independent bits.
N_SETS = 100
#: Optimiser steps of a flow, and its batch.
N_TRAIN, BATCH = 200, 256


def columns(problem: "Problem") -> list[str]:
    """Name the columns of a curve; evaluations are those of one sample."""
    distance = "energy" if problem.shown == "pairs" else problem.shown
    return ["steps", "seconds", "evaluations", distance, "pairs", "log Z", "ESS"]


class Samples(NamedTuple):
    """Samples, their log-weights with log Z of the start, and evaluations of one."""

    x: Tensor
    evaluations: float
    log_weights: Tensor | None = None


class Problem:
    """An energy, and what is known exactly."""

    energy: energies.Energy
    #: The same energy, as PMP and as GWG take it, if it is quadratic.
    pairwise: BoltzmannMachine | energies.PairwiseGraph | None = None
    dense: BoltzmannMachine | None = None
    distribution: lattices.EnergyDistribution
    log_partition: float
    #: Means of the bits, and of all products of two of them, with their sites.
    bit_means: Tensor
    means: np.ndarray
    pairs: Tensor
    #: The error that the page draws: of `distance` under a name of its own, or "pairs".
    shown: str
    #: Of a quadratic energy: what makes Gibbs sweeps, and of which model at t.
    compiled_gibbs: Callable[..., Tensor]
    tempered: Callable[[float], energies.Energy]
    #: Makes the rates of a flow.
    network: Callable[..., torch.nn.Module]
    #: Budgets that are spent on it.
    patience = 1.0

    def start(self, generator: Generator, n: int = N_SAMPLES) -> Tensor:
        """Sample uniform bits."""
        return AnnealingPath(self.energy).sample_start(n, generator=generator)

    def sweep(self, x: Tensor, t: float, *, generator: Generator, n: int = 1) -> Tensor:
        """Make Gibbs sweeps at inverse temperature t of the path."""
        if self.dense is None:
            chain = samplers.gibbs(AnnealingPath(self.energy).at(t), "systematic")
            n_moves = n * self.energy.n_sites
            return samplers.run_chain(chain, x, n_moves, generator=generator).x_final
        return self.compiled_gibbs(self.tempered(t), x, n, generator=generator)

    def compile(self, model: BoltzmannMachine) -> None:
        """Let compiled samplers take the model, which is the energy."""
        self.pairwise = self.dense = model
        weight, bias = model.weight.detach(), model.bias.detach()
        self.compiled_gibbs = samplers.boltzmann_gibbs
        self.tempered = lambda t: BoltzmannMachine(t * weight, t * bias)

    def averages(self, x: Tensor, weights: Tensor) -> np.ndarray:
        """Weighted means of all products of two bits."""
        second = x.double().T @ (weights[:, None] * x.double())
        return second[*self.pairs].numpy()

    def distance(self, x: Tensor, log_w: np.ndarray, shares: Tensor) -> float:
        """Error of the distribution of energies; shares are normalised weights."""
        return self.energy_error(self.energy(x).double().numpy(), log_w)

    def energy_error(self, found: np.ndarray, log_w: np.ndarray | None = None) -> float:
        """Wasserstein distance to the exact energies, in their standard deviations."""
        levels, p = self.distribution
        spread = math.sqrt(p @ levels**2 - (p @ levels) ** 2)
        return lattices.distribution_distance(found, self.distribution, log_w) / spread


class Lattice(Problem):
    """Ising lattice of 10 x 10 spins; means are products of spins by distance."""

    def __init__(self, sigma: float, side: int = 10) -> None:
        self.energy, self.side = LatticeIsing(side, sigma), side
        self.shown = "energy and spin"
        # Chains from random spins have both signs equally often.
        x = self.start(make_generator(0), 4000)
        x = samplers.ising_gibbs(self.energy, x, 1000, generator=make_generator(1))
        self.spin_spread = float((2 * x.mean(1) - 1).std())
        self.compiled_gibbs = samplers.ising_gibbs
        self.tempered = lambda t: LatticeIsing(side, t * sigma)
        self.network = partial(flows.OddLatticeNetwork, side, n_hidden=32)
        edges = energies.lattice_adjacency(side).triu().nonzero().T
        self.dense = BoltzmannMachine.from_ising(self.energy.to_dense(torch.float32))
        coupling = self.dense.weight.detach()[*edges]
        self.pairwise = energies.PairwiseGraph(edges, coupling, self.dense.bias)
        self.distribution = lattices.energy_distribution(side, sigma)
        self.log_partition = exact.torus_log_partition(side, side, 2 * sigma)
        self.bit_means = torch.full((side**2,), 0.5)
        self.means = exact.torus_correlations(side, side, 2 * sigma)[1:].numpy()

    def averages(self, x: Tensor, weights: Tensor) -> np.ndarray:
        """Weighted means of products of two spins by their distance."""
        products = lattices.pair_products(x, self.side).double()
        return (weights @ products).numpy()

    def distance(self, x: Tensor, log_w: np.ndarray, shares: Tensor) -> float:
        """Add how far the mean spin is from zero, in its standard deviations."""
        spin = float(shares @ (2 * x.mean(1) - 1).double())
        return super().distance(x, log_w, shares) + abs(spin) / self.spin_spread

    def exact_errors(self, seed: int, generator: Generator) -> list[float]:
        """Errors of independent samples; their mean spin is nearly normal."""
        levels, p = self.distribution
        p = torch.from_numpy(p)
        pick = torch.multinomial(p, N_SAMPLES, True, generator=generator)
        spin = abs(float(torch.randn((), generator=generator))) / math.sqrt(N_SAMPLES)
        return [self.energy_error(levels[pick]) + spin, math.nan, math.nan, math.nan]


class Enumerated(Problem):
    """An energy of few bits, all states of which are listed."""

    def __init__(
        self, model: energies.Energy, shown: str = "pairs", n_levels: int = 4000
    ) -> None:
        self.energy, self.shown, n = model, shown, model.n_sites
        if isinstance(model, BoltzmannMachine):
            self.compile(model)
        self.network = partial(flows.HollowMLP, n)
        self.log_p = exact.exact_probabilities(model, n)
        self.log_partition = float(exact.exact_log_partition(model, n))
        self.states = enumerate_states(n, dtype=torch.float32)
        p, values = self.log_p.exp(), -self.log_p - self.log_partition
        low, high = float(values.min()), float(values.max())
        bins = ((values - low) / (high - low) * (n_levels - 1)).long()
        empty = torch.zeros(n_levels, dtype=torch.double)
        chances, sums = (empty.index_add(0, bins, of) for of in (p, p * values))
        held = chances > 0
        levels = (sums / chances)[held].numpy()
        self.distribution = lattices.EnergyDistribution(levels, chances[held].numpy())
        second = self.states.T.double() @ (p[:, None] * self.states.double())
        self.bit_means = (p @ self.states.double()).float()
        self.pairs = torch.triu_indices(n, n)
        self.means = second[*self.pairs].numpy()

    def exact_samples(self, seed: int) -> Tensor:
        """Independent samples."""
        p = self.log_p.exp().numpy()
        places = np.random.default_rng(seed).random(N_SAMPLES) * p.sum()
        index = np.searchsorted(p.cumsum(), places).clip(max=len(p) - 1)
        return self.states[torch.from_numpy(index)]

    def exact_errors(self, seed: int, generator: Generator) -> list[float]:
        """Errors of independent samples."""
        return errors(self, Samples(self.exact_samples(seed), 0))


def two_modes(n: int = 200) -> BoltzmannMachine:
    """Spins that all attract each other alike: E = -n (0.7 m^2 + 0.005 m) + 0.7."""
    coupling = 0.7 / n * (1 - torch.eye(n))
    return BoltzmannMachine.from_ising(Ising(coupling, torch.full((n,), 0.005)))


class MeanField(Problem):
    """An energy of the mean spin m: states with k ones can be counted."""

    patience = 4.0

    def __init__(self, model: energies.Energy) -> None:
        n = model.n_sites
        self.energy, self.shown = model, "pairs"
        if isinstance(model, BoltzmannMachine):
            self.compile(model)
        self.network = partial(flows.HollowMLP, n, n_layers=1)
        k = torch.arange(n + 1).double()
        values = model((torch.arange(n) < k[:, None]).float()).double()
        log_count = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
        self.log_partition = float((log_count - values).logsumexp(0))
        self.p_ones = (log_count - values).softmax(0)
        order = values.argsort()
        levels, chances = values[order].numpy(), self.p_ones[order].numpy()
        self.distribution = lattices.EnergyDistribution(levels, chances)
        self.pairs = torch.triu_indices(n, n)
        first, second = self.p_ones @ k / n, self.p_ones @ (k * (k - 1)) / n / (n - 1)
        self.bit_means = torch.full((n,), float(first))
        self.means = torch.where(self.pairs[0] == self.pairs[1], first, second).numpy()

    def exact_errors(self, seed: int, generator: Generator) -> list[float]:
        """Errors of independent samples."""
        n = self.energy.n_sites
        ones = self.p_ones.multinomial(N_SAMPLES, True, generator=generator)
        ranks = torch.rand(N_SAMPLES, n, generator=generator).argsort(1)
        return errors(self, Samples((ranks < ones[:, None]).float(), 0))


class Sampled(Problem):
    """An energy with exact samples, whose distribution of energies is not computed."""

    shown = "pairs"
    exact_samples: Callable[[Generator], Tensor]

    def distance(self, x: Tensor, log_w: np.ndarray, shares: Tensor) -> float:
        """No number."""
        return math.nan

    def exact_errors(self, seed: int, generator: Generator) -> list[float]:
        """Errors of independent samples."""
        return errors(self, Samples(self.exact_samples(generator), 0))


class Strip(Sampled):
    """Spin glass on a grid of 10 x 20 spins: neighbours are coupled by 1 or -1.

    A column has 1,024 states, and the columns are a Markov chain: ``first`` are the
    probabilities of the first one's states, ``following`` those of the next one's.
    """

    def __init__(self, beta: float, height: int = 10, length: int = 20) -> None:
        self.patience = 2 * beta
        generator, n = make_generator(0), height * length
        down = 2.0 * torch.randint(2, (length, height - 1), generator=generator) - 1
        right = 2.0 * torch.randint(2, (length - 1, height), generator=generator) - 1
        site = torch.arange(n).view(length, height)
        ends = [(site[:, :-1], site[:, 1:]), (site[:-1], site[1:])]
        coupling = torch.zeros(n, n)
        for (i, j), signs in zip(ends, (down, right), strict=True):
            coupling[i, j] = beta / 2 * signs
        model = BoltzmannMachine.from_ising(
            Ising(coupling + coupling.T, torch.zeros(n))
        )
        self.compile(model)
        self.energy = model
        i, j = coupling.nonzero().T
        self.pairwise = energies.PairwiseGraph(
            torch.stack([i, j]), model.weight.detach()[i, j], model.bias.detach()
        )
        self.network = partial(flows.HollowMLP, n, n_layers=1)
        self.columns = enumerate_states(height).double()
        s = 2 * self.columns - 1
        alone = beta * (s[:, :-1] * s[:, 1:]) @ down.double().T
        rest, self.following = alone[:, -1], []
        for k in reversed(range(length - 1)):
            log_p = beta * (s * right[k]) @ s.T + rest
            self.following.insert(0, log_p.softmax(1))
            rest = alone[:, k] + log_p.logsumexp(1)
        self.first = rest.softmax(0)
        # The energy of bits differs from that of spins by a constant: where all are 0.
        constant = float(model(torch.zeros(1, n))) + beta * float(
            down.sum() + right.sum()
        )
        self.log_partition = float(rest.logsumexp(0)) - constant
        self.pairs = torch.triu_indices(n, n)
        self.means = self.second_moments()[*self.pairs].numpy()
        self.bit_means = torch.full((n,), 0.5)

    def second_moments(self) -> Tensor:
        """Return the exact means of all products of two bits."""
        height, length = self.columns.shape[1], len(self.following) + 1
        second = torch.zeros(length, height, length, height).double()
        p = self.first
        for k in range(length):
            held = (p[:, None] * self.columns).T
            for later in range(k, length):
                second[k, :, later] = held @ self.columns
                if later < length - 1:
                    held = held @ self.following[later]
            if k < length - 1:
                p = p @ self.following[k]
        return second.flatten(2).flatten(0, 1)

    def exact_samples(self, generator: Generator) -> Tensor:
        """Independent samples."""
        state = self.first.multinomial(N_SAMPLES, True, generator=generator)
        x = [self.columns[state]]
        for p in self.following:
            state = p[state].multinomial(1, generator=generator)[:, 0]
            x.append(self.columns[state])
        return torch.cat(x, 1).float()


class DigitsRBM(Sampled):
    """RBM of digits, 64 bits, with 16 hidden bits, whose states are all listed."""

    def __init__(self, n_hidden: int = 16, n_steps: int = 3000) -> None:
        problem, generator = learning.digits(n_hidden), make_generator(1)
        rbm, sample = problem.new_model(generator), problem.data(0)
        adam = torch.optim.Adam(rbm.parameters(), 0.01)
        for _ in range(n_steps):
            x = sample(generator)
            y = samplers.block_gibbs(rbm, x, 1, generator=generator)[:, : x.shape[1]]
            adam.zero_grad()
            losses.contrastive_divergence_loss(rbm, x, y).backward()
            adam.step()
        model = joint(rbm.requires_grad_(False))
        self.energy = model
        self.compile(model)
        n = model.n_sites
        self.network = partial(flows.HollowMLP, n, n_layers=1)
        turned = energies.RBM(rbm.weight.T, rbm.visible_bias, rbm.hidden_bias)
        self.log_p = exact.exact_probabilities(turned, n_hidden)
        self.log_partition = float(exact.exact_log_partition(turned, n_hidden))
        self.hidden = enumerate_states(n_hidden, dtype=torch.float32)
        self.visible = (self.hidden @ rbm.weight + rbm.visible_bias).sigmoid()
        means = torch.cat([self.visible, self.hidden], 1).double()
        p = self.log_p.exp()
        second = means.T @ (p[:, None] * means)
        second.fill_diagonal_(0.0)
        second += (p @ means).diag()
        self.bit_means = (p @ means).float()
        self.pairs = torch.triu_indices(n, n)
        self.means = second[*self.pairs].numpy()

    def exact_samples(self, generator: Generator) -> Tensor:
        """Independent samples."""
        p = self.log_p.exp()
        pick = p.multinomial(N_SAMPLES, True, generator=generator)
        v = bernoulli(self.visible[pick], generator=generator)
        return torch.cat([v, self.hidden[pick]], 1)


def joint(rbm: energies.RBM) -> BoltzmannMachine:
    """Return the model of visible and hidden bits, in this order."""
    n_hidden, n = rbm.weight.shape
    weight = torch.zeros(n + n_hidden, n + n_hidden)
    weight[n:, :n] = rbm.weight.detach()
    bias = torch.cat([rbm.visible_bias, rbm.hidden_bias]).detach()
    return BoltzmannMachine(weight + weight.T, bias)


def glass(n: int = 18, strength: float = 3.0) -> Enumerated:
    """Dense spin glass, enumerated."""
    return Enumerated(spin_glass(n, strength))


def independent_sets(n: int = 18, beta: float = 10.0) -> Enumerated:
    """Independent sets of one random graph, with the energy of chapter 5."""
    graphs = random_graphs("erdos-renyi", 1, n, n, generator=make_generator(0))
    sets = energies.MaxIndependentSet(graphs, inverse_temperature=beta)
    weight = -beta * sets.penalty * graphs.adjacency[0]
    return Enumerated(BoltzmannMachine(weight, torch.full((n,), beta)))


def rbm(side: int = 3, n_hidden: int = 8, n_steps: int = 1000) -> Enumerated:
    """RBM with its hidden bits, trained on bars and stripes by exact likelihood."""
    images = learning.bars_and_stripes(side)
    n, generator = side**2, make_generator(1)
    weight = 0.5 * torch.randn(n_hidden, n, generator=generator)
    model = energies.RBM(weight, torch.zeros(n_hidden), torch.zeros(n), learnable=True)
    states = enumerate_states(n, dtype=torch.float32)
    adam = torch.optim.Adam(model.parameters(), 0.05)
    for _ in range(n_steps):
        loss = model(images).mean() + torch.logsumexp(-model(states), 0)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return Enumerated(joint(model))


def network(name: str = "2spirals", n_steps: int = 3000) -> Enumerated:
    """Perceptron of 16 bits, trained by pseudo-likelihood on a density of the plane."""
    problem, generator = learning.sixteen_bits(name), make_generator(1)
    model, sample = problem.new_model(generator), problem.data(0)
    adam = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(n_steps):
        loss = losses.pseudo_likelihood_loss(model, sample(generator))
        adam.zero_grad()
        loss.backward()
        adam.step()
    return Enumerated(model.requires_grad_(False), "energy")


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "lattice critical": lambda: Lattice(CRITICAL),
    "spin glass": glass,
    "lattice 0.1": lambda: Lattice(0.1),
    "lattice 0.3": lambda: Lattice(0.3),
    "independent sets": independent_sets,
    "RBM": rbm,
    "two modes": lambda: MeanField(two_modes()),
    "network": network,
    "strip 1": lambda: Strip(1.0),
    "strip 2": lambda: Strip(2.0),
    "digits": DigitsRBM,
}


def gibbs(problem: Problem, n_steps: int, generator: Generator) -> Samples:
    """T sweeps."""
    x = problem.sweep(problem.start(generator), 1.0, generator=generator, n=n_steps)
    return Samples(x, n_steps * problem.energy.n_sites)


def gwg(problem: Problem, n_steps: int, generator: Generator) -> Samples:
    """T moves of a single bit; an evaluation and a gradient for each."""
    x = problem.start(generator)
    if problem.dense is None:
        chain = samplers.gwg(problem.energy)
        x = samplers.run_chain(chain, x, n_steps, generator=generator).x_final
    else:
        x = samplers.boltzmann_gwg(problem.dense, x, n_steps, generator=generator)
    return Samples(x, 3 * n_steps)


def langevin(
    problem: Problem, n_steps: int, generator: Generator, step_size: float
) -> Samples:
    """T steps of DMALA; an evaluation and a gradient for each."""
    sampler = samplers.dmala(problem.energy, step_size, ratios="exact")
    x = problem.start(generator)
    x = samplers.run_chain(sampler, x, n_steps, generator=generator).x_final
    return Samples(x, 3 * n_steps)


def tempering(
    problem: Problem, n_steps: int, generator: Generator, n_replicas: int
) -> Samples:
    """T rounds of parallel tempering: a sweep at each temperature, then exchanges.

    Inverse temperatures are k / R of the target's. Neighbours exchange their states
    with probability min(1, exp((b_k - b_l)(E_k - E_l))), even and odd pairs in turn.
    """
    n, n_sites = N_SAMPLES, problem.energy.n_sites
    x = problem.start(generator, n_replicas * n).view(n_replicas, n, n_sites)
    betas = torch.arange(1, n_replicas + 1) / n_replicas
    for step in range(n_steps):
        for replica, beta in enumerate(betas):
            x[replica] = problem.sweep(x[replica], float(beta), generator=generator)
        levels = problem.energy(x.flatten(0, 1)).view(n_replicas, n)
        low = torch.arange(step % 2, n_replicas - 1, 2)
        gain = (levels[low + 1] - levels[low]) / n_replicas
        swap = torch.rand(len(low), n, generator=generator).log() < gain
        hot, cold, keep = x[low], x[low + 1], ~swap[..., None]
        x[low], x[low + 1] = hot.where(keep, cold), cold.where(keep, hot)
    # The last move is a sweep, as in the other chains.
    x = problem.sweep(x[-1], 1.0, generator=generator)
    return Samples(x, n_replicas * n_steps * (n_sites + 1) + n_sites)


def annealing(
    problem: Problem, n_steps: int, generator: Generator, resample: float
) -> Samples:
    """T temperatures of annealed importance sampling, or of sequential Monte Carlo."""
    how: Any = {"generator": generator, "resample_below": resample}
    energy: Any = problem.energy
    if problem.dense is None:
        moved = AnnealingPath(energy), problem.sweep
        anneal = partial(samplers.annealed_importance_sampling, *moved)
    else:
        anneal = partial(samplers.boltzmann_annealing, energy)
    found = anneal(N_SAMPLES, n_steps, **how)
    log_weights = found.log_weights + energy.n_sites * math.log(2)
    return Samples(found.x, n_steps * (problem.energy.n_sites + 1), log_weights)


def messages(
    problem: Problem, n_steps: int, generator: Generator, damping: float
) -> Samples:
    """T sweeps of perturb-and-max-product, which a black box does not permit."""
    how: Any = {"damping": damping, "generator": generator}
    x = perturb_and_max_product(problem.pairwise, N_SAMPLES, n_steps, **how)
    return Samples(x, math.nan)


@cache
def trained_flow(problem: Problem, seed: int, rate: float) -> tuple[Any, float]:
    """Train a flow with Gibbs sweeps in its rollouts."""
    generator = make_generator(seed)
    network = problem.network(width=32, generator=generator)
    flow = flows.Flow(AnnealingPath(problem.energy), network, rates="reversible")
    more: Any = {"n_warmup": 50, "clip_norm": 1.0, "precision": "float32"}
    configs = FlowConfig(n_time_steps=32), TrainConfig(N_TRAIN, BATCH, rate, **more)
    found = train_flow(flow, *configs, generator=generator, refine=problem.sweep)
    return found.flow, found.cpu_seconds


def flow(problem: Problem, n_steps: int, generator: Generator, rate: float) -> Samples:
    """T time steps of a flow; the log-ratios of all neighbours, and the network."""
    trained, _ = trained_flow(problem, generator.initial_seed(), rate)
    found = flows.simulate(trained, N_SAMPLES, n_steps, generator=generator)
    log_weights = found.log_weights + trained.path.log_partition_start
    return Samples(found.x, n_steps * (problem.energy.n_sites + 2), log_weights)


def training(problem: Problem, rate: float) -> list[tuple[float, float]]:
    """Seconds of training, and evaluations for each of 1,000 samples, by seed."""
    # Rollouts of 128 x 33 states with sweeps, one for 100 steps; a gradient counts
    # twice more.
    n_states = -(-N_TRAIN // 100) * 128 * 33 * 2 + N_TRAIN * BATCH * 3
    spent = n_states * (problem.energy.n_sites + 2) / N_SAMPLES
    return [(trained_flow(problem, seed, rate)[1], spent) for seed in SEEDS]


#: Method, first T, and the options that are tuned.
METHODS: dict[str, tuple[Callable[..., Samples], int, Grid]] = {
    "Gibbs": (gibbs, 1, {}),
    "GWG": (gwg, 8, {}),
    "DMALA": (langevin, 1, {"step_size": (0.3, 1.0)}),
    "tempering": (tempering, 1, {"n_replicas": (3, 8)}),
    "AIS": (annealing, 2, {"resample": (0.0,)}),
    "SMC": (annealing, 2, {"resample": (0.5,)}),
    "PMP": (messages, 1, {"damping": (0.0, 0.5)}),
    "flow": (flow, 4, {"rate": (2e-3, 6e-3)}),
}


def errors(problem: Problem, found: Samples) -> list[float]:
    """Errors of the energies (in standard deviations), pairs and log Z; ESS."""
    weighted = found.log_weights is not None
    log_w = found.log_weights.double().numpy() if weighted else np.zeros(len(found.x))
    weights = np.exp(log_w - log_w.max())
    log_mean = float(np.log(weights.mean()) + log_w.max())
    log_z = abs(log_mean - problem.log_partition) if weighted else math.nan
    shares = torch.from_numpy(weights / weights.sum())
    off = problem.averages(found.x, shares) - problem.means
    apart = problem.distance(found.x, log_w, shares)
    ess = weights.sum() ** 2 / (weights**2).sum() / len(weights)
    rmse = math.sqrt(float(np.mean(off**2)))
    return [apart, rmse, log_z, ess if weighted else math.nan]


def timed(run: Callable[[], Samples]) -> tuple[Samples, float]:
    """Return samples and their CPU seconds, the least of three runs if these are short.

    A first run finds the caches of the processor cold.
    """
    spent = []
    for _ in range(3):
        began = time.process_time()
        found = run()
        spent.append(time.process_time() - began)
        if spent[-1] >= REPEATED:
            break
    return found, min(spent)


def curve(problem: Problem, method: str, options: Options, seed: int) -> np.ndarray:
    """Errors of a method's runs on one seed."""
    run, n_steps, _ = METHODS[method]
    return errors_by_steps(problem, run, n_steps, options, seed)


def errors_by_steps(
    problem: Problem,
    run: Callable[..., Samples],
    n_steps: int,
    options: Options,
    seed: int,
) -> np.ndarray:
    """Errors of T = first, 2 first, ... steps, until the budget is spent."""
    run(problem, n_steps, make_generator(seed), **options)  # compiles, trains a flow
    rows, seconds = [], 0.0
    while seconds < BUDGET * problem.patience:
        found, seconds = timed(
            lambda n=n_steps: run(problem, n, make_generator(seed), **options)
        )
        rows.append([n_steps, seconds, found.evaluations, *errors(problem, found)])
        n_steps *= 2
    return np.array(rows)


def references(problem: Problem) -> dict[str, dict[str, float]]:
    """Median errors of sets of exact samples, and of bits with the exact means.

    The bits are independent, and have weights for log Z.
    """
    means = problem.bit_means.expand(N_SAMPLES, -1)
    found: dict[str, list[list[float]]] = {"exact": [], "independent bits": []}
    for seed in range(N_SETS):
        source = stream("references of the comparison", seed)
        found["exact"].append(problem.exact_errors(seed, source))
        x = bernoulli(means, generator=source)
        log_base = (x * means.log() + (1 - x) * (1 - means).log()).sum(1)
        log_w = -problem.energy(x).double() - log_base.double()
        plain, weighted = (errors(problem, Samples(x, 0, w)) for w in (None, log_w))
        found["independent bits"].append([*plain[:2], *weighted[2:]])
    return {
        kind: dict(
            zip(columns(problem)[3:], map(float, np.median(rows, 0)), strict=True)
        )
        for kind, rows in found.items()
    }


def study(name: str) -> None:
    """Tune and run every method on one problem, and store the curves."""
    problem = PROBLEMS[name]()
    shared.study(
        f"sampling {name}",
        {
            method: grid
            for method, (_, _, grid) in METHODS.items()
            if method != "PMP" or problem.pairwise is not None
        },
        partial(curve, problem),
        {
            "references": references(problem),
            "shown": problem.shown,
            "columns": columns(problem),
            "log Z": problem.log_partition,
            "n_sites": problem.energy.n_sites,
        },
        {
            "n_samples": N_SAMPLES,
            "budget": BUDGET * problem.patience,
            "n_train": N_TRAIN,
        },
        seeds=SEEDS,
        told=lambda method, options: {
            "training": training(problem, options["rate"])
            if options.get("rate")
            else []
        },
    )


if __name__ == "__main__":
    shared.command_line(__doc__, PROBLEMS, study)
