"""Flows of lattice Ising models, the baselines beside them, and their evaluation.

Source: Ou, Zhang and Li (2025), Section 4.1 and Appendix E.1. Exact distributions of
the energy and of two spins are those of `ebmtut.exact.torus`.
"""

import math
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64
from scipy.stats import wasserstein_distance
from torch import Tensor, nn

from ebmtut import flows
from ebmtut.energies import LatticeIsing, lattice_coloring
from ebmtut.exact import torus_energy_distribution, torus_log_partition
from ebmtut.experiments.dnfs.recipes import (
    ANNEALING,
    BASELINES,
    CRITICAL,
    LEARNED,
    LatticeConfig,
    new_network,
)
from ebmtut.experiments.experiment import Cells, Names, Outcome, stream
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.samplers import boltzmann_annealing, ising_gibbs
from ebmtut.states import bits_to_spins
from ebmtut.training import FlowConfig, TrainConfig, train_flow

#: Methods of stored results, as tables call them.
SHOWN = {
    "ours": "flow",
    "paper, leConv": "published recipe",
    "untrained": "untrained flow",
    "AIS x4": "AIS ×4",
    "AIS x16": "AIS ×16",
    "SMC x4": "SMC ×4",
}


#: Sets of exact samples, whose distances are the sampling error.
_N_SETS = 200


class Lattice(NamedTuple):
    """Side of a periodic lattice, and coupling of its Ising model."""

    side: int
    sigma: float

    @property
    def coupling(self) -> str:
        """The coupling in words, as ``0.1`` or ``critical``."""
        critical = abs(self.sigma - CRITICAL) < 1e-5
        return "critical" if critical else f"{self.sigma:g}"

    @property
    def title(self) -> str:
        """The lattice in words, for a caption."""
        if self.coupling == "critical":
            return f"Critical {self.side} × {self.side} lattice"
        return f"{self.side} × {self.side} lattice, σ = {self.coupling}"


def column_name(side: int, sigma: float) -> str:
    """Name a lattice, as ``10x10, 0.1`` or ``10x10, critical``."""
    return f"{side}x{side}, {Lattice(side, sigma).coupling}"


def lattices_of(result: Result) -> dict[str, Lattice]:
    """Return the lattices of a stored result, by their names."""
    found = [Lattice(side, sigma) for side, sigma, _ in result.config["problems"]]
    return {column_name(*lattice): lattice for lattice in found}


def cells(config: LatticeConfig) -> Cells:
    """Name an entry for every method and lattice; other recipes only the first."""
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
        if k == 0 or method in ("ours", *BASELINES)
    }


def seeds_of(config: LatticeConfig, names: Names) -> int:
    """As many seeds as configured for what is learned, one for the baselines."""
    return config.n_seeds if names[0] in LEARNED else 1


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
) -> tuple[flows.Flow, dict[str, Any], dict[str, Any]]:
    """Train a flow by one recipe, on the device of the path's energy."""
    assert isinstance(path.target, LatticeIsing)
    side = path.target.side
    if network is None:
        network = new_network(method, side, config, seed=seed)
    network = network.to(device)
    recipe = LEARNED[method]
    flow = flows.Flow(
        path, network, rates=recipe.rates, max_log_ratio=recipe.max_log_ratio
    )
    if not n_steps:
        return flows.Flow(path, network, rates=flow.rates), {}, {}
    colors = lattice_coloring(side).to(device)
    refine = flows.gibbs_kernel(path, colors) if recipe.sweeps else None
    fit = FlowConfig(objective=recipe.objective, n_time_steps=config.n_time_steps)
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
    trained = flows.Flow(path, found.flow.network, rates=flow.rates)
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
    """Train and evaluate one method on one lattice, or evaluate a baseline."""
    lattice = LatticeIsing(side, sigma).to(device)
    path = AnnealingPath(lattice)
    exact = torus_log_partition(side, side, 2 * sigma)
    generator = stream("evaluation", seed, device)
    if method in ANNEALING:
        baseline = ANNEALING[method]
        n_steps = config.n_time_steps * baseline.n_sweeps
        how: Any = {"generator": generator, "resample_below": baseline.resample_below}
        # Compiled before the clock starts.
        boltzmann_annealing(lattice, 64, 1, **how)
        began = time.process_time()
        x, log_weights, _ = boltzmann_annealing(
            lattice, config.n_samples, n_steps, **how
        )
        seconds = time.process_time() - began
        scores = sample_scores(path, exact, x, log_weights, seconds)
        return Outcome(scores, kept(path, x, log_weights))
    scalars: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    flow = flows.Flow(path, new_network(method, side, config, seed=seed).to(device))
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
    drawn = flows.simulate(
        flow, config.n_samples, config.n_time_steps, generator=generator
    )
    seconds = time.process_time() - began
    scalars |= sample_scores(path, exact, drawn.x, drawn.log_weights, seconds)
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


def exact_answers(config: LatticeConfig, seed: int) -> Outcome:
    """Exact log Z and mean energy, and energies of long Gibbs chains."""
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
        generator = stream("long chains", seed)
        x = AnnealingPath(energy).sample_start(4096, generator=generator)
        x = ising_gibbs(energy, x, 2000, generator=generator)
        arrays[f"long Gibbs/{column}"] = energy(x).numpy().astype("float32")
    return Outcome({"exact": table}, arrays)


def sample_scores(
    path: AnnealingPath,
    exact: float,
    x: Float[Tensor, "n n_sites"],
    log_weights: Float[Tensor, " n"],
    seconds: float,
) -> dict[str, float]:
    """Return the ESS, and beside it what the ESS cannot reveal."""
    if not bool(torch.isfinite(log_weights).any()):
        return {"ESS": 0.0, "log Z error": -math.inf}
    found = flows.log_partition(log_weights, path.log_partition_start)
    energy = path.target(x)
    return {
        "ESS": flows.effective_sample_size(log_weights),
        "log Z error": found.estimate - exact,
        "log Z stderr": found.standard_error,
        "log Z bound error": found.lower_bound - exact,
        "energy": float(energy.mean()),
        "weighted energy": float(flows.weighted_mean(log_weights, energy)),
        "sample cpu ms": 1000 * seconds / len(x),
    }


def kept(path: AnnealingPath, x: Tensor, log_weights: Tensor) -> dict[str, Any]:
    """Return energies and log-weights, one per sample."""
    return {
        "energies": path.target(x).cpu().numpy().astype("float32"),
        "log_weights": log_weights.cpu().numpy().astype("float32"),
    }


def other_weights(
    flow: flows.Flow,
    exact: float,
    n: int,
    n_steps: int,
    *,
    colors: Tensor,
    generator: torch.Generator,
) -> dict[str, Any]:
    """Score other weights, and trajectories with Gibbs sweeps."""
    clock = [time.process_time()]

    def seconds() -> float:
        clock.append(time.process_time())
        return clock[-1] - clock[-2]

    bound = rate_bound(flow, n_steps, generator=generator)
    seconds()
    chain = flows.simulate(flow, n, n_steps, chain_weights=True, generator=generator)
    assert chain.chain_log_weights is not None
    kinds = {"chain": (chain.x, chain.chain_log_weights, seconds())}
    refine = flows.gibbs_kernel(flow.path, colors.to(generator.device))
    swept = flows.simulate(flow, n, n_steps, refine=refine, generator=generator)
    kinds["swept"] = swept.x, swept.log_weights, seconds()
    thinned = flows.simulate_exact(
        flow, n, bound=bound, path_weights=True, generator=generator
    )
    assert thinned.path_log_weights is not None
    kinds["exact"] = thinned.x, thinned.log_weights, seconds()
    kinds["path"] = thinned.x, thinned.path_log_weights, kinds["exact"][2]
    found: dict[str, Any] = {"exceeded": thinned.n_exceeded, "bound": bound}
    found["candidates"] = thinned.n_candidates
    for kind, (x, log_weights, spent) in kinds.items():
        scores = sample_scores(flow.path, exact, x, log_weights, spent)
        found |= {f"{name} {kind}": value for name, value in scores.items()}
    return found


def rate_bound(flow: flows.Flow, n_steps: int, *, generator: torch.Generator) -> float:
    """Twice the largest total rate that a few chains meet on a grid of times."""
    pilot = flows.simulate(flow, 64, n_steps, keep_states=True, generator=generator)
    assert pilot.states is not None
    return 2 * flow.largest_rate(pilot.states)


class EnergyDistribution(NamedTuple):
    """Levels of the energy, in nats, and the probability of each."""

    levels: Float64[np.ndarray, " n_levels"]
    chances: Float64[np.ndarray, " n_levels"]


def energy_distribution(side: int, sigma: float) -> EnergyDistribution:
    """Return the exact distribution of the energy of a torus of even side."""
    levels, chances = torus_energy_distribution(side, side, 2 * sigma)
    return EnergyDistribution(levels.numpy(), chances.numpy())


def distribution_distance(
    energies: Float[np.ndarray, " n_samples"],
    distribution: EnergyDistribution,
    log_weights: Float[np.ndarray, " n_samples"] | None = None,
) -> float:
    """First Wasserstein distance of energies from their exact distribution."""
    weights = None
    if log_weights is not None:
        weights = np.exp(log_weights.astype(float) - log_weights.max())
    return float(
        wasserstein_distance(
            energies, distribution.levels, weights, distribution.chances
        )
    )


def drawn_distances(
    distribution: EnergyDistribution, n: int, *, generator: torch.Generator
) -> tuple[float, float]:
    """Mean and standard deviation of the distance that exact samples have."""
    chances = torch.from_numpy(distribution.chances)
    found = [
        distribution_distance(
            distribution.levels[
                torch.multinomial(chances, n, True, generator=generator)
            ],
            distribution,
        )
        for _ in range(_N_SETS)
    ]
    return fmean(found), stdev(found)


def pair_products(
    x: Float[Tensor, "n_samples n_sites"], side: int
) -> Float[Tensor, "n_samples n"]:
    """Product of two spins in each sample, averaged by their distance."""
    s = bits_to_spins(x).reshape(len(x), side, side)
    along = [
        (s * s.roll(r, dims=1) + s * s.roll(r, dims=2)).mean((1, 2)) / 2
        for r in range(1, side // 2 + 1)
    ]
    return torch.stack(along, 1)
