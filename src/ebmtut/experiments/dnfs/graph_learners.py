"""What the rows of graph problems train: our flow, and others in as much time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ebmtut.energies import GraphEnergy
from ebmtut.flows import (
    GraphFlowNetwork,
    GraphWeights,
    HollowGraphTransformer,
    SetPolicy,
)
from ebmtut.random import generator_on, make_generator
from ebmtut.training import TrainConfig, train_set_policy
from ebmtut.training.graph_flow import GraphFlowConfig, train_graph_flow

#: The paper anneals the temperature while it trains; the rows have both.
OTHER_TEMPERATURE = "other temperature"
#: Steps of our messages in the time of one step of another learner, by size of the
#: graphs: rounded from CPU seconds of both on one core, for sets; tables show what it
#: came to. Written down, since steps that follow a clock could not be repeated.
PACE = {
    OTHER_TEMPERATURE: {"16-20": 1.0, "32-40": 1.0, "64-75": 1.0},
    "leGF": {"16-20": 4.5, "32-40": 10.0, "64-75": 13.0},
    "GFlowNet": {"16-20": 4.0, "32-40": 7.0, "64-75": 7.0},
}
OTHERS = tuple(PACE)


class Learned(NamedTuple):
    """What was learned, the loss of every step, and the CPU seconds that it took."""

    weights: GraphWeights | SetPolicy
    losses: np.ndarray
    cpu_seconds: float


def fresh_network(width: int, n_layers: int, seed: int) -> GraphWeights:
    """Make our network, or leGF of so many layers where they are not 0, untrained."""
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
