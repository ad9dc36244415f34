"""Training of a flow: rollouts, a replay buffer, and the package's training loop.

Algorithm 1 of Ou, Zhang and Li (2025): the present flow fills a buffer with sampled
trajectories; the network is fitted to batches from the buffer for a number of inner
steps; then new trajectories are sampled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut._gradients import with_gradients
from ebmtut._layers import linear
from ebmtut.checks import Count, DivergenceError, InputError, OneOf, Range, checked
from ebmtut.flows import Flow, FlowTerms, Kernel, RatioInfo, TimeFeatures, simulate
from ebmtut.losses.kolmogorov import (
    kolmogorov_residual,
    kolmogorov_variance_loss,
    log_partition_slope,
)
from ebmtut.paths import Time
from ebmtut.random import check_generator, make_generator, spawn_seed
from ebmtut.training.loop import TrainConfig, train

__all__ = ["FlowConfig", "FlowTraining", "train_flow"]


@checked
@dataclass(frozen=True)
class FlowConfig:
    """How the rollouts and the loss of a flow's training are made.

    Parameters
    ----------
    objective
        Where c_t comes from. "batch": the mean of xi_t over a batch's states of one
        time. "stein": the mean over a rollout when it was made, the paper's coordinate
        descent. "plain": without the control variate. "learned": LEAPS' network of t.
    n_time_steps, n_trajectories, n_rollouts
        Steps and chains of a rollout, and rollouts that the buffer holds.
    inner_steps
        Optimiser steps from one rollout to the next.
    n_times
        Distinct times in a batch, for "batch" alone; divides the batch.
    method
        Simulation of the rollouts, as in `ebmtut.flows.simulate`.
    """

    objective: Annotated[str, OneOf(("batch", "stein", "plain", "learned"))] = "batch"
    n_time_steps: Count = 64
    n_trajectories: Annotated[int, Range(low=2)] = 128
    n_rollouts: Count = 4
    inner_steps: Count = 100
    n_times: Count = 16
    method: Annotated[str, OneOf(("euler", "tau_leaping"))] = "tau_leaping"


@dataclass
class FlowTraining:
    """What training a flow leaves behind.

    Attributes
    ----------
    flow
        The flow with averaged weights.
    losses
        Loss of every step, float32.
    slope_spread
        (n_drawn, 2), mean over times of the standard deviation of xi_t in each rollout,
        and of the time derivative alone.
    n_clipped
        Clipped log-ratios in all batches.
    n_ratios
        Log-ratios in all batches.
    cpu_seconds
        Of all goes of a run that was resumed, as far as they were kept.
    """

    flow: Flow
    losses: np.ndarray
    slope_spread: np.ndarray
    n_clipped: int
    n_ratios: int
    max_log_ratio: float
    cpu_seconds: float

    @property
    def clipped_share(self) -> float:
        """Fraction of the log-ratios that were clipped."""
        return self.n_clipped / max(1, self.n_ratios)


class _Learner(nn.Module):
    """The network, and the slope that LEAPS learns beside it."""

    def __init__(
        self, network: nn.Module, learned: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.network = network
        self.slope: nn.Module | None = None
        if learned:
            source = generator
            if generator.device.type != "cpu":
                source = make_generator(spawn_seed(generator))
            self.slope = nn.Sequential(
                TimeFeatures(32, generator=source), nn.SiLU(), linear(32, 1, source)
            ).to(generator.device)


class _Buffer:
    """Trajectories of the last rollouts, in tensors that a checkpoint keeps."""

    def __init__(
        self, flow: Flow, config: FlowConfig, n_draws: int, device: torch.device
    ) -> None:
        n_times = config.n_time_steps + 1
        shape = (config.n_rollouts, n_times, config.n_trajectories, flow.path.n_sites)
        self.config = config
        of: Any = {"dtype": torch.float32, "device": device}
        self.tensors = {
            "states": torch.zeros(shape, dtype=torch.uint8, device=device),
            "slopes": torch.zeros(config.n_rollouts, n_times, **of),
            "spread": torch.zeros(n_draws, 2, dtype=torch.float32, device="cpu"),
            "step": torch.zeros((), dtype=torch.long, device="cpu"),
            "n_clipped": torch.zeros((), dtype=torch.long, device=device),
            "n_ratios": torch.zeros((), dtype=torch.long, device=device),
            "max_log_ratio": torch.tensor(-torch.inf, **of),
            "cpu_seconds": torch.zeros((), dtype=torch.float64, device="cpu"),
        }
        # Of the rollouts, for the words of a divergence alone.
        self.largest_drawn = torch.tensor(-torch.inf, **of)
        self._clock = time.process_time()

    def refill(
        self, flow: Flow, refine: Kernel | None, generator: torch.Generator
    ) -> None:
        """Draw one rollout in the place of the oldest."""
        config = self.config
        drawn = simulate(
            CountedFlow(flow, self._drawn),
            config.n_trajectories,
            config.n_time_steps,
            generator=generator,
            method=config.method,
            refine=refine,
            keep_states=True,
        )
        assert drawn.states is not None and drawn.xi is not None
        derivative = torch.stack([flow.path.time_derivative(x) for x in drawn.states])
        count = int(self.tensors["step"]) // config.inner_steps
        place = count % config.n_rollouts
        plain = derivative if config.objective == "plain" else None
        self.tensors["states"][place] = drawn.states.to(torch.uint8)
        self.tensors["slopes"][place] = log_partition_slope(drawn.xi, plain)
        spread = torch.stack([v.std(1).mean() for v in (drawn.xi, derivative)])
        self.tensors["spread"][count] = spread

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Rollout, time and trajectory of the states of one batch, (n, 3)."""
        config = self.config
        held = 1 + int(self.tensors["step"]) // config.inner_steps

        def index(high: int, size: int) -> Tensor:
            device = generator.device
            return torch.randint(high, (size,), generator=generator, device=device)

        n_times = config.n_times if config.objective == "batch" else n
        time = index(config.n_time_steps + 1, n_times).repeat_interleave(n // n_times)
        rollout = index(min(held, config.n_rollouts), n)
        return torch.stack([rollout, time, index(config.n_trajectories, n)], 1)

    def tick(self) -> None:
        """Add the CPU time since the last call."""
        now = time.process_time()
        self.tensors["cpu_seconds"] += now - self._clock
        self._clock = now

    def _drawn(self, info: RatioInfo) -> None:
        self.largest_drawn.clamp_(min=info.largest)

    def seen(self, info: RatioInfo) -> None:
        """Count what a batch's ratios were."""
        self.tensors["n_clipped"] += info.n_clipped
        self.tensors["n_ratios"] += info.n_ratios
        self.tensors["max_log_ratio"].clamp_(min=info.largest)


@with_gradients
@checked
def train_flow(
    flow: Flow,
    config: FlowConfig,
    optimizer: TrainConfig,
    *,
    generator: torch.Generator,
    refine: Kernel | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1000,
    identity: Mapping[str, Any] | None = None,
    on_step: Callable[[int, Flow], None] | None = None,
    cuda_graph: bool = False,
    progress: bool = False,
) -> FlowTraining:
    """Train a flow to follow its path.

    Parameters
    ----------
    generator
        Source of all randomness, on the device of the network.
    refine
        Kernel after every step of the rollouts, such as a Gibbs sweep (`gibbs_kernel`).
    checkpoint, checkpoint_every, identity, cuda_graph, progress
        As in `ebmtut.training.train`; what a GPU records is a step, not a rollout.
    on_step
        Called with (step, flow of averaged weights) after every step.

    Raises
    ------
    DivergenceError
        If the loss or a rollout is not finite; names the step and the largest ratio.
    """
    n_times = config.n_times
    if config.objective == "batch" and (
        optimizer.batch_size % n_times or optimizer.batch_size < 2 * n_times
    ):
        raise InputError(
            "batch_size must be at least twice n_times and divided by it, got "
            f"{optimizer.batch_size} and {n_times}"
        )
    device = next(flow.network.parameters()).device
    check_generator(generator, device)
    learner = _Learner(flow.network, config.objective == "learned", generator)
    n_draws = -(-optimizer.n_steps // config.inner_steps)
    buffer = _Buffer(flow, config, n_draws, device)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        if int(buffer.tensors["step"]) % config.inner_steps == 0:
            buffer.refill(flow, refine, generator)
        index = buffer.draw(n, generator)
        buffer.tensors["step"] += 1
        return index

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        rollout, time, row = x.unbind(1)
        x = buffer.tensors["states"][rollout, time, row].float()
        t = time.float() / config.n_time_steps
        counted = CountedFlow(flow, buffer.seen)
        if config.objective == "batch":
            x = x.unflatten(0, (n_times, -1))
            t = t.unflatten(0, x.shape[:2])[:, 0]
            return kolmogorov_variance_loss(counted, x, t)
        if learner.slope is None:
            slope = buffer.tensors["slopes"][rollout, time]
        else:
            slope = learner.slope(t).squeeze(1)
        return kolmogorov_residual(counted, x, t, slope).square().mean()

    def after(step: int, averaged: nn.Module) -> None:
        buffer.tick()
        if on_step is not None:
            on_step(step, flow.with_network(_network_of(averaged)))

    try:
        result = train(
            learner,
            loss,
            sample,
            optimizer,
            generator=generator,
            buffers=buffer.tensors,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            identity=None if identity is None else {**identity, **asdict(config)},
            on_step=after,
            cuda_graph=cuda_graph,
            progress=progress,
            label="flow",
        )
    except DivergenceError as error:
        met = buffer.largest_drawn, buffer.tensors["max_log_ratio"]
        largest = max(map(float, met))
        raise DivergenceError(
            f"flow diverged at step {error.step}: its largest log-ratio was "
            f"{largest:.3g}; try a smaller learning_rate ({optimizer.learning_rate})",
            error.step,
        ) from error
    return FlowTraining(
        flow.with_network(_network_of(result.energy)),
        result.losses,
        buffer.tensors["spread"].numpy(),
        int(buffer.tensors["n_clipped"]),
        int(buffer.tensors["n_ratios"]),
        float(buffer.tensors["max_log_ratio"]),
        float(buffer.tensors["cpu_seconds"]),
    )


def _network_of(learner: nn.Module) -> nn.Module:
    assert isinstance(learner, _Learner)
    return learner.network


class CountedFlow(Flow):
    """A flow that reports the log-ratios of its evaluations."""

    def __init__(self, flow: Flow, seen: Callable[[RatioInfo], None]) -> None:
        self.__dict__.update(flow.__dict__)
        self._seen = seen

    def evaluate(self, x: Tensor, t: Time) -> tuple[FlowTerms, RatioInfo]:
        """Return the flow's own terms, and report the log-ratios."""
        terms, info = super().evaluate(x, t)
        self._seen(info)
        return terms, info
