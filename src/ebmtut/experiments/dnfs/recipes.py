"""Recipes, settings and networks of flows of lattice Ising models.

Source: Ou, Zhang and Li (2025), Section 4.1 and Appendix E.1.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from torch import nn

from ebmtut import flows
from ebmtut.checks import Count, OneOf, checked
from ebmtut.random import make_generator

#: Coupling at which the infinite lattice is critical, ln(1 + sqrt 2) / 4.
CRITICAL = math.log(1 + math.sqrt(2)) / 4


class Recipe(NamedTuple):
    """How a flow is made and trained."""

    network: str = "leConv"
    objective: str = "stein"
    rates: str = "one_way"
    max_log_ratio: float | None = 5.0
    sweeps: bool = False


#: The recipe of the book, the published one with two networks, and that of LEAPS.
LEARNED = {
    "ours": Recipe("odd", "batch", "reversible", None, sweeps=True),
    "paper, leConv": Recipe(),
    "paper, leTF": Recipe("leTF"),
    "LEAPS, leConv": Recipe(objective="learned"),
    "LEAPS, leTF": Recipe("leTF", objective="learned"),
}


class Annealing(NamedTuple):
    """Gibbs sweeps along the path of the flow, a baseline without training."""

    #: For every time step of the flow.
    n_sweeps: int = 1
    #: Resample where the ESS falls below this fraction (SMC), or never.
    resample_below: float = 0.0


ANNEALING = {
    "AIS": Annealing(),
    "AIS x4": Annealing(4),
    "AIS x16": Annealing(16),
    "SMC": Annealing(1, 0.5),
    "SMC x4": Annealing(4, 0.5),
}

#: The untrained network, and annealing.
BASELINES = ("untrained", *ANNEALING)


@checked
@dataclass(frozen=True)
class LatticeConfig:
    """Which lattices, which methods, and what each may spend."""

    #: Triples (side, sigma, n_steps): the lattice, and optimiser steps.
    problems: tuple[tuple[int, float, int], ...]
    methods: tuple[Annotated[str, OneOf((*LEARNED, *BASELINES))], ...] = (
        "ours",
        "untrained",
        "AIS",
        "SMC",
    )
    #: Runs of what is learned; of the baselines there is one.
    n_seeds: Count = 4
    n_samples: Count = 2000
    #: Samples for discrete-time weights and exact simulation, which cost more.
    n_chain_samples: Count = 500
    #: Time steps of the flow; also sweeps of AIS and SMC.
    n_time_steps: Count = 64
    width: int = 32
    n_hidden: int = 32
    learning_rate: float = 2e-3
    n_warmup: int = 200
    #: Optimiser steps of other recipes, for each of the flow.
    rival_steps: Count = 1


def new_network(
    network: str, side: int, config: LatticeConfig, *, seed: int
) -> nn.Module:
    """Make a network, by its kind or by the method that it belongs to."""
    how: Any = {"width": config.width, "generator": make_generator(seed)}
    recipe = LEARNED.get(network)
    kind = recipe.network if recipe else network
    if kind in ("odd", "odd lattice", "untrained"):
        return flows.OddLatticeNetwork(side, n_hidden=config.n_hidden, **how)
    if kind == "leConv":
        return flows.HollowConvolution(side, **how)
    networks = {
        "leTF": flows.HollowTransformer,
        "leMLP": flows.HollowMLP,
        "leAttn": flows.HollowAttention,
    }
    return networks[kind](side * side, **how)
