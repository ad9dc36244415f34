"""Couplings of a magnet by maximum likelihood, in turns with a sampler that follows.

Source: Ou, Zhang and Li (2025), Section 4.2 and Appendix E.2.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, DivergenceError, OneOf, Positive, Range, checked
from ebmtut.energies import Ising
from ebmtut.experiments.ed.couplings import PROBLEMS
from ebmtut.flows import (
    Flow,
    HollowTransformer,
    Kernel,
    OddLatticeNetwork,
    dmala_kernel,
    effective_sample_size,
    simulate,
)
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.samplers import annealed_importance_sampling, ising_gibbs
from ebmtut.training import FlowFollower, ResumableLoop, average_weights

METHODS = ("DNFS", "AIS", "DNFS+DMALA", "PCD")


@checked
@dataclass(frozen=True)
class LearningConfig:
    """Which lattices, and how couplings and sampler are learned together.

    Parameters
    ----------
    problems
        Pairs (side, sigma): J is sigma times the adjacency of the periodic
        side x side lattice.
    methods
        "DNFS", the flow's weighted samples; "AIS", those of annealed importance
        sampling with as many steps, which learns no sampler; "DNFS+DMALA", the flow
        with one DMALA step after each of its own; and "PCD", chains that go on from one
        step of the couplings to the next by a Gibbs sweep, unweighted.
    n_seeds
        Independent data sets and runs; run k has seed ``seed + k``.
    n_data, n_sweeps
        Samples of the data, and Gibbs sweeps that each of them takes.
    n_steps, learning_rate
        Of the couplings, by Adam with a cosine decay.
    penalty
        Weight of the l1 norm of J in the mean energy, the paper's 0.05.
    n_flow_steps, flow_learning_rate
        Of the flow, for each step of the couplings.
    n_time_steps, n_samples
        Of a simulation.
    network
        "odd lattice", ours, with reversible rates and DMALA steps in its rollouts; or
        "leTF", the paper's, with one-way rates, ratios cut at 5 and rollouts of the
        flow alone.
    width, n_hidden
        Size of the flow's network; leTF has no hidden width of its own.
    step_size
        Of the DMALA steps: between the time steps of the flow's training
        rollouts, and of AIS.
    """

    problems: tuple[tuple[int, float], ...] = PROBLEMS
    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = ("DNFS", "AIS")
    n_seeds: Count = 1
    n_data: Count = 2000
    n_sweeps: Count = 10_000
    n_steps: Count = 600
    learning_rate: Positive = 2e-3
    penalty: Annotated[float, Range(0)] = 0.05
    n_flow_steps: Count = 3
    flow_learning_rate: Positive = 2e-3
    n_time_steps: Count = 16
    n_samples: Annotated[int, Range(16)] = 128
    network: Annotated[str, OneOf(("odd lattice", "leTF"))] = "odd lattice"
    width: Count = 16
    n_hidden: Count = 32
    step_size: Positive = 0.3


class LearnedCouplings(NamedTuple):
    """What `learn_couplings` finds.

    Attributes
    ----------
    coupling
        Average of the last couplings, symmetric with a zero diagonal.
    shares
        ESS of the samples' weights at every step.
    cpu_seconds
        Of all goes.
    """

    coupling: Float[Tensor, "n_sites n_sites"]
    shares: Float[Tensor, " n_steps"]
    cpu_seconds: float


def learn_couplings(
    x: Float[Tensor, "n_data n_sites"],
    side: int,
    method: str,
    config: LearningConfig,
    *,
    seed: int,
    checkpoint: Path | None = None,
) -> LearnedCouplings:
    """Learn the couplings of bits on a lattice by maximum likelihood.

    The gradient is the difference of the second moments of the data and of the
    sampler's weighted draws (Equation 44). The couplings know nothing of the
    lattice; the flow's network, unless it is leTF, does know that sites lie on a torus.
    """
    generator = make_generator(seed, x.device)
    start = torch.zeros(side**2, side**2, device=x.device)
    energy = Ising(start, learnable=True)
    path = AnnealingPath(energy)
    kernel = dmala_kernel(path, config.step_size)
    sizes = config.n_samples, config.n_time_steps
    follower = None
    if method.startswith("DNFS"):
        follower = _follower(path, kernel, side, config, seed, x.device)
    adam = torch.optim.Adam(energy.parameters(), config.learning_rate)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, config.n_steps)
    held = {
        "averaged": torch.zeros_like(energy.coupling),
        "shares": torch.zeros(config.n_steps, device=x.device),
    }
    if method == "PCD":
        held["chains"] = path.sample_start(config.n_samples, generator=generator)
    parts: dict[str, Any] = {"energy": energy, "adam": adam, "rate": rate}
    if follower is not None:
        parts["follower"] = follower
    loop = ResumableLoop(
        checkpoint,
        {"side": side, "method": method, "seed": seed, **asdict(config)},
        parts,
        generator=generator,
        held=held,
    )
    spins = 2 * x - 1
    wanted = spins.T @ spins / len(spins)
    for step in loop.steps(config.n_steps):
        if method == "PCD":
            drawn = ising_gibbs(energy, held["chains"], 1, generator=generator)
            held["chains"], log_weights = drawn, torch.zeros_like(drawn[:, 0])
        elif follower is None:
            annealed = annealed_importance_sampling(
                path, kernel, *sizes, generator=generator
            )
            drawn, log_weights = annealed.x, annealed.log_weights.float()
        else:
            refine = kernel if method == "DNFS+DMALA" else None
            try:
                follower.fit(config.n_flow_steps, generator=generator)
                rollout = simulate(
                    follower.flow, *sizes, refine=refine, generator=generator
                )
            except DivergenceError as error:
                message = f"the couplings diverged at step {step}: {error}"
                raise DivergenceError(message, step) from error
            drawn, log_weights = rollout.x, rollout.log_weights
        spins = 2 * drawn - 1
        found = (spins.T * log_weights.softmax(0)) @ spins
        with torch.no_grad():
            slope = found - wanted + config.penalty * energy.coupling.sign()
        energy.coupling.grad = slope.fill_diagonal_(0)
        adam.step()
        rate.step()
        if not bool(energy.coupling.isfinite().all()):
            raise DivergenceError(f"the couplings diverged at step {step}", step)
        held["shares"][step] = effective_sample_size(log_weights)
        average_weights([held["averaged"]], [energy.coupling], step, 0.98)
    learned = (held["averaged"] + held["averaged"].T) / 2
    return LearnedCouplings(learned, held["shares"].cpu(), loop.seconds)


def _follower(
    path: AnnealingPath,
    kernel: Kernel,
    side: int,
    config: LearningConfig,
    seed: int,
    device: torch.device,
) -> FlowFollower:
    """Begin with a flow that has learned nothing."""
    refine: Kernel | None = kernel
    if config.network == "leTF":
        network = HollowTransformer(
            side**2, width=config.width, generator=make_generator(seed)
        )
        flow = Flow(path, network.to(device), rates="one_way", max_log_ratio=5.0)
        refine = None
    else:
        odd = OddLatticeNetwork(side, width=config.width, n_hidden=config.n_hidden)
        flow = Flow(path, odd.to(device))
    return FlowFollower(
        flow,
        refine,
        n_trajectories=config.n_samples,
        n_time_steps=config.n_time_steps,
        learning_rate=config.flow_learning_rate,
    )
