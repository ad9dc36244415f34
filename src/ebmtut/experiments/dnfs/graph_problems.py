"""Rows dnfs/max-independent-set and dnfs/max-cut: one flow for many graphs.

A flow is trained on random graphs of one size and evaluated on others, whose optimum
is known, beside annealed chains, which learn nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ebmtut.checks import Count, InputError, Natural, OneOf, check_range, checked
from ebmtut.data import GRAPH_SIZES, random_graphs
from ebmtut.energies import GraphBatch, GraphEnergy, MaxCut, MaxIndependentSet
from ebmtut.exact import maximum_cuts, maximum_independent_sets
from ebmtut.experiments.dnfs.graph_reports import check_shares, draw_shares, refined
from ebmtut.experiments.experiment import Experiment
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.streams import stream_seed
from ebmtut.flows import (
    GraphFlowNetwork,
    GraphWeights,
    HollowGraphTransformer,
    SetPolicy,
    dmala_kernel,
    simulate,
)
from ebmtut.flows.graph_gflownet import set_ways
from ebmtut.random import generator_on, make_generator
from ebmtut.samplers import (
    anneal,
    dmala,
    greedy_independent_set,
    repair_independent_set,
    vertex_gibbs,
)
from ebmtut.states import enumerate_states
from ebmtut.training import TrainConfig, train_set_policy
from ebmtut.training.graph_flow import GraphFlowConfig, flow_on, train_graph_flow

#: Graph family of each problem.
FAMILIES = {
    "max-independent-set": "erdos-renyi",
    "max-cut": "barabasi-albert",
}


# Test graphs are the same for all seeds: the seeds are those of learning and chance.
_TEST_SEED = 2025


_LISTED_VERTICES = 20


#: Trained at one temperature where the flow has a falling one, or the reverse.
OTHER_TEMPERATURE = "other temperature"


#: Steps of the message network in the time of one step of another learner, by size of
#: the graphs; fixed numbers, since steps that follow a clock could not be repeated.
PACE = {
    OTHER_TEMPERATURE: {"16-20": 1.0, "32-40": 1.0, "64-75": 1.0},
    "leGF": {"16-20": 4.5, "32-40": 10.0, "64-75": 13.0},
    "GFlowNet": {"16-20": 4.0, "32-40": 7.0, "64-75": 7.0},
}


OTHERS = tuple(PACE)


@checked
@dataclass(frozen=True)
class GraphProblemConfig:
    """How a flow is trained and evaluated on random graphs."""

    problem: Annotated[str, OneOf(FAMILIES)] = "max-independent-set"
    sizes: tuple[Annotated[str, OneOf(GRAPH_SIZES)], ...] = tuple(GRAPH_SIZES)
    n_train: Count = 1000
    n_test: Count = 100
    #: Samples for each test graph.
    n_copies: Count = 4
    #: At the path's end.
    inverse_temperature: float = 5.0
    #: Of the flow; also temperatures of the annealing.
    n_time_steps: Count = 64
    #: DMALA steps after each step of the flow.
    refinements: tuple[Natural, ...] = (0, 1, 3, 5)
    step_size: float = 0.3
    width: int = 32
    #: Of leGF in place of the message network, or 0.
    n_layers: Natural = 0
    rollout: GraphFlowConfig = field(
        default_factory=lambda: GraphFlowConfig(anneal=0.5)
    )
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(
            n_steps=600,
            learning_rate=3e-3,
            clip_norm=1.0,
            ema_decay=0.98,
            precision="float32",
        )
    )
    #: Other learners, each trained about as long as the message network.
    rivals: tuple[Annotated[str, OneOf(OTHERS)], ...] = ()
    rival_sizes: tuple[Annotated[str, OneOf(GRAPH_SIZES)], ...] = tuple(GRAPH_SIZES)
    #: Runs of each size, in the order of `sizes`.
    n_seeds: tuple[Count, ...] = (3, 2, 1)

    def __post_init__(self) -> None:
        if "GFlowNet" in self.rivals and self.problem != "max-independent-set":
            raise InputError(
                "rivals must be without GFlowNet, which only knows independent sets, "
                f"where the problem is {self.problem}"
            )
        check_range("n_seeds", len(self.n_seeds), low=len(self.sizes))


def cells(config: GraphProblemConfig) -> Mapping[str, Mapping[str, Any]]:
    """Name an entry for every size."""
    alone = replace(config, sizes=(), n_seeds=())
    return {size: {"size": size, "config": alone} for size in config.sizes}


def n_seeds(config: GraphProblemConfig, names: tuple[str, ...]) -> int:
    """Return how often a size is run: the largest cost the most."""
    return config.n_seeds[config.sizes.index(names[-1])]


def problem_on(config: GraphProblemConfig, graphs: GraphBatch) -> GraphEnergy:
    """Return the problem's energy at the path's end."""
    beta = config.inverse_temperature
    if config.problem == "max-cut":
        return MaxCut(graphs, inverse_temperature=beta)
    return MaxIndependentSet(graphs, inverse_temperature=beta)


def graphs_of(config: GraphProblemConfig, size: str, n: int, seed: int) -> GraphBatch:
    """Draw graphs of one size."""
    low, high = GRAPH_SIZES[size]
    generator = make_generator(seed)
    return random_graphs(FAMILIES[config.problem], n, low, high, generator=generator)


class Learned(NamedTuple):
    """What was learned, the loss of every step, and the CPU seconds that it took."""

    weights: GraphWeights | SetPolicy
    losses: np.ndarray
    cpu_seconds: float


def fresh_network(width: int, n_layers: int, seed: int) -> GraphWeights:
    """Make an untrained message network, or leGF if it has layers."""
    generator = make_generator(seed)
    if n_layers:
        return HollowGraphTransformer(
            width=width, n_layers=n_layers, generator=generator
        )
    return GraphFlowNetwork(width=width, generator=generator)


def learn(
    name: str,
    problem: GraphEnergy,
    *,
    size: str,
    width: int,
    rollout: GraphFlowConfig,
    optimizer: TrainConfig,
    seed: int,
    checkpoint: Path | None,
    identity: Mapping[str, Any],
    n_layers: int = 0,
) -> Learned:
    """Train one learner on the graphs of a problem."""
    generator = make_generator(seed)
    device = problem.graphs.adjacency.device
    if name:
        n_steps = max(1, round(optimizer.n_steps / PACE[name][size]))
        n_warmup = min(optimizer.n_warmup, n_steps // 5)
        if n_steps < optimizer.n_steps:
            optimizer = replace(optimizer, n_steps=n_steps, n_warmup=n_warmup)
        if checkpoint is not None:
            file = f"{checkpoint.stem}-{name.replace(' ', '-')}{checkpoint.suffix}"
            checkpoint = checkpoint.with_name(file)
    kept: dict[str, Any] = {
        "checkpoint": checkpoint,
        "identity": {**identity, "learner": name},
    }
    if name == "GFlowNet":
        policy = SetPolicy(width=width, generator=generator)
        found = train_set_policy(
            policy.to(device),
            problem.graphs,
            problem.inverse_temperature,
            optimizer,
            generator=generator_on(generator, device),
            **kept,
        )
        return Learned(found.policy, found.losses, found.cpu_seconds)
    if name == OTHER_TEMPERATURE:
        rollout = replace(rollout, anneal=0.0 if rollout.anneal else 0.5)
    weights: GraphWeights
    if name == "leGF":
        weights = HollowGraphTransformer(width=width, n_layers=1, generator=generator)
    else:
        weights = fresh_network(width, n_layers, seed)
    trained = train_graph_flow(
        weights.to(device),
        problem,
        rollout,
        optimizer,
        generator=generator_on(generator, device),
        **kept,
    )
    return Learned(trained.weights, trained.losses, trained.cpu_seconds)


class Judge:
    """Scores of methods on the same graphs, of one sample and of the best of each."""

    def __init__(
        self,
        problem: GraphEnergy,
        *,
        n_copies: int,
        n_time_steps: int,
        step_size: float,
        generator: torch.Generator,
    ) -> None:
        self.problem = problem
        self.graphs = problem.graphs
        self.n_copies = n_copies
        self.n_time_steps = n_time_steps
        self.step_size = step_size
        self.generator = generator
        self.scalars: dict[str, float] = {}

    def record(self, name: str, draw: Callable[[], Tensor]) -> None:
        """Draw samples and keep their score, that of the best, and CPU seconds."""
        start = time.thread_time()
        x = draw()
        if isinstance(self.problem, MaxIndependentSet):
            x = repair_independent_set(self.graphs, x)
        seconds = time.thread_time() - start
        score = self.problem.score(x).unflatten(0, (len(self.graphs), -1))
        self.scalars[name] = float(score.mean())
        self.scalars[f"{name}: best"] = float(score.amax(1).mean())
        self.scalars[f"{name}: CPU seconds"] = seconds

    def coins(self) -> Tensor:
        """Uniform random bits for all states."""
        shape = self.n_states, self.graphs.n_sites
        device = self.generator.device
        return torch.randint(2, shape, generator=self.generator, device=device).float()

    @property
    def n_states(self) -> int:
        """States of all graphs."""
        return len(self.graphs) * self.n_copies

    def flow(self, name: str, weights: GraphWeights, n_refine: int) -> None:
        """Follow the flow, with DMALA steps after each of its steps."""
        flow = flow_on(weights, self.problem)
        kernel = None
        if n_refine:
            kernel = dmala_kernel(flow.path, self.step_size, n_refine)

        def draw() -> Tensor:
            return simulate(
                flow,
                self.n_states,
                self.n_time_steps,
                generator=self.generator,
                refine=kernel,
            ).x

        self.record(name, draw)

    def chain(self, name: str, n_refine: int, *, langevin: bool) -> None:
        """Anneal chains; DMALA evaluates the ratios as often as the flow does."""
        n_times = self.n_time_steps // (1 if n_refine else 2)

        def kernel(beta: float) -> Any:
            energy = self.problem.at(beta)
            if langevin:
                return dmala(energy, self.step_size, "exact")
            return vertex_gibbs(energy)

        def draw() -> Tensor:
            top = self.problem.inverse_temperature
            betas = [top * (k + 1) / n_times for k in range(n_times)]
            return anneal(
                kernel,
                self.coins(),
                betas,
                generator=self.generator,
                n_steps=n_refine + 1,
            )

        self.record(name, draw)

    def gflownet(self, name: str, policy: SetPolicy) -> None:
        """Add vertices as a policy says, until none is free."""

        @torch.no_grad()
        def draw() -> Tensor:
            n = self.n_copies
            return set_ways(policy, self.graphs, n, generator=self.generator).x

        self.record(name, draw)

    def greedy(self) -> None:
        """Add vertices in random order; for cuts, one sweep that only improves."""

        def draw() -> Tensor:
            n = self.n_copies
            if isinstance(self.problem, MaxIndependentSet):
                return greedy_independent_set(self.graphs, n, generator=self.generator)
            frozen = vertex_gibbs(self.problem.at(1e6))
            return anneal(
                lambda _: frozen, self.coins(), [0.0], generator=self.generator
            )

        self.record("greedy", draw)


def graph_job(
    size: str,
    config: GraphProblemConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Train on graphs of one size, and evaluate every method on others."""
    problem, judged_on = (
        problem_on(config, graphs_of(config, size, n, of).to(device))
        for n, of in (
            (config.n_train, stream_seed("training graphs", seed)),
            (config.n_test, _TEST_SEED),
        )
    )
    how: dict[str, Any] = {
        "size": size,
        "width": config.width,
        "rollout": config.rollout,
        "optimizer": config.train,
        "seed": seed,
        "checkpoint": checkpoint,
        "identity": {
            "problem": config.problem,
            "size": size,
            "n_train": config.n_train,
            "inverse_temperature": config.inverse_temperature,
            "width": config.width,
            "seed": seed,
        },
    }
    untrained = fresh_network(config.width, config.n_layers, seed).to(device)
    ours = learn("", problem, n_layers=config.n_layers, **how)
    assert isinstance(ours.weights, GraphWeights)
    rivals = config.rivals if size in config.rival_sizes else ()
    learned = {name: learn(name, problem, **how) for name in rivals}
    judged = Judge(
        judged_on,
        n_copies=config.n_copies,
        n_time_steps=config.n_time_steps,
        step_size=config.step_size,
        generator=make_generator(seed + 1, device),
    )
    most = max(config.refinements)
    judged.scalars["training: CPU seconds"] = ours.cpu_seconds
    for steps in {0, most}:
        judged.flow(refined("untrained DNFS", steps), untrained, steps)
    judged.greedy()
    for steps in config.refinements:
        judged.flow(refined("DNFS", steps), ours.weights, steps)
        judged.chain(f"DMALA {steps}", steps, langevin=True)
        judged.chain(f"Gibbs {steps}", steps, langevin=False)
    for name, rival in learned.items():
        judged.scalars[f"training of {name}: CPU seconds"] = rival.cpu_seconds
        if isinstance(rival.weights, SetPolicy):
            judged.gflownet(name, rival.weights)
            continue
        judged.flow(name, rival.weights, 0)
        if name == OTHER_TEMPERATURE:
            judged.flow(refined(name, most), rival.weights, most)
    return Outcome(judged.scalars, {"losses": ours.losses})


def optima(config: GraphProblemConfig, seed: int) -> Outcome:
    """Solve every test graph; score exact samples where all states can be listed."""
    solve = maximum_cuts if config.problem == "max-cut" else maximum_independent_sets
    best, distribution = {}, {}
    for size in config.sizes:
        graphs = graphs_of(config, size, config.n_test, _TEST_SEED)
        best[size] = float(solve(graphs, time_limit=3600).value.mean())
        if graphs.n_sites <= _LISTED_VERTICES:
            distribution[size] = float(
                np.mean(exact_scores(problem_on(config, graphs)))
            )
    return Outcome({"optimum": best, "exact law": distribution})


def exact_scores(problem: GraphEnergy) -> list[float]:
    """Mean score of exact samples of each graph, repaired like all others."""
    means = []
    for number in range(len(problem.graphs)):
        one = problem.of(problem.graphs.select(torch.tensor([number])))
        x = enumerate_states(one.n_sites, dtype=torch.float32)
        p = (-one(x)).double().softmax(0)
        # Rarer states weigh less than 1e-4 together.
        x, p = x[p > 1e-10], p[p > 1e-10]
        if isinstance(one, MaxIndependentSet):
            x = repair_independent_set(one.graphs, x)
        means.append(float(p @ one.score(x).double() / p.sum()))
    return means


def graph_row(
    problem: str, title: str, *, prefix: str, table: str
) -> Experiment[GraphProblemConfig]:
    """Declare the row of a problem."""
    # As many answers a graph as the program of Zhang et al. (2023) draws, which also
    # prints their mean and the best; the paper's text follows their set-up.
    full = GraphProblemConfig(
        problem=problem, n_copies=20, rivals=(OTHER_TEMPERATURE, "leGF")
    )
    if problem == "max-independent-set":
        # Table 6 has all numbers of refinements. On graphs kept for that, four times
        # as many steps (of half the states: as good) bring the flow above DMALA; for
        # cuts they bring nothing. Of the last 1/T from 5 to 25 and the step sizes
        # from 0.2 to 2 that were tried, none serves DMALA alone better than these by
        # more than the noise; for cuts none does than the paper's 5, and 0.3.
        full = replace(
            full,
            rivals=OTHERS,
            refinements=(0, 1, 2, 3, 4, 5),
            inverse_temperature=10.0,
            step_size=0.45,
            rollout=GraphFlowConfig(n_copies=8, anneal=0.5),
            train=replace(full.train, n_steps=2400),
        )
    quick = replace(
        full,
        sizes=("16-20",),
        n_train=100,
        n_test=8,
        n_copies=16,
        refinements=(0, 1, 3),
        train=replace(full.train, n_steps=200),
        n_seeds=(1,),
    )
    # Appendix E.3: leGF of five layers of 256, a rate of 0.0001, batches of 256, 1000
    # graphs to learn from and 100 to be judged by, 1/T from 0.1 to 5. It prints neither
    # how many steps it takes nor how fast 1/T rises: ours, as are the rates, the loss,
    # Gibbs sweeps in the rollouts and 64 steps of time.
    paper = replace(
        full,
        rivals=(),
        inverse_temperature=5.0,
        step_size=0.3,
        width=256,
        n_layers=5,
        rollout=GraphFlowConfig(anneal=0.5),
        train=replace(full.train, n_steps=100_000, learning_rate=1e-4),
        n_seeds=(1, 1, 1),
    )
    return Experiment(
        id=f"dnfs/{problem}",
        title=title,
        presets={"quick": quick, "full": full, "paper": paper},
        cells=cells,
        job=graph_job,
        n_seeds=n_seeds,
        arrays={"losses": "losses/{cell}"},
        stack=True,
        devices=("cpu", "cuda"),
        extras=optima,
        figure=draw_shares,
        check=partial(check_shares, prefix=prefix, table=table),
    )
