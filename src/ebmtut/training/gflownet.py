"""How a GFlowNet on bits learns to sample an energy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut._gradients import with_gradients
from ebmtut.checks import (
    Count,
    DivergenceError,
    Natural,
    Positive,
    Probability,
    checked,
)
from ebmtut.energies import EnergyFunction
from ebmtut.flows import BitsGFlowNet, forward_trajectories, trajectory_balance_loss
from ebmtut.random import check_generator
from ebmtut.training.resumable import ResumableLoop

__all__ = ["GFlowNetTraining", "train_gflownet"]


class GFlowNetTraining(NamedTuple):
    """What `train_gflownet` returns.

    Attributes
    ----------
    policy
        The policy that was given, trained.
    losses
        Loss of every step.
    """

    policy: BitsGFlowNet
    losses: Float[Tensor, " n_steps"]
    cpu_seconds: float


@with_gradients
@checked
def train_gflownet(
    policy: BitsGFlowNet,
    energy: EnergyFunction,
    n_steps: Natural,
    learning_rate: Positive,
    *,
    generator: torch.Generator,
    n_trajectories: Count = 128,
    explore: Probability = 0.05,
    checkpoint: str | Path | None = None,
    identity: Mapping[str, Any] | None = None,
) -> GFlowNetTraining:
    """Train a policy by trajectory balance on its own trajectories.

    Parameters
    ----------
    learning_rate
        Of Adam, with a cosine decay; log Z takes ten times as much.
    generator
        Source of all randomness, on the device of the policy.
    explore
        Fraction of the moves in training that are uniform.
    checkpoint, identity
        As of `ebmtut.training.ResumableLoop`.

    Raises
    ------
    DivergenceError
        If the loss is not finite; names the step.
    OutOfTime
        As in `ResumableLoop`.
    """
    check_generator(generator, policy.log_z.device)
    adam = adam_of_policy(policy, learning_rate)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, n_steps)
    held = {"losses": torch.zeros(n_steps, dtype=torch.float32, device="cpu")}
    loop = ResumableLoop(
        checkpoint,
        identity,
        {"policy": policy, "adam": adam, "rate": rate},
        generator=generator,
        held=held,
    )
    for step in loop.steps(n_steps):
        trajectories = forward_trajectories(
            policy, n_trajectories, generator=generator, explore=explore
        )
        loss = trajectory_balance_loss(policy, energy, trajectories)
        if not bool(loss.isfinite()):
            raise DivergenceError(f"the GFlowNet diverged at step {step}", step)
        adam.zero_grad()
        loss.backward()
        adam.step()
        rate.step()
        held["losses"][step] = loss.detach().cpu()
    return GFlowNetTraining(policy, held["losses"], loop.seconds)


def adam_of_policy(policy: BitsGFlowNet, learning_rate: float) -> torch.optim.Adam:
    """Make the optimiser of a policy, whose log Z learns ten times as fast."""
    return torch.optim.Adam(
        [
            {"params": policy.net.parameters(), "lr": learning_rate},
            {"params": [policy.log_z], "lr": 10 * learning_rate},
        ]
    )
