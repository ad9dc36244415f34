"""What the rows of graph problems hold a flow to: chains that learn nothing.

All draw states of the same graphs, and chains make as many evaluations of the
energy's ratios as the flow does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ebmtut.energies import GraphEnergy, MaxIndependentSet
from ebmtut.flows import dmala_kernel, simulate
from ebmtut.flows.graph_gflownet import SetPolicy, set_ways
from ebmtut.flows.graphs import GraphWeights
from ebmtut.samplers import (
    anneal,
    dmala,
    greedy_independent_set,
    repair_independent_set,
    vertex_gibbs,
)
from ebmtut.training.graph_flow import flow_on


class Judge:
    """Scores of methods on the same graphs, of one state and of the best of each.

    Parameters
    ----------
    problem
        Energy at the path's end.
    n_copies
        States that each method draws for each graph.
    n_time_steps
        Steps of a flow, and temperatures of an annealing.
    step_size
        DMALA's.
    generator
        Source of all randomness, where the graphs lie.

    Attributes
    ----------
    scalars
        What was found so far: the mean score by the method's name, "...: best",
        the mean of the best of each graph's states, and "...: CPU seconds".
    """

    def __init__(
        self,
        problem: GraphEnergy,
        *,
        n_copies: int,
        n_time_steps: int,
        step_size: float,
        generator: torch.Generator,
    ) -> None:
        self.problem = problem
        self.graphs = problem.graphs
        self.n_copies = n_copies
        self.n_time_steps = n_time_steps
        self.step_size = step_size
        self.generator = generator
        self.scalars: dict[str, float] = {}

    def record(self, name: str, draw: Callable[[], Tensor]) -> None:
        """Draw states and keep their score, the best one's, and CPU seconds."""
        start = time.thread_time()
        x = draw()
        if isinstance(self.problem, MaxIndependentSet):
            x = repair_independent_set(self.graphs, x)
        seconds = time.thread_time() - start
        score = self.problem.score(x).unflatten(0, (len(self.graphs), -1))
        self.scalars[name] = float(score.mean())
        self.scalars[f"{name}: best"] = float(score.amax(1).mean())
        self.scalars[f"{name}: CPU seconds"] = seconds

    def coins(self) -> Tensor:
        """Toss coins for all states."""
        shape = self.n_states, self.graphs.n_sites
        device = self.generator.device
        return torch.randint(2, shape, generator=self.generator, device=device).float()

    @property
    def n_states(self) -> int:
        """States of all graphs."""
        return len(self.graphs) * self.n_copies

    def flow(self, name: str, weights: GraphWeights, n_refine: int) -> None:
        """Follow the flow, with DMALA steps after each of its steps."""
        flow = flow_on(weights, self.problem)
        kernel = None
        if n_refine:
            kernel = dmala_kernel(flow.path, self.step_size, n_refine)

        def draw() -> Tensor:
            return simulate(
                flow,
                self.n_states,
                self.n_time_steps,
                generator=self.generator,
                refine=kernel,
            ).x

        self.record(name, draw)

    def chain(self, name: str, n_refine: int, *, langevin: bool) -> None:
        """Anneal chains with as many evaluations of the ratios as the flow makes.

        A flow makes 1 at each time, and its refinement 1 and 1 for each step. So do
        the chains: half as many temperatures where there is no refinement.
        """
        n_times = self.n_time_steps // (1 if n_refine else 2)

        def kernel(beta: float) -> Any:
            energy = self.problem.at(beta)
            if langevin:
                return dmala(energy, self.step_size, "exact")
            return vertex_gibbs(energy)

        def draw() -> Tensor:
            top = self.problem.inverse_temperature
            betas = [top * (k + 1) / n_times for k in range(n_times)]
            return anneal(
                kernel,
                self.coins(),
                betas,
                generator=self.generator,
                n_steps=n_refine + 1,
            )

        self.record(name, draw)

    def gflownet(self, name: str, policy: SetPolicy) -> None:
        """Add vertices as a policy says, until none is free."""

        @torch.no_grad()
        def draw() -> Tensor:
            n = self.n_copies
            return set_ways(policy, self.graphs, n, generator=self.generator).x

        self.record(name, draw)

    def greedy(self) -> None:
        """Add vertices in random order; for cuts, one sweep that only improves."""

        def draw() -> Tensor:
            n = self.n_copies
            if isinstance(self.problem, MaxIndependentSet):
                return greedy_independent_set(self.graphs, n, generator=self.generator)
            frozen = vertex_gibbs(self.problem.at(1e6))
            return anneal(
                lambda _: frozen, self.coins(), [0.0], generator=self.generator
            )

        self.record("greedy", draw)
