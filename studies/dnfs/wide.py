"""Joint training on the paper's 32 bits, with a flow and without.

The energy is the paper's network and learns by the difference of its gradients at data
and at the states of a pool, whose importance weights follow the energy and which Gibbs
updates change at every step. Three samplers renew a part of the pool: a flow that is
learned with the energy, annealed Gibbs updates without a flow ("annealed sweeps"), and
uniform bits, which replace the whole pool at every step. States of all times of a
rollout enter the pool, resampled by their weights.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor

from ebmtut import flows
from ebmtut.checks import Count, DivergenceError, OneOf, checked
from ebmtut.data import DENSITIES, DensityData
from ebmtut.energies import Energy, MLPEnergy
from ebmtut.experiments.dnfs.ebm_training import flow_bound
from ebmtut.experiments.ed.evaluation import Evaluation, evaluate_density
from ebmtut.experiments.experiment import Runs, grid, nested, stream_seed
from ebmtut.experiments.jobs import Outcome
from ebmtut.importance import effective_sample_size, systematic_resampling
from ebmtut.losses import kolmogorov_variance_loss
from ebmtut.metrics import mmd
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.samplers import GibbsState, gibbs, run_chain
from ebmtut.schedules import cosine
from ebmtut.training import ResumableLoop, average_weights
from studies.dnfs.figures import study


class Annealing:
    """Annealed Gibbs updates from uniform bits."""

    #: From how many chains come how many new states of the pool, at every which step of
    #: the energy; Gibbs updates of its states, of one random bit each, at every step.
    n_chains, n_new, every, n_pool_updates = 64, 64, 50, 4

    def __init__(self, energy: Energy, config: WideConfig, seed: int) -> None:
        self.path, self.config = AnnealingPath(energy), config
        #: What it learns, by name.
        self.parts: dict[str, Any] = {}

    def refine(self, x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        """Leave p_t as it is."""
        sampler = gibbs(self.path.at(t))
        return run_chain(sampler, x, self.config.n_updates, generator=generator).x_final

    def draw(self, n: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return states at all times, and their log-weights there."""
        x = self.path.sample_start(n, generator=generator)
        states, weights = [x], [x.new_zeros(n)]
        n_times = self.config.n_time_steps
        for k in range(1, n_times + 1):
            with torch.no_grad():
                step = self.path.time_derivative(x) / n_times
            weights.append(weights[-1] + step)
            x = self.refine(x, k / n_times, generator=generator)
            states.append(x)
        return torch.stack(states), torch.stack(weights)


class Uniform(Annealing):
    """Uniform bits with their importance weights, which replace the pool."""

    n_chains, n_new, every, n_pool_updates = 512, 256, 1, 0

    def draw(self, n: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return states at the first time, and their log-weights there."""
        x = self.path.sample_start(n, generator=generator)[None]
        return x, x.new_zeros(x.shape[:2])


class LearnedFlow(Annealing):
    """A flow, with the same updates in its rollouts, on which it also learns."""

    every = 100

    def __init__(self, energy: Energy, config: WideConfig, seed: int) -> None:
        super().__init__(energy, config, seed)
        network = flows.HollowMLP(
            self.path.n_sites, width=config.width, generator=make_generator(seed)
        )
        self.flow = flows.Flow(self.path, network, rates="reversible")
        self.adam = torch.optim.Adam(network.parameters(), config.flow_learning_rate)
        self.parts = {"network": network, "flow's adam": self.adam}

    def draw(self, n: int, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return states at all times and their log-weights there, and learn."""
        n_times = self.config.n_time_steps
        how: Any = {"keep_states": True, "generator": generator}
        drawn = flows.simulate(self.flow, n, n_times, refine=self.refine, **how)
        for _ in range(self.config.n_flow_steps):
            k, rows = (
                torch.randint(high, (self.config.n_rows,), generator=generator)
                for high in (n_times + 1, n)
            )
            x = drawn.states[k][:, rows]
            loss = kolmogorov_variance_loss(self.flow, x, k.float() / n_times)
            self.adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.flow.network.parameters(), 1.0)
            self.adam.step()
        path = torch.cumulative_trapezoid(drawn.xi, dx=1 / n_times, dim=0)
        return drawn.states, torch.cat([torch.zeros_like(drawn.xi[:1]), path])


#: EB-DNFS as in the ledger.
METHODS: dict[str, type[Annealing]] = {
    "EB-DNFS": LearnedFlow,
    "annealed sweeps": Annealing,
    "uniform bits": Uniform,
}


@checked
@dataclass(frozen=True)
class WideConfig:
    """Which energies are learned, and what each may spend."""

    densities: tuple[Annotated[str, OneOf(DENSITIES)], ...] = tuple(DENSITIES)
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = tuple(METHODS)
    n_seeds: Count = 2
    #: Of the energy with the flow; of the energy with annealed updates, for each of
    #: these steps, so that both take about the same CPU time.
    n_steps: Count = 4400
    rival_steps: float = 1.3
    #: Data of a step; states of the pool.
    batch_size: Count = 256
    n_pool: Count = 256
    #: Until half of the steps; then it falls to zero.
    learning_rate: float = 4e-3
    #: Factor of the hidden layers' first weights, about that of He for SiLU.
    gain: float = 2.5
    n_time_steps: Count = 8
    #: Gibbs updates of one random bit, after each time step, of flow and annealing.
    n_updates: Count = 8
    #: Of leMLP, a tenth of the cost of leTF.
    width: int = 32
    #: Of the flow, for each filling; rows and times of a batch; of the flow at last.
    n_flow_steps: Count = 16
    n_rows: Count = 8
    n_last: Count = 112
    flow_learning_rate: float = 3e-3
    #: States of a sampler that are compared with data.
    n_samples: Count = 2000
    #: Gibbs updates of uniform bits whose MMD is stored beside the flow's.
    n_gibbs: Count = 160


@torch.no_grad()
def tempered(
    path: AnnealingPath, drawn: tuple[Tensor, Tensor], n: int, *, generator: Any
) -> Tensor:
    """Resample states of all times by weights at t = 1, a time by its ESS."""
    states, log_weights = drawn
    t = torch.linspace(0, 1, max(2, len(states)))[: len(states), None]
    x = states.flatten(0, 1)
    rest = path.time_derivative(x).view_as(log_weights) * (1 - t)
    weights = (log_weights + rest).softmax(1)
    weights = (weights / weights.square().sum(1, keepdim=True)).flatten()
    shift = torch.rand((), generator=generator)
    return x[systematic_resampling(weights / weights.sum(), n, shift)]


def follow(pool: MutableMapping[str, Tensor], energies: Tensor) -> Tensor:
    """Weigh the pool for an energy that has changed; return the softmax weights."""
    changed = pool["energies"] - energies
    pool["log_weights"] = pool["log_weights"] + changed
    pool["energies"] = energies
    return pool["log_weights"].softmax(0)


def move(
    pool: MutableMapping[str, Tensor], energy: Energy, n: int, *, generator: Any
) -> None:
    """Resample the pool where few states have the weight; update n bits of each."""
    if effective_sample_size(pool["log_weights"]) < 0.5:
        weights = pool["log_weights"].softmax(0)
        shift = torch.rand((), generator=generator)
        kept = systematic_resampling(weights, len(weights), shift)
        pool.update({name: values[kept] for name, values in pool.items()})
        pool["log_weights"] = torch.zeros(len(kept))
    state = GibbsState(pool["x"], pool["energies"], 0)
    sampler = gibbs(energy)
    for _ in range(n):
        state, _ = sampler.step(state, generator=generator)
    pool.update(x=state.x, energies=state.energy)


@torch.no_grad()
def fill(
    pool: MutableMapping[str, Tensor], energy: Energy, x: Tensor, n_pool: int
) -> None:
    """Put new states in the place of the oldest; both have a mean weight of one."""
    if pool:
        weights = follow(pool, energy(pool["x"]))
        pool["log_weights"] = weights.log() + math.log(len(weights))
    added = {"x": x, "log_weights": torch.zeros(len(x)), "energies": energy(x)}
    for name, values in added.items():
        pool[name] = torch.cat([pool.get(name, values[:0]), values])[-n_pool:]


#: Of the energies, by exact draws; log Z by draws from a grid, as in chapter 1.
EVALUATION = Evaluation(n_uniform=0, n_proposal=100_000, n_repeats=3, coarse_bits=7)


def flow_scores(
    sampler: LearnedFlow, data: DensityData, n: int, seed: int
) -> dict[str, float]:
    """Compare the flow's samples, and Gibbs samples of the energy, with the data."""
    how: Any = {"generator": make_generator(seed)}
    drawn = flows.simulate(sampler.flow, n, sampler.config.n_time_steps, **how)
    start = sampler.path.sample_start(n, **how)
    chains = run_chain(gibbs(sampler.path.target), start, sampler.config.n_gibbs, **how)
    bound, stderr = flow_bound(sampler.flow, data, how["generator"])
    return {
        "MMD": 1e4 * mmd(drawn.x, data.sample_bits(n, **how)),
        "MMD of Gibbs samples": 1e4 * mmd(chains.x_final, data.sample_bits(n, **how)),
        "ESS": effective_sample_size(drawn.log_weights),
        "flow bound": bound + data.entropy,
        "flow bound stderr": stderr,
    }


def wide_job(
    method: str,
    density: str,
    config: WideConfig,
    seed: int,
    checkpoint: Path | None = None,
) -> Outcome:
    """Learn and evaluate one energy."""
    data, generator = DensityData(density), make_generator(seed)
    energy = MLPEnergy(data.n_sites, generator=make_generator(seed))
    with torch.no_grad():  # larger weights in the hidden layers, of centred bits
        for layer in energy.net[:-1:2]:
            layer.weight *= config.gain
        energy.net[0].bias -= energy.net[0].weight.sum(1) / 2
    averaged = copy.deepcopy(energy)
    adam = torch.optim.Adam(energy.parameters(), config.learning_rate, fused=True)
    sampler = METHODS[method](energy, config, seed)
    pool: dict[str, Tensor] = {}
    loop = ResumableLoop(
        checkpoint,
        {"method": method, "density": density, "seed": seed, **asdict(config)},
        {"energy": energy, "averaged": averaged, "adam": adam, **sampler.parts},
        generator=generator,
        held=pool,
    )
    share = config.rival_steps if method == "annealed sweeps" else 1.0
    n_steps = round(config.n_steps * share)
    falling, n = cosine(1.0, 0.0, n_steps - n_steps // 2), config.batch_size
    for step in loop.steps(n_steps):
        rate = min(1.0, (step + 1) / 50) * falling(max(0, step - n_steps // 2))
        adam.param_groups[0]["lr"] = config.learning_rate * rate
        if step % sampler.every == 0:
            drawn = sampler.draw(sampler.n_chains, generator=generator)
            n_new = sampler.n_new if pool else config.n_pool
            new = tempered(sampler.path, drawn, n_new, generator=generator)
            fill(pool, energy, new, config.n_pool)
        x = torch.cat([data.sample_bits(n, generator=generator), pool["x"]])
        energies = energy(x)
        weights = follow(pool, energies[n:].detach())
        loss = energies[:n].mean() - weights @ energies[n:]
        if not bool(loss.isfinite()):
            raise DivergenceError(f"the energy diverged at step {step}", step)
        adam.zero_grad()
        loss.backward()
        move(pool, energy, sampler.n_pool_updates, generator=generator)
        adam.step()
        average_weights([*averaged.parameters()], [*energy.parameters()], step, 0.99)
    energy.load_state_dict(averaged.state_dict())
    if isinstance(sampler, LearnedFlow):
        for _ in loop.steps(config.n_last // config.n_flow_steps):
            sampler.draw(sampler.n_chains, generator=generator)
    began, at = time.process_time(), stream_seed("evaluation", seed)
    energy.requires_grad_(False)
    found = evaluate_density(energy, density, EVALUATION, seed=at)
    scores = {
        "pool ESS": effective_sample_size(pool["log_weights"]),
        "cpu s": loop.seconds,
        "steps": n_steps,
        "NLL": found["nll"],
        "NLL stderr": math.hypot(found["nll_se"], found["log_z_se"]),
        "KL": found["gap"],
        "KL stderr": found["gap_se"],
        "MMD of exact draws": found["mmd"],
        "MMD of data": found["mmd_null"],
        "entropy": data.entropy,
    }
    if isinstance(sampler, LearnedFlow):
        scores |= flow_scores(sampler, data, config.n_samples, at)
    return Outcome(scores | {"evaluation cpu s": time.process_time() - began})


def gather(config: WideConfig, runs: Runs) -> Outcome:
    """Return the table, with the other rows of the paper, named as there."""
    table = nested(runs)
    for density, cell in table.get("EB-DNFS", {}).items():
        bound = {"NLL": cell["flow bound"], "stderr": cell["flow bound stderr"]}
        table.setdefault("DNFS as a density", {})[density] = bound
        chains = {"MMD": cell["MMD of Gibbs samples"]}
        table.setdefault("Gibbs samples of the EBM", {})[density] = chains
    return Outcome({"table": table})


WIDE = study(
    "dnfs/wide",
    "Energies of 32 bits, learned with a flow and without",
    WideConfig(densities=("8gaussians",), n_steps=60, n_last=16, n_samples=200),
    WideConfig(),
    cells=lambda config: grid(config, method="methods", density="densities"),
    # The controls, which need no flow, run once.
    n_seeds=lambda config, names: config.n_seeds if names[0] == "EB-DNFS" else 1,
    job=wide_job,
    gather=gather,
    score="KL",
    # Their CPU time is compared.
    parallel=False,
)
