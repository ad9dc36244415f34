"""Scores of a flow of a lattice in several numbers of time steps."""

from __future__ import annotations

import time

import torch

from ebmtut.experiments.dnfs.lattices import sample_scores
from ebmtut.flows import Flow, simulate


def in_steps(
    flow: Flow,
    exact: float,
    n: int,
    n_steps: int,
    *,
    chain: bool = True,
    suffix: str = "",
    generator: torch.Generator,
) -> dict[str, float]:
    """Score one simulation by its path and discrete-time weights."""
    began = time.process_time()
    drawn = simulate(flow, n, n_steps, chain_weights=chain, generator=generator)
    seconds = time.process_time() - began
    kinds = {"": drawn.log_weights}
    if drawn.chain_log_weights is not None:
        kinds[" chain"] = drawn.chain_log_weights
    return {
        f"{name}{kind}{suffix}": value
        for kind, log_weights in kinds.items()
        for name, value in sample_scores(
            flow.path, exact, drawn.x, log_weights, seconds
        ).items()
    }


def few_and_many(
    flow: Flow,
    exact: float,
    few: int,
    many: int,
    n_steps: int,
    *,
    generator: torch.Generator,
) -> dict[str, float]:
    """Evaluate many samples, and a few by the costlier discrete-time weights."""
    by_chain = in_steps(flow, exact, few, n_steps, generator=generator)
    by_time = in_steps(flow, exact, many, n_steps, chain=False, generator=generator)
    return by_chain | by_time
