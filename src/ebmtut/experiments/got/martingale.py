"""Theorem A.2 by simulation: tails of the martingale beside their bounds."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ebmtut.transport import Martingale

__all__ = ["K_LARGEST", "tails"]

K_LARGEST = 3.0  # of the tails, in units of the root of the sum of a_n^2


def tails(
    martingale: Martingale, schedule: Tensor, n_largest: int, epsilon: float
) -> dict[str, np.ndarray]:
    """Tail probabilities of r^2N - r^1 beside Eqs. 25 and 26.

    The theorem takes its a_n as fixed beforehand. Ours are the largest
    C^n T^(n) of all simulated chains, the smallest that (25) allows.

    Parameters
    ----------
    martingale
        Simulated chains.
    schedule
        Their temperatures.
    n_largest
        max(m1, m2).
    epsilon
        Of Eq. 26.

    Returns
    -------
    dict of str to array
        ``K``; ``below`` and ``below_bound``, Pr(r^2N < r^1 - K) and its
        bound; ``above`` and ``above_bound``, Pr(r^2N > r^1 + gamma K) and its
        bound; ``gamma``.
    """
    steps = schedule[:-1]
    a = (martingale.c[:, :-1] * steps).amax(0)
    log_term = math.log(len(schedule) * n_largest / epsilon)
    gamma = float(((log_term * steps + martingale.d[:, :-1]).amax(0) / a).max())
    move = martingale.r[:, -1] - martingale.r[:, 0]
    scale = float(a.square().sum().sqrt())
    K = torch.linspace(0, K_LARGEST, 61, dtype=a.dtype) * scale
    bound = torch.exp(-((K / scale) ** 2) / 2)
    return {
        "K": K.numpy(),
        "below": (move < -K[:, None]).double().mean(1).numpy(),
        "below_bound": bound.numpy(),
        "above": (move > gamma * K[:, None]).double().mean(1).numpy(),
        "above_bound": (bound + epsilon).numpy(),
        "gamma": np.array(gamma),
    }
