"""How one flow learns the problems of many graphs.

As `ebmtut.training.train_flow`, with a rollout of other graphs each time. The slope
c_t belongs to a graph and a time, so a batch holds some graphs, one time for each,
and all chains of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut._gradients import with_gradients
from ebmtut.checks import (
    Count,
    DivergenceError,
    Probability,
    Range,
    check_range,
    checked,
)
from ebmtut.energies import GraphEnergy
from ebmtut.flows import Flow, Kernel, RatioInfo, simulate
from ebmtut.flows.graphs import GraphWeights
from ebmtut.losses.kolmogorov import kolmogorov_variance_loss
from ebmtut.paths import AnnealingPath
from ebmtut.random import check_generator
from ebmtut.samplers import ColorGibbsState, vertex_gibbs
from ebmtut.training.clock import CpuClock
from ebmtut.training.flow import CountedFlow
from ebmtut.training.loop import TrainConfig, train

__all__ = ["GraphFlowConfig", "GraphFlowTraining", "flow_on", "train_graph_flow"]

#: Where annealing of the temperature begins, Ou et al. (2025), Appendix E.3.
FIRST_INVERSE_TEMPERATURE = 0.1


@checked
@dataclass(frozen=True)
class GraphFlowConfig:
    """How the rollouts of a graph flow's training are made.

    Parameters
    ----------
    n_graphs, n_copies
        Graphs of a rollout, and chains of each; a batch is their product.
    n_time_steps, n_rollouts
        Steps of a rollout, and rollouts that the buffer holds.
    inner_steps
        Optimiser steps from one rollout to the next.
    anneal
        Fraction of the steps over which the inverse temperature rises from 0.1.
    """

    n_graphs: Count = 16
    n_copies: Annotated[int, Range(low=2)] = 16
    n_time_steps: Count = 32
    n_rollouts: Count = 4
    inner_steps: Count = 50
    anneal: Probability = 0.0

    def inverse_temperature_at(self, step: int, n_steps: int, last: float) -> float:
        """Return 1/T at a step (0-based) of a training whose problem has ``last``."""
        rising = self.anneal * n_steps
        if step >= rising:
            return last
        first = min(FIRST_INVERSE_TEMPERATURE, last)
        return first + (last - first) * step / rising


class GraphFlowTraining(NamedTuple):
    """What training leaves behind.

    Attributes
    ----------
    weights
        Averaged.
    """

    weights: GraphWeights
    losses: np.ndarray
    cpu_seconds: float
    max_log_ratio: float


@checked
def flow_on(weights: GraphWeights, problem: GraphEnergy) -> Flow:
    """Return the flow from uniform bits to a problem's distribution, on its graphs."""
    return Flow(AnnealingPath(problem), weights.on(problem.graphs))


@with_gradients
@checked
def train_graph_flow(
    weights: GraphWeights,
    problem: GraphEnergy,
    config: GraphFlowConfig,
    optimizer: TrainConfig,
    *,
    generator: torch.Generator,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 200,
    identity: Mapping[str, Any] | None = None,
) -> GraphFlowTraining:
    """Train shared weights on the graphs of a problem.

    Rollouts are refined by a Gibbs sweep after each step.

    Parameters
    ----------
    checkpoint, checkpoint_every, identity
        As in `ebmtut.training.train`.

    Raises
    ------
    DivergenceError
        If the loss or a rollout is not finite; names the step and the largest ratio.
    """
    graphs = problem.graphs
    device = graphs.adjacency.device
    check_generator(generator, device)
    check_range("n_graphs", config.n_graphs, low=1, high=len(graphs), integer=True)
    n_states = config.n_graphs * config.n_copies
    shape = config.n_rollouts, config.n_time_steps + 1, n_states, graphs.n_sites
    buffers = {
        "states": torch.zeros(shape, dtype=torch.uint8, device=device),
        "graphs": torch.zeros(
            config.n_rollouts, config.n_graphs, dtype=torch.long, device=device
        ),
        "step": torch.zeros((), dtype=torch.long, device="cpu"),
        "max_log_ratio": torch.tensor(-torch.inf, device=device, dtype=torch.float32),
    }
    # Of the rollouts, for the words of a divergence alone.
    largest_drawn = torch.tensor(-torch.inf, device=device, dtype=torch.float32)
    clock = CpuClock()

    def noted(info: RatioInfo) -> None:
        largest_drawn.clamp_(min=info.largest)

    def seen(info: RatioInfo) -> None:
        buffers["max_log_ratio"].clamp_(min=info.largest)

    def problem_now(chosen: Tensor) -> GraphEnergy:
        # A step has been counted when its batch was drawn.
        step = int(buffers["step"]) - 1
        beta = config.inverse_temperature_at(
            step, optimizer.n_steps, problem.inverse_temperature
        )
        return problem.of(graphs.select(chosen)).at(beta)

    def refill(place: int) -> None:
        order = torch.randperm(len(graphs), generator=generator, device=device)
        chosen = order[: config.n_graphs]
        part = problem_now(chosen)
        drawn = simulate(
            CountedFlow(flow_on(weights, part), noted),
            n_states,
            config.n_time_steps,
            generator=generator,
            refine=sweep_kernel(part),
            keep_states=True,
        )
        assert drawn.states is not None
        buffers["graphs"][place] = chosen
        buffers["states"][place, ..., : part.n_sites] = drawn.states.to(torch.uint8)

    def sample(n: int, *, generator: torch.Generator) -> Tensor:
        count, inner = divmod(int(buffers["step"]), config.inner_steps)
        buffers["step"] += 1
        if inner == 0:
            refill(count % config.n_rollouts)
        held = min(count + 1, config.n_rollouts)
        place = torch.randint(held, (1,), generator=generator, device=device)
        n_times, shape = config.n_time_steps + 1, (config.n_graphs,)
        time = torch.randint(n_times, shape, generator=generator, device=device)
        return torch.cat([place, time])

    def loss(energy: nn.Module, x: Tensor, *, generator: torch.Generator) -> Tensor:
        assert isinstance(energy, GraphWeights)
        place, time = int(x[0]), x[1:]
        part = problem_now(buffers["graphs"][place])
        states = buffers["states"][place].unflatten(1, (config.n_graphs, -1))
        graph = torch.arange(config.n_graphs, device=device)
        states = states[time, graph, :, : part.n_sites]
        t = time.float() / config.n_time_steps
        flow = CountedFlow(flow_on(energy, part), seen)
        return kolmogorov_variance_loss(flow, states.float(), t)

    try:
        result = train(
            weights,
            loss,
            sample,
            optimizer,
            generator=generator,
            buffers={**buffers, "cpu_seconds": clock.seconds},
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            identity=None if identity is None else {**identity, **asdict(config)},
            on_step=clock.tick,
            label="graph flow",
        )
    except DivergenceError as error:
        largest = max(map(float, (largest_drawn, buffers["max_log_ratio"])))
        raise DivergenceError(
            f"graph flow diverged at step {error.step}: its largest log-ratio was "
            f"{largest:.3g}; try a smaller learning_rate ({optimizer.learning_rate})",
            error.step,
        ) from error
    assert isinstance(result.energy, GraphWeights)
    return GraphFlowTraining(
        result.energy,
        result.losses,
        float(clock.seconds),
        float(buffers["max_log_ratio"]),
    )


def sweep_kernel(problem: GraphEnergy) -> Kernel:
    """A Gibbs sweep at time t of the path to a problem."""

    def kernel(x: Tensor, t: float, *, generator: torch.Generator) -> Tensor:
        sampler = vertex_gibbs(problem.at(t * problem.inverse_temperature))
        state = ColorGibbsState(x)  # of a rollout: bits, which nobody need look at
        return sampler.step(state, generator=generator)[0].x

    return kernel
