"""A GFlowNet on bits that learns one energy by trajectory balance.

Source: Malkin et al., "Trajectory balance" (2022), a rival in Figures 4 and 5 of Ou,
Zhang and Li (2025).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ebmtut.energies import Energy
from ebmtut.flows import (
    BitsGFlowNet,
    forward_trajectories,
    trajectory_balance_loss,
)
from ebmtut.random import make_generator
from ebmtut.training import ResumableLoop


def balanced_policy(
    energy: Energy,
    n_steps: int,
    learning_rate: float,
    *,
    seed: int,
    identity: Mapping[str, Any],
    log_z: float = 0.0,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> tuple[BitsGFlowNet, list[float], float]:
    """Train by trajectory balance on 128 paths a step, log Z at ten times the rate."""
    policy = BitsGFlowNet(energy.n_sites, 128, generator=make_generator(seed))
    policy.log_z.data.fill_(log_z)
    policy = policy.to(device)
    generator = make_generator(seed, device)
    adam = torch.optim.Adam(
        [
            {"params": policy.net.parameters(), "lr": learning_rate},
            {"params": [policy.log_z], "lr": 10 * learning_rate},
        ]
    )
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, n_steps)
    held = {"losses": torch.zeros(n_steps)}
    loop = ResumableLoop(
        checkpoint,
        {"method": "GFlowNet", "seed": seed, **identity},
        {"policy": policy, "adam": adam, "rate": rate},
        generator=generator,
        held=held,
    )
    for k in loop.steps(n_steps):
        ways = forward_trajectories(policy, 128, generator=generator, explore=0.05)
        loss = trajectory_balance_loss(policy, energy, ways)
        adam.zero_grad()
        loss.backward()
        adam.step()
        rate.step()
        held["losses"][k] = loss.detach().cpu()
    return policy, held["losses"].tolist(), loop.seconds
