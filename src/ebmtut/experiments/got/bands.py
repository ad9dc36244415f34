"""The chain as it cools: how wide its conditional laws are (Figure 1)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from ebmtut.experiments.got.couplings import Scalars, note
from ebmtut.experiments.got.lines import two_modes
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.transport import (
    ExactOT,
    GibbsOTResult,
    chain_value,
    dual_value,
    exact_ot,
    gibbs_ot,
    paper_cooling,
)

__all__ = ["BandsConfig", "run_bands"]

LEVEL = 0.95


@dataclass(frozen=True)
class BandsConfig:
    """When to look at the chain.

    Parameters
    ----------
    n_points
        N, points of the line.
    snapshots
        Iterations after which the chain is kept, rising; it cools from the
        first to the last.
    power
        It cools from 2 / N to 2 / (N l^power), l being the last snapshot.
    n_seeds
        Chains; the first is drawn.
    """

    n_points: int = 128
    snapshots: tuple[int, ...] = (20, 40, 60)
    power: float = 2.0
    n_seeds: int = 1


def run_bands(
    config: BandsConfig, *, seed: int = 0, device: str = "cpu", progress: bool = False
) -> Result:
    """Cool chains of a Coulomb problem and keep them along the way.

    Returns
    -------
    Result
        ``scalars["table"][n]`` of each snapshot: the temperature, the share
        of the draws inside the bands, the gap that 95 percent of the draws
        keep to their limits, V and the dual value relative to the cost, and
        the largest |U| or |L|; a list over seeds.
        Arrays ``x``, ``p``, ``q``, and ``n/g``, ``n/h``, ``n/U``, ``n/L`` of
        the first seed.
    """
    x, p, q, cost = two_modes(config.n_points, "coulomb")
    exact = exact_ot(p, q, cost)
    schedule = paper_cooling(config.snapshots[-1], config.n_points, power=config.power)
    table: dict[str, Scalars] = {str(n): {} for n in config.snapshots}
    arrays = {"x": x.numpy(), "p": p.numpy(), "q": q.numpy()}
    for k in range(config.n_seeds):
        generator = make_generator(seed + k)
        state, done = None, 0
        for n in config.snapshots:
            part = schedule[2 * done : 2 * n]
            result = gibbs_ot(p, q, cost, part, state=state, generator=generator)
            state, done = result.state, n
            note(table[str(n)], look_at(result, p, q, cost, exact, float(part[-1])))
            if k == 0:
                parts = {"g": state.g, "h": state.h, "U": result.U, "L": result.L}
                arrays |= {f"{n}/{name}": z.numpy() for name, z in parts.items()}
    scalars = {"table": table, "exact": exact.value, "level": LEVEL}
    return Result("got/gibbs-bands", "quick", asdict(config), scalars, arrays)


def look_at(
    result: GibbsOTResult,
    p: Tensor,
    q: Tensor,
    cost: Tensor,
    exact: ExactOT,
    temperature: float,
) -> dict[str, float]:
    """Return what a snapshot shows; the bands hold 95 percent of each law."""
    gaps = torch.cat([result.U - result.state.g, result.state.h - result.L])
    reach = -math.log(1 - LEVEL) * temperature / torch.cat([p, q])
    V = float(chain_value(p, q, result.U, result.L))
    return {
        "temperature": temperature,
        "inside": float((gaps <= reach).double().mean()),
        "gap": float(gaps.quantile(LEVEL)),
        "V": V / exact.value - 1,
        "dual": float(dual_value(p, q, cost, g=result.U)) / exact.value - 1,
        "range": float(torch.cat([result.U, result.L]).abs().max()),
    }
