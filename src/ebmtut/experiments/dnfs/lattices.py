"""How a flow learns a lattice Ising model, and the nulls beside it.

Source: Ou, Zhang and Li (2025), Section 4.1 and Appendix E.1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from ebmtut.checks import Count, OneOf, checked
from ebmtut.energies import LatticeIsing, lattice_coloring
from ebmtut.exact import torus_log_partition
from ebmtut.experiments.dnfs.lattice_judge import judged, kept, other_weights
from ebmtut.experiments.experiment import Names
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.streams import stream
from ebmtut.flows import (
    Flow,
    HollowAttention,
    HollowConvolution,
    HollowMLP,
    HollowTransformer,
    OddLatticeNetwork,
    gibbs_kernel,
    simulate,
)
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.samplers import annealed_importance_sampling, ising_gibbs
from ebmtut.training import FlowConfig, TrainConfig, train_flow

#: Coupling at which the infinite lattice is critical, ln(1 + sqrt 2) / 4.
CRITICAL = math.log(1 + math.sqrt(2)) / 4

#: Our recipe; the paper's (rates relu(G), rollouts of the flow alone, c_t of
#: coordinate descent, ratios cut at 5) with two networks; that of LEAPS.
LEARNED = ("ours", "paper, leConv", "paper, leTF", "LEAPS, leConv")
#: The untrained network, and annealing with Gibbs sweeps along the same path,
#: as many as the flow has steps, or four and sixteen times as many.
NULLS = ("untrained", "AIS", "AIS x4", "AIS x16", "SMC", "SMC x4")


@checked
@dataclass(frozen=True)
class LatticeConfig:
    """Which lattices, which methods, and what each may spend.

    Parameters
    ----------
    problems
        Triples (side, sigma, n_steps): the lattice, and optimiser steps.
    methods
        Some of `LEARNED` and `NULLS`.
    n_seeds
        Independent runs of what is learned; of the nulls there is one.
    n_samples
        Samples by which a method is judged.
    n_chain_samples
        Samples for the weights of the discrete chain and of the exact
        simulation, which cost more.
    n_time_steps
        Steps of time; also sweeps of AIS and SMC, whose fields of all sites
        are then computed as often as the flow's.
    width, n_hidden
        Size of our network; leConv and leTF have the same width.
    learning_rate, n_warmup
        Of Adam.
    rival_steps
        Optimiser steps of the other recipes, for each of ours.
    """

    problems: tuple[tuple[int, float, int], ...]
    methods: tuple[Annotated[str, OneOf(LEARNED + NULLS)], ...] = (
        "ours",
        "untrained",
        "AIS",
        "SMC",
    )
    n_seeds: Count = 4
    n_samples: Count = 2000
    n_chain_samples: Count = 500
    n_time_steps: Count = 64
    width: int = 32
    n_hidden: int = 32
    learning_rate: float = 2e-3
    n_warmup: int = 200
    rival_steps: Count = 1


def column_name(side: int, sigma: float) -> str:
    """Name a lattice, as ``10x10, 0.1`` or ``10x10, critical``."""
    critical = abs(sigma - CRITICAL) < 1e-5
    return f"{side}x{side}, {'critical' if critical else f'{sigma:g}'}"


def cells(config: LatticeConfig) -> Mapping[Names, Mapping[str, Any]]:
    """Name a cell for every method and lattice; rivals' recipes for the first alone."""
    alone = replace(config, problems=(), methods=(), n_seeds=1)
    return {
        (method, column_name(side, sigma)): {
            "method": method,
            "side": side,
            "sigma": sigma,
            "n_steps": n_steps if method == "ours" else n_steps * config.rival_steps,
            "config": alone,
        }
        for k, (side, sigma, n_steps) in enumerate(config.problems)
        for method in config.methods
        if k == 0 or method in ("ours", *NULLS)
    }


def seeds_of(config: LatticeConfig, names: Names) -> int:
    """As many seeds as configured for what is learned, one for the nulls."""
    return config.n_seeds if names[0] in LEARNED else 1


def new_network(
    method: str, side: int, config: LatticeConfig, *, seed: int
) -> nn.Module:
    """Make the network of a method with weights of one seed."""
    how: Any = {"width": config.width, "generator": make_generator(seed)}
    if method in ("ours", "untrained"):
        return OddLatticeNetwork(side, n_hidden=config.n_hidden, **how)
    kind = method.rsplit(" ", 1)[-1]
    if kind == "leConv":
        return HollowConvolution(side, **how)
    networks = {"leTF": HollowTransformer, "leMLP": HollowMLP}
    return networks.get(kind, HollowAttention)(side * side, **how)


def train_lattice_flow(
    method: str,
    path: AnnealingPath,
    n_steps: int,
    config: LatticeConfig,
    *,
    seed: int,
    network: nn.Module | None = None,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> tuple[Flow, dict[str, Any], dict[str, Any]]:
    """Train one flow by one recipe, on the device of the path's energy.

    Without steps it stays as it is made, and there are no scalars and no arrays.
    """
    assert isinstance(path.target, LatticeIsing)
    side = path.target.side
    if network is None:
        network = new_network(method, side, config, seed=seed)
    network = network.to(device)
    ours = method == "ours"
    flow = Flow(
        path,
        network,
        rates="reversible" if ours else "one_way",
        max_log_ratio=None if ours else 5.0,
    )
    if not n_steps:
        return Flow(path, network, rates=flow.rates), {}, {}
    objective = "batch" if ours else "learned" if "LEAPS" in method else "stein"
    colors = lattice_coloring(side).to(device)
    refine = gibbs_kernel(path, colors) if ours else None
    fit = FlowConfig(objective=objective, n_time_steps=config.n_time_steps)
    optimizer = TrainConfig(
        n_steps=n_steps,
        learning_rate=config.learning_rate,
        n_warmup=config.n_warmup,
        clip_norm=1.0,
        precision="float32",
    )
    found = train_flow(
        flow,
        fit,
        optimizer,
        generator=make_generator(seed, device),
        refine=refine,
        checkpoint=checkpoint,
        checkpoint_every=250,
        identity={"method": method, "sigma": path.target.sigma, "seed": seed},
    )
    trained = Flow(path, found.flow.network, rates=flow.rates)
    scalars = {
        "train cpu s": found.cpu_seconds,
        "train evaluations": _evaluations(fit, optimizer),
        "loss": float(found.losses[-100:].mean()),
        "clipped": found.n_clipped,
        "clipped share": found.clipped_share,
    }
    return trained, scalars, {"losses": found.losses, "spread": found.slope_spread}


def _evaluations(fit: FlowConfig, optimizer: TrainConfig) -> int:
    """States at which a training evaluates the network; backward counts as two."""
    n_drawn = -(-optimizer.n_steps // fit.inner_steps)
    drawn = n_drawn * fit.n_trajectories * (fit.n_time_steps + 1)
    return drawn + 3 * optimizer.n_steps * optimizer.batch_size


def lattice_job(
    method: str,
    side: int,
    sigma: float,
    n_steps: int,
    config: LatticeConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Train one method on one lattice and judge it, or judge a null."""
    path = AnnealingPath(LatticeIsing(side, sigma).to(device))
    exact = torus_log_partition(side, side, 2 * sigma)
    generator = stream("evaluation", seed, device)
    null, _, factor = method.partition(" x")
    if null in ("AIS", "SMC"):
        sweep = _fast_gibbs(side, sigma)
        # Compiled before the clock starts.
        sweep(path.sample_start(1, generator=generator), 1.0, generator=generator)
        began = time.process_time()
        x, log_weights, _ = annealed_importance_sampling(
            path,
            sweep,
            config.n_samples,
            config.n_time_steps * int(factor or 1),
            generator=generator,
            resample_below=0.5 if null == "SMC" else 0.0,
        )
        seconds = time.process_time() - began
        scores = judged(path, exact, x, log_weights, seconds)
        return Outcome(scores, kept(path, x, log_weights))
    scalars: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    flow = Flow(path, new_network(method, side, config, seed=seed).to(device))
    if method != "untrained":
        flow, scalars, arrays = train_lattice_flow(
            method,
            path,
            n_steps,
            config,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
        )
    began = time.process_time()
    drawn = simulate(flow, config.n_samples, config.n_time_steps, generator=generator)
    seconds = time.process_time() - began
    scalars |= judged(path, exact, drawn.x, drawn.log_weights, seconds)
    scalars |= {"jumps": drawn.n_jumps}
    scalars |= other_weights(
        flow,
        exact,
        config.n_chain_samples,
        config.n_time_steps,
        colors=lattice_coloring(side),
        generator=generator,
    )
    arrays |= kept(path, drawn.x, drawn.log_weights)
    state = flow.network.state_dict().items()
    weights = {f"net.{k}": v.cpu().numpy() for k, v in state}
    return Outcome(scalars, arrays | weights)


def _fast_gibbs(side: int, sigma: float) -> Any:
    """One compiled Gibbs sweep at time t."""

    def kernel(x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        energy = LatticeIsing(side, t * sigma).to(x.device)
        return ising_gibbs(energy, x, 1, generator=generator)

    return kernel


def exact_answers(config: LatticeConfig, seed: int) -> Outcome:
    """Exact log Z and mean energy, and energies of long Gibbs chains.

    The mean energy is the derivative of log Z, by central differences of the
    closed form.
    """
    table = {}
    arrays = {}
    for side, sigma, _ in config.problems:
        column = column_name(side, sigma)
        step = 1e-4 * sigma
        rise = [torus_log_partition(side, side, 2 * (sigma + s)) for s in (step, -step)]
        table[column] = {
            "log Z": torus_log_partition(side, side, 2 * sigma),
            "energy": -sigma * (rise[0] - rise[1]) / (2 * step),
        }
        energy = LatticeIsing(side, sigma)
        generator = make_generator(seed + 2_000_000)
        x = AnnealingPath(energy).sample_start(4096, generator=generator)
        x = ising_gibbs(energy, x, 2000, generator=generator)
        arrays[f"long Gibbs/{column}"] = energy(x).numpy().astype("float32")
    return Outcome({"exact": table}, arrays)
