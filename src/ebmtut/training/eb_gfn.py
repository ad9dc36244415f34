"""EB-GFN: an energy and a GFlowNet that learn together (Zhang et al., 2022).

The GFlowNet is fitted to the energy by trajectory balance, on its own trajectories and
on backward trajectories from data. The energy is trained by contrastive divergence: the
GFlowNet proposes another state, which a Metropolis-Hastings step accepts or rejects.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut._gradients import with_gradients
from ebmtut.checks import (
    Count,
    DivergenceError,
    Positive,
    Probability,
    check_range,
    checked,
)
from ebmtut.flows import (
    BitsGFlowNet,
    back_and_forth,
    backward_trajectories,
    forward_trajectories,
    trajectory_balance_loss,
)
from ebmtut.random import check_generator
from ebmtut.training.averaging import average_weights
from ebmtut.training.gflownet import adam_of_policy
from ebmtut.training.resumable import ResumableLoop

__all__ = ["EBGFNConfig", "EBGFNTraining", "train_eb_gfn"]

#: Decay per step of the moving average of the energy's weights.
_AVERAGING = 0.99


@checked
@dataclass(frozen=True)
class EBGFNConfig:
    """How an energy and a GFlowNet learn together.

    Parameters
    ----------
    n_steps, n_samples
        Steps of the energy, and data of each.
    n_ways
        Trajectories of a step of the GFlowNet, half from data; None takes `n_samples`.
    n_back
        Sites that a proposal blanks, K; None lets it grow from one to all over the run.
    n_policy_steps, n_last
        GFlowNet steps for each of the energy, and alone at the end.
    explore
        Fraction of the GFlowNet's moves that are uniform in training.
    learning_rate, energy_learning_rate
        Of Adam, the energy's with a cosine decay; log Z takes ten times the first.
    """

    n_steps: Count = 1000
    n_samples: Count = 256
    n_ways: Count | None = None
    n_back: Count | None = None
    n_policy_steps: Count = 2
    n_last: Count = 500
    explore: Probability = 0.05
    learning_rate: Positive = 3e-3
    energy_learning_rate: Positive = 2e-2


class EBGFNTraining(NamedTuple):
    """What `train_eb_gfn` returns.

    Attributes
    ----------
    energy
        A copy of the energy with averaged weights.
    accepted
        Fraction of accepted proposals, at every step of the energy.
    """

    energy: nn.Module
    accepted: Float[Tensor, " n_steps"]
    cpu_seconds: float


@with_gradients
@checked
def train_eb_gfn(
    energy: nn.Module,
    policy: BitsGFlowNet,
    sample: Callable[..., Tensor],
    config: EBGFNConfig,
    *,
    generator: torch.Generator,
    penalty: Callable[[nn.Module], Tensor] | None = None,
    checkpoint: str | Path | None = None,
    identity: Mapping[str, Any] | None = None,
) -> EBGFNTraining:
    """Let an energy and a GFlowNet learn from data.

    Parameters
    ----------
    sample
        ``sample(n, generator=generator) -> x``, the data.
    generator
        Source of all randomness, on the device of both.
    penalty
        ``penalty(energy) -> scalar``, added to the energy's loss.
    checkpoint, identity
        As of `ebmtut.training.ResumableLoop`.

    Raises
    ------
    DivergenceError
        If a loss is not finite; names the step.
    OutOfTime
        As in `ResumableLoop`.
    """
    device = policy.log_z.device
    check_generator(generator, device)
    if config.n_back is not None:
        n_sites = policy.n_sites
        check_range("n_back", config.n_back, low=1, high=n_sites, integer=True)
    averaged = copy.deepcopy(energy)
    weights = [*averaged.parameters()], [*energy.parameters()]
    adam = torch.optim.Adam(energy.parameters(), config.energy_learning_rate)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, config.n_steps)
    policy_adam = adam_of_policy(policy, config.learning_rate)

    def follow(target: nn.Module, step: int) -> None:
        n = max(1, (config.n_ways or config.n_samples) // 2)
        own = forward_trajectories(
            policy, n, generator=generator, explore=config.explore
        )
        x = sample(n, generator=generator)
        given = backward_trajectories(policy, x, generator=generator)
        loss = trajectory_balance_loss(policy, target, own)
        loss = loss + trajectory_balance_loss(policy, target, given)
        if not bool(loss.isfinite()):
            raise DivergenceError(f"the GFlowNet diverged at step {step}", step)
        policy_adam.zero_grad()
        loss.backward()
        policy_adam.step()

    last = torch.optim.lr_scheduler.CosineAnnealingLR(policy_adam, config.n_last)
    held = {"accepted": torch.zeros(config.n_steps, device=device, dtype=torch.float32)}
    parts: dict[str, Any] = {
        "energy": energy,
        "averaged": averaged,
        "adam": adam,
        "rate": rate,
        "policy": policy,
        "policy adam": policy_adam,
        "last": last,
    }
    loop = ResumableLoop(
        checkpoint,
        None if identity is None else {**identity, **asdict(config)},
        parts,
        generator=generator,
        held=held,
    )
    for step in loop.steps(config.n_steps):
        for _ in range(config.n_policy_steps):
            follow(energy, step)
        x = sample(config.n_samples, generator=generator)
        k = config.n_back or -(-policy.n_sites * (step + 1) // config.n_steps)
        y, taken = back_and_forth(policy, energy, x, k, generator=generator)
        held["accepted"][step] = taken.float().mean()
        loss = energy(x).mean() - energy(y).mean()
        if penalty is not None:
            loss = loss + penalty(energy)
        if not bool(loss.isfinite()):
            raise DivergenceError(f"the energy diverged at step {step}", step)
        adam.zero_grad()
        loss.backward()
        adam.step()
        rate.step()
        average_weights(*weights, step, _AVERAGING)
    for step in loop.steps(config.n_last):
        follow(averaged, config.n_steps + step)
        last.step()
    return EBGFNTraining(averaged, held["accepted"].cpu(), loop.seconds)
