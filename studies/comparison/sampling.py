"""Samplers on the same energies at equal cost, compared with exact answers.

Every method returns 1,000 samples after T steps, T = 1, 2, 4, ... until a run takes the
budget of CPU seconds. Run: python -m studies.comparison.sampling [PROBLEM ...]
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ebmtut import flows
from ebmtut.data import random_graphs
from ebmtut.energies import (
    RBM,
    BoltzmannMachine,
    Energy,
    LatticeIsing,
    MaxIndependentSet,
    PairwiseGraph,
    lattice_adjacency,
)
from ebmtut.exact import (
    exact_log_partition,
    exact_probabilities,
    torus_correlations,
    torus_log_partition,
)
from ebmtut.experiments.comparison import spin_glass
from ebmtut.experiments.dnfs.lattices import (
    EnergyDistribution,
    distribution_distance,
    energy_distribution,
    pair_products,
)
from ebmtut.experiments.dnfs.recipes import CRITICAL
from ebmtut.experiments.experiment import stream
from ebmtut.message_passing import perturb_and_max_product
from ebmtut.paths import AnnealingPath
from ebmtut.random import bernoulli, make_generator
from ebmtut.samplers import (
    annealed_importance_sampling,
    boltzmann_gibbs,
    boltzmann_gwg,
    dmala,
    ising_gibbs,
    run_chain,
)
from ebmtut.states import enumerate_states
from ebmtut.training import FlowConfig, TrainConfig, train_flow
from studies.comparison.shared import SEEDS, Grid, command_line, padded, store, tuned

N_SAMPLES = 1000
#: CPU seconds after which no longer run is begun.
BUDGET = 0.3
#: Optimiser steps of a flow, and its batch.
N_TRAIN, BATCH = 200, 256
#: Columns of a curve. Evaluations are those of one sample, the energy as a black box.
COLUMNS = ("steps", "seconds", "evaluations", "energy", "pairs", "log Z")


@dataclass
class Problem:
    """An energy, and what is known exactly."""

    energy: Energy
    pairwise: BoltzmannMachine | PairwiseGraph
    distribution: EnergyDistribution
    log_partition: float
    #: Exact means of `statistics`.
    means: np.ndarray
    #: The error that the page draws: "energy" or "pairs".
    shown: str
    side: int = 0
    states: Tensor | None = None
    log_p: Tensor | None = None

    def statistics(self, x: Tensor) -> np.ndarray:
        """Correlations by distance on a lattice, else all products of two bits."""
        if self.side:
            return pair_products(x, self.side).double().numpy()
        upper = torch.triu_indices(x.shape[1], x.shape[1])
        return (x[:, upper[0]] * x[:, upper[1]]).double().numpy()

    def sweep(self, x: Tensor, t: float, *, generator: torch.Generator, n: int = 1):
        """Make compiled Gibbs sweeps at inverse temperature t of the path."""
        if self.side:
            lattice = LatticeIsing(self.side, t * self.energy.sigma)
            return ising_gibbs(lattice, x, n, generator=generator)
        dense = self.energy
        scaled = BoltzmannMachine(t * dense.weight.detach(), t * dense.bias.detach())
        return boltzmann_gibbs(scaled, x, n, generator=generator)


class Samples(NamedTuple):
    """Samples, their log-weights with log Z of the start, and evaluations of one."""

    x: Tensor
    evaluations: float
    log_weights: Tensor | None = None
    training: tuple[float, float] = (0.0, 0.0)


def lattice(sigma: float) -> Problem:
    """Ising lattice of 10 x 10 spins."""
    side = 10
    energy = LatticeIsing(side, sigma)
    edges = lattice_adjacency(side).triu().nonzero().T
    dense = BoltzmannMachine.from_ising(energy.to_dense(torch.float32))
    graph = PairwiseGraph(edges, dense.weight.detach()[edges[0], edges[1]], dense.bias)
    means = torus_correlations(side, side, 2 * sigma)[1:]
    return Problem(
        energy,
        graph,
        energy_distribution(side, sigma),
        torus_log_partition(side, side, 2 * sigma),
        means.numpy(),
        "energy",
        side,
    )


def enumerated(model: BoltzmannMachine, n_levels: int = 4000) -> Problem:
    """A dense model of few bits, all states of which are listed."""
    n = model.n_sites
    log_p = exact_probabilities(model, n)
    p = log_p.exp()
    states = enumerate_states(n, dtype=torch.float32)
    levels = -log_p - float(exact_log_partition(model, n))
    low, high = float(levels.min()), float(levels.max())
    bins = ((levels - low) / (high - low) * (n_levels - 1)).long()
    chances = torch.zeros(n_levels, dtype=torch.double).index_add_(0, bins, p)
    sums = torch.zeros(n_levels, dtype=torch.double).index_add_(0, bins, p * levels)
    filled = chances > 0
    distribution = EnergyDistribution(
        (sums / chances)[filled].numpy(), chances[filled].numpy()
    )
    second = states.T.double() @ (p[:, None] * states.double())
    upper = torch.triu_indices(n, n)
    return Problem(
        model,
        model,
        distribution,
        float(exact_log_partition(model, n)),
        second[upper[0], upper[1]].numpy(),
        "pairs",
        states=states,
        log_p=log_p,
    )


def glass(n: int = 18, strength: float = 3.0) -> Problem:
    """Dense spin glass, enumerated."""
    return enumerated(spin_glass(n, strength))


def independent_sets(n: int = 18, beta: float = 10.0) -> Problem:
    """Independent sets of one random graph, with the energy of chapter 5."""
    graphs = random_graphs("erdos-renyi", 1, n, n, generator=make_generator(0))
    sets = MaxIndependentSet(graphs, inverse_temperature=beta)
    weight = -beta * sets.penalty * graphs.adjacency[0]
    return enumerated(BoltzmannMachine(weight, torch.full((n,), beta)))


def rbm(side: int = 3, n_hidden: int = 8, n_steps: int = 1000) -> Problem:
    """RBM with its hidden bits, trained on bars and stripes by exact likelihood."""
    lines = enumerate_states(side, dtype=torch.float32)
    bars = lines[:, :, None].expand(-1, side, side)
    images = torch.cat([bars, bars.mT]).flatten(1).unique(dim=0)
    generator = make_generator(1)
    n = side**2
    weight = 0.5 * torch.randn(n_hidden, n, generator=generator)
    model = RBM(weight, torch.zeros(n_hidden), torch.zeros(n), learnable=True)
    states = enumerate_states(n, dtype=torch.float32)
    adam = torch.optim.Adam(model.parameters(), 0.05)
    for _ in range(n_steps):
        loss = model(images).mean() + torch.logsumexp(-model(states), 0)
        adam.zero_grad()
        loss.backward()
        adam.step()
    joint = torch.zeros(n + n_hidden, n + n_hidden)
    joint[n:, :n] = model.weight.detach()
    bias = torch.cat([model.visible_bias, model.hidden_bias]).detach()
    return enumerated(BoltzmannMachine(joint + joint.T, bias))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "lattice critical": lambda: lattice(CRITICAL),
    "spin glass": glass,
    "lattice 0.1": lambda: lattice(0.1),
    "lattice 0.3": lambda: lattice(0.3),
    "independent sets": independent_sets,
    "RBM": rbm,
}


def start(problem: Problem, n: int, generator: torch.Generator) -> Tensor:
    """Sample uniform bits."""
    return AnnealingPath(problem.energy).sample_start(n, generator=generator)


def gibbs(problem: Problem, n_steps: int, seed: int) -> Samples:
    """T sweeps."""
    generator = make_generator(seed)
    x = start(problem, N_SAMPLES, generator)
    x = problem.sweep(x, 1.0, generator=generator, n=n_steps)
    return Samples(x, n_steps * problem.energy.n_sites)


def gibbs_with_gradients(problem: Problem, n_steps: int, seed: int) -> Samples:
    """T moves of a single bit; an evaluation and a gradient for each."""
    generator = make_generator(seed)
    x = start(problem, N_SAMPLES, generator)
    model = problem.pairwise
    dense = model if isinstance(model, BoltzmannMachine) else model.dense()
    return Samples(boltzmann_gwg(dense, x, n_steps, generator=generator), 3 * n_steps)


def langevin(problem: Problem, n_steps: int, seed: int, step_size: float) -> Samples:
    """T steps of DMALA; an evaluation and a gradient for each."""
    generator = make_generator(seed)
    x = start(problem, N_SAMPLES, generator)
    sampler = dmala(problem.energy, step_size, ratios="exact")
    x = run_chain(sampler, x, n_steps, generator=generator).x_final
    return Samples(x, 3 * n_steps)


def tempering(problem: Problem, n_steps: int, seed: int, n_replicas: int) -> Samples:
    """T rounds of parallel tempering: a sweep at each temperature, then exchanges.

    Inverse temperatures are k / R of the target's. Neighbours exchange their states
    with probability min(1, exp((b_k - b_l)(E_k - E_l))), even and odd pairs in turn.
    """
    generator = make_generator(seed)
    n, n_sites = N_SAMPLES, problem.energy.n_sites
    x = start(problem, n_replicas * n, generator).view(n_replicas, n, n_sites)
    betas = torch.arange(1, n_replicas + 1) / n_replicas
    for step in range(n_steps):
        swept = [
            problem.sweep(y, float(b), generator=generator)
            for y, b in zip(x, betas, strict=True)
        ]
        x = torch.stack(swept)
        energies = problem.energy(x.flatten(0, 1)).view(n_replicas, n)
        low = torch.arange(step % 2, n_replicas - 1, 2)
        gain = (energies[low + 1] - energies[low]) / n_replicas
        swap = torch.rand(len(low), n, generator=generator).log() < gain
        pair = x[low], x[low + 1]
        x[low] = torch.where(swap[..., None], pair[1], pair[0])
        x[low + 1] = torch.where(swap[..., None], pair[0], pair[1])
    # The last move is a sweep, as in the other chains.
    x = problem.sweep(x[-1], 1.0, generator=generator)
    return Samples(x, n_replicas * n_steps * (n_sites + 1) + n_sites)


def annealing(
    problem: Problem, n_steps: int, seed: int, n_sweeps: int, resample: float
) -> Samples:
    """T temperatures of annealed importance sampling, or of sequential Monte Carlo."""
    path = AnnealingPath(problem.energy)

    def kernel(x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        return problem.sweep(x, t, generator=generator, n=n_sweeps)

    found = annealed_importance_sampling(
        path,
        kernel,
        N_SAMPLES,
        n_steps,
        generator=make_generator(seed),
        resample_below=resample,
    )
    evaluations = n_steps * (n_sweeps * problem.energy.n_sites + 1)
    return Samples(found.x, evaluations, found.log_weights + path.log_partition_start)


def messages(problem: Problem, n_steps: int, seed: int, damping: float) -> Samples:
    """T sweeps of perturb-and-max-product, which a black box does not permit."""
    x = perturb_and_max_product(
        problem.pairwise,
        N_SAMPLES,
        n_steps,
        damping=damping,
        generator=make_generator(seed),
    )
    return Samples(x, math.nan)


@cache
def trained_flow(name: str, seed: int, rate: float) -> tuple[Any, float]:
    """Train a flow with Gibbs sweeps in its rollouts; rate 0 is the untrained one."""
    problem, generator = PROBLEMS_READY[name], make_generator(seed)
    n_sites = problem.energy.n_sites
    network: torch.nn.Module = (
        flows.OddLatticeNetwork(
            problem.side, n_hidden=32, width=32, generator=generator
        )
        if problem.side
        else flows.HollowMLP(n_sites, width=32, generator=generator)
    )
    flow = flows.Flow(AnnealingPath(problem.energy), network, rates="reversible")
    if not rate:
        return flow, 0.0
    found = train_flow(
        flow,
        FlowConfig(n_time_steps=32),
        TrainConfig(
            N_TRAIN, BATCH, rate, n_warmup=50, clip_norm=1.0, precision="float32"
        ),
        generator=generator,
        refine=problem.sweep,
    )
    return found.flow, found.cpu_seconds


#: Problems by name, made once.
PROBLEMS_READY: dict[str, Problem] = {}


def flow(problem: Problem, n_steps: int, seed: int, rate: float) -> Samples:
    """T time steps of a flow; the log-ratios of all neighbours, and the network."""
    name = next(k for k, v in PROBLEMS_READY.items() if v is problem)
    trained, seconds = trained_flow(name, seed, rate)
    found = flows.simulate(trained, N_SAMPLES, n_steps, generator=make_generator(seed))
    per_step = problem.energy.n_sites + 2
    start_log_z = trained.path.log_partition_start
    # Training: 3 rollouts of 128 x 33 states with sweeps; a gradient counts twice more.
    n_states = -(-N_TRAIN // 100) * 128 * 33 * 2 + N_TRAIN * BATCH * 3
    spent = n_states * per_step / N_SAMPLES if rate else 0.0
    return Samples(
        found.x, n_steps * per_step, found.log_weights + start_log_z, (seconds, spent)
    )


#: Method, first T, and the options that are tuned.
METHODS: dict[str, tuple[Callable[..., Samples], int, Grid]] = {
    "Gibbs": (gibbs, 1, {}),
    "GWG": (gibbs_with_gradients, 8, {}),
    "DMALA": (langevin, 1, {"step_size": (0.3, 1.0)}),
    "tempering": (tempering, 1, {"n_replicas": (3, 8)}),
    "AIS": (annealing, 2, {"n_sweeps": (1,), "resample": (0.0,)}),
    "SMC": (annealing, 2, {"n_sweeps": (1,), "resample": (0.5,)}),
    "PMP": (messages, 1, {"damping": (0.0, 0.5)}),
    "flow": (flow, 4, {"rate": (2e-3, 6e-3)}),
    "untrained flow": (flow, 4, {"rate": (0.0,)}),
}
LONGEST = 4096


def errors(problem: Problem, found: Samples) -> list[float]:
    """Error of the energy distribution (in standard deviations), of pairs, of log Z."""
    levels, chances = problem.distribution
    spread = math.sqrt(chances @ levels**2 - (chances @ levels) ** 2)
    energies = problem.energy(found.x).double().numpy()
    log_w, log_z = None, math.nan
    weights = np.full(len(energies), 1 / len(energies))
    if found.log_weights is not None:
        log_w = found.log_weights.double().numpy()
        weights = np.exp(log_w - log_w.max())
        log_z = float(np.log(weights.mean()) + log_w.max()) - problem.log_partition
        weights = weights / weights.sum()
    distance = distribution_distance(energies, problem.distribution, log_w) / spread
    off = weights @ problem.statistics(found.x) - problem.means
    return [distance, math.sqrt(float(np.mean(off**2))), abs(log_z)]


def curve(problem: Problem, method: str, options: dict[str, Any], seed: int):
    """Errors of T = first, 2 first, ... steps, until the budget is spent."""
    run, n_steps, _ = METHODS[method]
    run(problem, n_steps, seed, **options)  # compiles, and trains a flow
    rows, seconds = [], 0.0
    while seconds < BUDGET and n_steps <= LONGEST * (8 if method == "GWG" else 1):
        began = time.process_time()
        found = run(problem, n_steps, seed, **options)
        seconds = time.process_time() - began
        rows.append([n_steps, seconds, found.evaluations, *errors(problem, found)])
        n_steps *= 2
    return np.array(rows), found.training


def exact_samples(problem: Problem, seed: int) -> Tensor | None:
    """Independent samples, where all states are listed."""
    if problem.log_p is None or problem.states is None:
        return None
    p = problem.log_p.exp().numpy()
    places = np.random.default_rng(seed).random(N_SAMPLES) * p.sum()
    index = np.searchsorted(p.cumsum(), places).clip(max=len(p) - 1)
    return problem.states[torch.from_numpy(index)]


def references(problem: Problem) -> dict[str, dict[str, float | None]]:
    """Mean errors of exact samples, and of independent bits with the exact means."""
    n = problem.energy.n_sites
    means = torch.full((n,), 0.5)
    if problem.states is not None and problem.log_p is not None:
        means = (problem.log_p.exp() @ problem.states.double()).float()
    levels, chances = problem.distribution
    rows: dict[str, list[list[float]]] = {"exact": [], "independent bits": []}
    for seed in range(20):
        generator = stream("references of the comparison", seed)
        exact = exact_samples(problem, seed)
        if exact is None:  # of the lattice only the energy distribution is known
            pick = torch.multinomial(
                torch.from_numpy(chances), N_SAMPLES, True, generator=generator
            )
            spread = math.sqrt(chances @ levels**2 - (chances @ levels) ** 2)
            off = distribution_distance(levels[pick], problem.distribution) / spread
            rows["exact"].append([off, math.nan, math.nan])
        else:
            rows["exact"].append(errors(problem, Samples(exact, 0)))
        x = bernoulli(means.expand(N_SAMPLES, n), generator=generator)
        log_base = (x * means.log() + (1 - x) * (1 - means).log()).sum(1)
        log_w = -problem.energy(x).double() - log_base.double()
        plain, weighted = (errors(problem, Samples(x, 0, w)) for w in (None, log_w))
        rows["independent bits"].append([*plain[:2], weighted[2]])
    return {
        kind: {
            name: None if math.isnan(value) else float(value)
            for name, value in zip(COLUMNS[3:], np.mean(found, 0), strict=True)
        }
        for kind, found in rows.items()
    }


def study(name: str, **store_options: Any) -> None:
    """Tune and run every method on one problem, and store the curves."""
    began = time.time()
    problem = PROBLEMS_READY[name] = PROBLEMS[name]()
    column = COLUMNS.index(problem.shown)
    arrays, table = {}, {}
    for method, (_, _, grid) in METHODS.items():
        options, tried = tuned(
            lambda o, s, m=method: curve(problem, m, o, s)[0], grid, column
        )
        runs = [curve(problem, method, options, seed) for seed in SEEDS]
        arrays[method] = padded([rows for rows, _ in runs])
        table[method] = {"options": options, "tried": tried}
        table[method]["training"] = [training for _, training in runs]
        last = arrays[method][:, :, [1, column]]
        print(name, method, options, last[0, -1].tolist(), runs[0][1], flush=True)
    scalars = {"methods": table, "references": references(problem)}
    scalars |= {"shown": problem.shown, "columns": COLUMNS}
    scalars |= {"log Z": problem.log_partition, "n_sites": problem.energy.n_sites}
    config = {"n_samples": N_SAMPLES, "budget": BUDGET, "n_train": N_TRAIN}
    store(f"sampling {name}", config, scalars, arrays, began, **store_options)


if __name__ == "__main__":
    command_line(__doc__, PROBLEMS, study)
