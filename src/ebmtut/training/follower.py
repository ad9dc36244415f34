"""A flow that keeps up with an energy that is being learned.

Section 4.2 of Ou, Zhang and Li (2025): between two steps of the energy its sampler
takes a few of Algorithm 1. The flow reads the energy at every step as it then is, so
that nothing has to be told when it changes.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from ebmtut._gradients import with_gradients
from ebmtut.checks import Count, DivergenceError, Positive, checked
from ebmtut.flows import Flow, Kernel, RatioInfo, simulate
from ebmtut.losses.kolmogorov import kolmogorov_variance_loss
from ebmtut.random import check_generator
from ebmtut.training.flow import CountedFlow

__all__ = ["FlowFollower"]


class FlowFollower:
    """Algorithm 1 in small portions, with one rollout as its buffer.

    Parameters
    ----------
    refine
        Kernel applied after every step of the rollouts, such as a Gibbs sweep.
    n_trajectories, n_time_steps
        Chains and steps of a rollout.
    learning_rate
        Of Adam.
    inner_steps
        Optimiser steps from one rollout to the next.
    n_times, n_rows
        Distinct times in a batch, and trajectories whose states there are in the batch.
    """

    @checked
    def __init__(
        self,
        flow: Flow,
        refine: Kernel | None,
        *,
        n_trajectories: Count,
        n_time_steps: Count,
        learning_rate: Positive,
        inner_steps: Count = 20,
        n_times: Count = 8,
        n_rows: Count = 16,
    ) -> None:
        self.flow = flow
        self.refine = refine
        self.n_trajectories = n_trajectories
        self.n_time_steps = n_time_steps
        self.learning_rate = learning_rate
        self.inner_steps = inner_steps
        self.n_times = n_times
        self.n_rows = n_rows
        self._adam = torch.optim.Adam(flow.network.parameters(), learning_rate)
        self._states = torch.empty(0, dtype=torch.float32, device="cpu")
        self._n_taken = 0
        device = next(flow.network.parameters()).device
        self._largest = torch.tensor(-torch.inf, device=device, dtype=torch.float32)
        # Cut, and all, of the batches.
        self._counts = torch.zeros(2, dtype=torch.long, device=device)

    @property
    def max_log_ratio(self) -> float:
        """Largest log-ratio that its steps have met, NaN left out."""
        return float(self._largest)

    @property
    def n_clipped(self) -> int:
        """Number of clipped log-ratios in all batches, without those of rollouts."""
        return int(self._counts[0])

    @property
    def n_ratios(self) -> int:
        """Those that were met."""
        return int(self._counts[1])

    @property
    def clipped_share(self) -> float:
        """Fraction of the log-ratios that were clipped."""
        return self.n_clipped / max(1, self.n_ratios)

    def _drawn(self, info: RatioInfo) -> None:
        self._largest = torch.fmax(self._largest, info.largest)

    def _seen(self, info: RatioInfo) -> None:
        self._drawn(info)
        self._counts[0] += info.n_clipped
        self._counts[1] += info.n_ratios

    @with_gradients
    def fit(
        self, n_steps: int, *, generator: torch.Generator, share: float = 1.0
    ) -> None:
        """Take optimiser steps.

        Parameters
        ----------
        n_steps
            How many; every ``inner_steps``-th over all calls makes a new rollout.
        share
            Factor of the learning rate, less towards the end.

        Raises
        ------
        DivergenceError
            If a rollout is not finite.
        """
        check_generator(generator, self._counts.device)
        self._adam.param_groups[0]["lr"] = share * self.learning_rate
        counted = CountedFlow(self.flow, self._seen)
        for _ in range(n_steps):
            if self._n_taken % self.inner_steps == 0:
                self._states = self._rollout(generator)
            k, rows = (
                torch.randint(high, (n,), generator=generator, device=generator.device)
                for high, n in (
                    (self.n_time_steps + 1, self.n_times),
                    (self.n_trajectories, self.n_rows),
                )
            )
            x, t = self._states[k][:, rows], k.float() / self.n_time_steps
            loss = kolmogorov_variance_loss(counted, x, t)
            self._adam.zero_grad()
            loss.backward()
            self._adam.step()
            self._n_taken += 1

    def _rollout(self, generator: torch.Generator) -> Tensor:
        try:
            drawn = simulate(
                CountedFlow(self.flow, self._drawn),
                self.n_trajectories,
                self.n_time_steps,
                refine=self.refine,
                keep_states=True,
                generator=generator,
            )
        except DivergenceError as error:
            raise DivergenceError(
                f"flow diverged at step {self._n_taken}: its largest log-ratio was "
                f"{self.max_log_ratio:.3g}; try a smaller learning_rate "
                f"({self.learning_rate})",
                self._n_taken,
            ) from error
        return cast(Tensor, drawn.states)

    def state_dict(self) -> dict[str, Any]:
        """Return what the next step begins from, the network with it."""
        return {
            "network": self.flow.network.state_dict(),
            "adam": self._adam.state_dict(),
            "states": self._states,
            "n_taken": self._n_taken,
            "largest": self._largest,
            "counts": self._counts.clone(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go to where `state_dict` was asked for."""
        self.flow.network.load_state_dict(state_dict["network"])
        self._adam.load_state_dict(state_dict["adam"])
        device = next(self.flow.network.parameters()).device
        self._states = state_dict["states"].to(device)
        self._n_taken = state_dict["n_taken"]
        self._largest = state_dict["largest"].to(device)
        counts = state_dict.get("counts", torch.zeros_like(self._counts))
        self._counts = counts.to(device).clone()
