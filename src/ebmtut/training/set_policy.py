"""How a GFlowNet learns to pick independent sets of many graphs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut._gradients import with_gradients
from ebmtut.checks import Count, NonNegative, Probability, Range, check_range, checked
from ebmtut.energies import GraphBatch
from ebmtut.flows.graph_gflownet import SetPolicy, balance_variance, set_ways
from ebmtut.training.clock import CpuClock
from ebmtut.training.loop import TrainConfig, train

__all__ = ["SetPolicyTraining", "train_set_policy"]


class SetPolicyTraining(NamedTuple):
    """What training leaves behind.

    Attributes
    ----------
    policy
        Of averaged weights.
    losses
        Loss of every step.
    """

    policy: SetPolicy
    losses: np.ndarray
    cpu_seconds: float


@with_gradients
@checked
def train_set_policy(
    policy: SetPolicy,
    graphs: GraphBatch,
    inverse_temperature: NonNegative,
    optimizer: TrainConfig,
    *,
    generator: torch.Generator,
    n_graphs: Count = 8,
    n_copies: Annotated[int, Range(low=2)] = 8,
    explore: Probability = 0.05,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 200,
    identity: Mapping[str, Any] | None = None,
) -> SetPolicyTraining:
    """Train a policy towards trajectory balance on each graph.

    Every step samples trajectories on some of the graphs and reduces the variance of
    their log-imbalance.

    Parameters
    ----------
    inverse_temperature
        1/T: the target probability of k vertices is proportional to exp(k/T).
    n_graphs, n_copies, explore
        Graphs of a step, trajectories for each, and fraction of uniform moves.
    checkpoint, checkpoint_every, identity
        As in `ebmtut.training.train`.

    Raises
    ------
    DivergenceError
        If the loss is not finite; names the step.
    """
    check_range("n_graphs", n_graphs, low=1, high=len(graphs), integer=True)
    of_run = {"n_graphs": n_graphs, "n_copies": n_copies, "explore": explore}

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        device = graphs.adjacency.device
        order = torch.randperm(len(graphs), generator=generator, device=device)
        return order[:n_graphs]

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        part = graphs.select(x)
        ways = set_ways(energy, part, n_copies, generator=generator, explore=explore)
        return balance_variance(part, ways, inverse_temperature)

    clock = CpuClock()
    result = train(
        policy,
        loss,
        sample,
        optimizer,
        generator=generator,
        buffers={"cpu_seconds": clock.seconds},
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        identity=None if identity is None else {**identity, **of_run},
        on_step=clock.tick,
        label="GFlowNet",
    )
    assert isinstance(result.energy, SetPolicy)
    return SetPolicyTraining(result.energy, result.losses, float(clock.seconds))
