"""How a flow of a lattice, or its null, is judged: what ESS sees, and what it cannot.

Source: Ou, Zhang and Li (2025), Section 4.1 and Appendix E.1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.flows import (
    Flow,
    effective_sample_size,
    gibbs_kernel,
    log_partition,
    simulate,
    simulate_exact,
    weighted_mean,
)
from ebmtut.paths import AnnealingPath


def judged(
    path: AnnealingPath,
    exact: float,
    x: Float[Tensor, "n n_sites"],
    log_weights: Float[Tensor, " n"],
    seconds: float,
) -> dict[str, float]:
    """Return ESS, and beside it what ESS cannot see."""
    if not bool(torch.isfinite(log_weights).any()):
        return {"ESS": 0.0, "log Z error": -math.inf}
    found = log_partition(log_weights, path.log_partition_start)
    energy = path.target(x)
    return {
        "ESS": effective_sample_size(log_weights),
        "log Z error": found.estimate - exact,
        "log Z stderr": found.standard_error,
        "log Z bound error": found.lower_bound - exact,
        "energy": float(energy.mean()),
        "weighted energy": float(weighted_mean(log_weights, energy)),
        "sample cpu ms": 1000 * seconds / len(x),
    }


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
    """Return what `judged` says of one simulation."""
    began = time.process_time()
    drawn = simulate(flow, n, n_steps, chain_weights=chain, generator=generator)
    seconds = time.process_time() - began
    kinds = {"": drawn.log_weights}
    if drawn.chain_log_weights is not None:
        kinds[" chain"] = drawn.chain_log_weights
    return {
        f"{name}{kind}{suffix}": value
        for kind, log_weights in kinds.items()
        for name, value in judged(
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


def kept(path: AnnealingPath, x: Tensor, log_weights: Tensor) -> dict[str, Any]:
    """Return energies and log-weights, one a sample."""
    return {
        "energies": path.target(x).cpu().numpy().astype("float32"),
        "log_weights": log_weights.cpu().numpy().astype("float32"),
    }


def other_weights(
    flow: Flow,
    exact: float,
    n: int,
    n_steps: int,
    *,
    colors: Tensor,
    generator: torch.Generator,
) -> dict[str, Any]:
    """Return what `judged` says of other weights, and of rollouts with Gibbs sweeps."""
    clock = [time.process_time()]

    def seconds() -> float:
        clock.append(time.process_time())
        return clock[-1] - clock[-2]

    bound = rate_bound(flow, n_steps, generator=generator)
    seconds()
    chain = simulate(flow, n, n_steps, chain_weights=True, generator=generator)
    assert chain.chain_log_weights is not None
    kinds = {"chain": (chain.x, chain.chain_log_weights, seconds())}
    refine = gibbs_kernel(flow.path, colors.to(generator.device))
    swept = simulate(flow, n, n_steps, refine=refine, generator=generator)
    kinds["swept"] = swept.x, swept.log_weights, seconds()
    thinned = simulate_exact(
        flow, n, bound=bound, path_weights=True, generator=generator
    )
    assert thinned.path_log_weights is not None
    kinds["exact"] = thinned.x, thinned.log_weights, seconds()
    kinds["path"] = thinned.x, thinned.path_log_weights, kinds["exact"][2]
    found: dict[str, Any] = {"exceeded": thinned.n_exceeded, "bound": bound}
    found["candidates"] = thinned.n_candidates
    for kind, (x, log_weights, spent) in kinds.items():
        scores = judged(flow.path, exact, x, log_weights, spent)
        found |= {f"{name} {kind}": value for name, value in scores.items()}
    return found


def rate_bound(flow: Flow, n_steps: int, *, generator: torch.Generator) -> float:
    """Twice the largest total rate that a few chains meet on a grid of times."""
    pilot = simulate(flow, 64, n_steps, keep_states=True, generator=generator)
    assert pilot.states is not None
    met = [flow.terms(x, k / n_steps) for k, x in enumerate(pilot.states)]
    return 2 * max(float(r.detach().sum(1).max()) for v in met for r in v[:2])


def energy_bins(energies: Sequence[np.ndarray], sigma: float) -> list[float]:
    """Edges of bins that hold as many levels each.

    Energies of a lattice without field lie 8 sigma apart: an even number of
    edges is unsatisfied.
    """
    low = min(float(np.quantile(e, 0.002, method="lower")) for e in energies)
    high = max(float(np.quantile(e, 0.998)) for e in energies)
    level = 8 * abs(sigma)
    width = level * max(1, round((high - low) / level / 30))
    first = low - level / 2
    return [first + k * width for k in range(math.ceil((high - first) / width) + 1)]
