"""An energy learned by maximum likelihood with the samples of a flow, or of sweeps.

Source: Ou, Zhang and Li (2025), Section 4.2. With eight bits the likelihoods of
energy and flow, and every distance between laws, are sums over 256 states.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Protocol,
    TypeVar,
    runtime_checkable,
)

import torch
from torch import Tensor

from ebmtut.checks import (
    Count,
    DivergenceError,
    InputError,
    OneOf,
    Range,
    checked,
)
from ebmtut.data import DENSITIES
from ebmtut.energies import MLPEnergy
from ebmtut.experiments.dnfs.law_scores import entropy, independent_bits, judged
from ebmtut.experiments.dnfs.planes import (
    TableEnergy,
    new_flow,
    plane_law,
    plane_picture,
)
from ebmtut.experiments.dnfs.wide_planes import BITS, LISTED
from ebmtut.experiments.jobs import Outcome
from ebmtut.flows import (
    Flow,
    Kernel,
    flow_laws,
    gibbs_kernel,
    reverse_elbo,
    simulate,
)
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.samplers import annealed_importance_sampling
from ebmtut.schedules import cosine
from ebmtut.states import enumerate_states
from ebmtut.training import (
    EBGFNConfig,
    FlowFollower,
    ResumableLoop,
    average_weights,
)

METHODS = ("DNFS", "EB-GFN")


@checked
@dataclass(frozen=True)
class JointConfig:
    """How an energy and its sampler are learned together.

    Parameters
    ----------
    densities
        Names, from `ebmtut.data.DENSITIES`.
    methods
        "DNFS", a flow beside the energy, or "EB-GFN", a GFlowNet.
    n_bits
        Bits a coordinate: 2 to 6, or the paper's 16, with "DNFS" alone; its laws are
        estimated, and the recipe is the paper's (see `wide_joint.wide_joint`).
    n_seeds
        Independent runs.
    n_steps
        Steps of the energy.
    n_flow_steps
        Steps of the flow for each of the energy, the paper's 10.
    n_last
        Steps of the flow alone at the end, for the averaged energy.
    n_time_steps
        Steps of a simulation.
    n_samples
        Data, and samples of the flow, in a step of the energy.
    n_reused
        Steps of the energy for which one set of samples serves: their weights
        follow the energy as it changes. 1 with 16 bits.
    width, n_layers
        Of leTF.
    learning_rate, energy_learning_rate
        Of Adam, the energy's with a cosine decay.
    gflownet
        All that EB-GFN takes; its energy is the same network.
    """

    densities: tuple[Annotated[str, OneOf(DENSITIES)], ...] = DENSITIES
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = METHODS
    n_bits: Annotated[int, Range(2, BITS)] = 4
    n_seeds: Count = 1
    n_steps: Count = 1100
    n_flow_steps: Count = 1
    n_last: Count = 1000
    n_time_steps: Count = 16
    n_samples: Count = 512
    n_reused: Count = 5
    width: int = 32
    n_layers: int = 1
    learning_rate: float = 3e-3
    energy_learning_rate: float = 2e-2
    gflownet: EBGFNConfig = field(default_factory=EBGFNConfig)

    def __post_init__(self) -> None:
        if LISTED < self.n_bits < BITS:
            raise InputError(
                f"n_bits must be 2 to {LISTED}, or {BITS}, got {self.n_bits}"
            )
        if self.n_bits == BITS and (self.n_reused > 1 or "EB-GFN" in self.methods):
            raise InputError(
                f"n_bits must be at most {LISTED} with n_reused > 1 or EB-GFN, "
                f"got {BITS}"
            )


@runtime_checkable
class _Sampler(Protocol):
    """Where the energy's negative samples come from."""

    def learn(self, n_steps: int, share: float, *, generator: torch.Generator) -> None:
        """Take some steps at a share of the learning rate."""

    def draw(self, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return states and log-weights for the energy as it is."""

    def state_dict(self) -> dict[str, Any]:
        """Return what has been learned."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take it back."""


S = TypeVar("S", bound=_Sampler)


class _FlowSampler:
    """A flow, with a Gibbs sweep after each of its steps."""

    def __init__(self, energy: TableEnergy, config: JointConfig, seed: int) -> None:
        self.follower = _follower(energy, config, seed)
        self.config = config

    def learn(self, n_steps: int, share: float, *, generator: torch.Generator) -> None:
        self.follower.fit(n_steps, share=share, generator=generator)

    def draw(self, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        drawn = simulate(
            self.follower.flow,
            self.config.n_samples,
            self.config.n_time_steps,
            refine=self.follower.refine,
            generator=generator,
        )
        return drawn.x, drawn.log_weights

    def state_dict(self) -> dict[str, Any]:
        return self.follower.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.follower.load_state_dict(state_dict)


class _Sweeps:
    """The same sweeps without a flow: annealed importance sampling."""

    def __init__(self, energy: TableEnergy, config: JointConfig, seed: int) -> None:
        self.path = AnnealingPath(energy)
        self.sweep = _sweep(self.path, energy)
        self.config = config

    def learn(self, n_steps: int, share: float, *, generator: torch.Generator) -> None:
        """Learn nothing."""

    def draw(self, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        found = annealed_importance_sampling(
            self.path,
            self.sweep,
            self.config.n_samples,
            self.config.n_time_steps,
            generator=generator,
        )
        return found.x, found.log_weights.float()

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Have nothing to take back."""


def _learned(
    data: Tensor,
    config: JointConfig,
    seed: int,
    make: Callable[[TableEnergy, JointConfig, int], S],
    checkpoint: Path | None,
    *,
    generator: torch.Generator,
) -> tuple[TableEnergy, S, float]:
    """Learn an energy by maximum likelihood, and at last its sampler alone.

    Returns its averaged table, the sampler, which looks at that very table, and CPU
    seconds.
    """
    x_all = enumerate_states(2 * config.n_bits).float().to(data.device)
    energy = MLPEnergy(2 * config.n_bits, 128, 3, generator=make_generator(seed))
    energy = energy.to(data.device)
    averaged = copy.deepcopy(energy)
    adam = torch.optim.Adam(energy.parameters(), config.energy_learning_rate)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, config.n_steps)
    n = config.n_samples
    with torch.no_grad():
        known = TableEnergy(energy(x_all), 2 * config.n_bits)
    sampler = make(known, config, seed)
    held: dict[str, Tensor] = {}
    parts: dict[str, Any] = {
        "energy": energy,
        "averaged": averaged,
        "adam": adam,
        "rate": rate,
        "sampler": sampler,
    }
    loop = ResumableLoop(
        checkpoint,
        {"sampler": make.__name__, "seed": seed, **asdict(config)},
        parts,
        generator=generator,
        held=held,
    )
    for step in loop.steps(config.n_steps):
        with torch.no_grad():
            known.table = energy(x_all)
        try:
            sampler.learn(config.n_flow_steps, 1.0, generator=generator)
            if is_due := step % config.n_reused == 0:
                drawn, log_weights = sampler.draw(generator=generator)
        except DivergenceError as error:
            message = f"the energy diverged at step {step}: {error}"
            raise DivergenceError(message, step) from error
        if is_due:
            held |= {"drawn": drawn, "weights": log_weights + known(drawn)}
        drawn = held["drawn"]
        x = x_all[torch.multinomial(data, n, True, generator=generator)]
        share = (held["weights"] - known(drawn)).softmax(0)
        loss = energy(x).mean() - share @ energy(drawn)
        if not bool(loss.isfinite()):
            raise DivergenceError(f"the energy diverged at step {step}", step)
        adam.zero_grad()
        loss.backward()
        adam.step()
        rate.step()
        average_weights([*averaged.parameters()], [*energy.parameters()], step, 0.99)
    with torch.no_grad():
        known.table = averaged(x_all)
    falling = cosine(1.0, 0.0, config.n_last + 1)
    for step in loop.steps(config.n_last):
        sampler.learn(1, falling(step), generator=generator)
    return known, sampler, loop.seconds


def _follower(energy: TableEnergy, config: JointConfig, seed: int) -> FlowFollower:
    """Begin with a flow that has learned nothing."""
    path = AnnealingPath(energy)
    flow = new_flow(
        "DNFS",
        path,
        width=config.width,
        n_layers=config.n_layers,
        seed=seed,
        device=energy.table.device,
    )
    return FlowFollower(
        flow,
        _sweep(path, energy),
        n_trajectories=128,
        n_time_steps=config.n_time_steps,
        learning_rate=config.learning_rate,
    )


def _sweep(path: AnnealingPath, energy: TableEnergy) -> Kernel:
    """A Gibbs sweep, site by site."""
    return gibbs_kernel(path, torch.arange(path.n_sites, device=energy.table.device))


def joint_job(
    density: str,
    config: JointConfig,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy by maximum likelihood with a flow's weighted samples.

    A Gibbs sweep follows each step of the flow where it draws for the energy, so
    that these samples are good while the flow runs after an energy that changes.
    What is judged as "flow" has none.
    """
    data = plane_law(density, config.n_bits)
    there = data.to(device)
    generator = make_generator(seed, device)
    known, sampler, seconds = _learned(
        there, config, seed, _FlowSampler, checkpoint, generator=generator
    )
    follower = sampler.follower
    law = (-known.table.double()).softmax(0).cpu()
    flowed = flow_laws(follower.flow, 128, device=device)[-1].cpu()
    x_all = enumerate_states(2 * config.n_bits).float().to(device)
    held_out = torch.multinomial(there, 200, True, generator=generator)
    bound = _largest_rate(follower.flow, x_all)
    elbo = reverse_elbo(
        follower.flow, x_all[held_out], bound=2 * bound, generator=generator
    )
    # What the bound loses at each point: which points were drawn hardly matters.
    lost = flowed[held_out.cpu()].log() - elbo.cpu()
    null = independent_bits(data)
    scalars = {
        "entropy": entropy(data),
        "flow bound": judged(flowed, data)["KL"] + float(lost.mean()),
        "flow bound stderr": float(lost.std() / len(lost) ** 0.5),
    }
    for name, found in (("", law), ("flow ", flowed), ("null ", null)):
        scalars |= {name + k: v for k, v in judged(found, data).items()}
    pictures = {"data": data, "energy": law, "flow": flowed}
    return Outcome(
        {**scalars, "cpu s": seconds},
        {k: plane_picture(v).numpy().astype("float32") for k, v in pictures.items()},
    )


def sweeps_job(
    density: str, config: JointConfig, seed: int, checkpoint: Path | None = None
) -> Outcome:
    """Learn the same energy with the same sweeps, and no flow."""
    data = plane_law(density, config.n_bits)
    known, _, seconds = _learned(
        data, config, seed, _Sweeps, checkpoint, generator=make_generator(seed)
    )
    scalars = judged((-known.table.double()).softmax(0), data)
    null = {f"null {k}": v for k, v in judged(independent_bits(data), data).items()}
    return Outcome({**scalars, **null, "cpu s": seconds})


@torch.no_grad()
def _largest_rate(flow: Flow, x: Tensor) -> float:
    """Largest total rate of all states, outward or inward, on a grid of times."""
    met = [flow.terms(x, k / 8)[:2] for k in range(9)]
    return max(float(rates.sum(1).max()) for pair in met for rates in pair)
