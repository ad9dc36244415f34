"""One step of a single energy, as it is and as a GPU replays it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ebmtut.checks import DivergenceError, InputError
from ebmtut.tensor_checks import PostponedChecks, check_shape, postponed_checks
from ebmtut.training._cuda_graph import CapturedStep
from ebmtut.training.distributed import worst_of_all


class Found(NamedTuple):
    """What a step has found, not read yet: loss, gradient's norm, flags of checks."""

    numbers: Tensor
    checks: PostponedChecks

    def read(self) -> tuple[float, float]:
        """Wait for the GPU, once; return the loss and the gradient's norm."""
        loss, norm, *flags = self.numbers.tolist()
        self.checks.tell(flags)
        return loss, norm


@dataclass
class TrainStep:
    """Evaluate a loss and its gradient; the optimiser has not moved yet."""

    objective: Callable[..., Tensor]
    parameters: Sequence[Tensor]
    optimizer: torch.optim.Adam
    generator: torch.Generator
    precision: Callable[[], AbstractContextManager[Any]]
    clip_norm: float

    def __call__(self, x: Tensor) -> Found:
        """Do so for one batch.

        Raises
        ------
        DivergenceError
            If the loss says so, in any process.
        """
        lost: DivergenceError | None = None
        try:
            with self.precision(), postponed_checks() as checks:
                value = self.objective(x, generator=self.generator)
        except DivergenceError as error:
            lost = error
        # All processes stop at the same step, or none: each waits for the others.
        if worst_of_all(int(lost is not None), self.parameters[0].device):
            # The loop knows at which step.
            raise lost or DivergenceError("in another process", 0)
        check_shape("loss(energy, x)", value, ())
        self.optimizer.zero_grad(set_to_none=True)
        value.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.clip_norm)
        told = (value.detach(), norm, *checks.flags)
        return Found(torch.stack([t.to(norm) for t in told]), checks)


class RecordedStep:
    """The same, and Adam's move, of batches that lie in one place: a CUDA graph."""

    def __init__(self, step: TrainStep, stream: torch.cuda.Stream) -> None:
        self._step = step
        self._batch: Tensor | None = None
        self._captured = CapturedStep(
            self._advance, [step.generator], step.optimizer, stream
        )

    def _advance(self, living: tuple[int, ...]) -> Found:
        assert self._batch is not None
        found = self._step(self._batch)
        self._step.optimizer.step()
        return found

    def __call__(self, x: Tensor) -> Found:
        """Do so for one batch.

        Raises
        ------
        DivergenceError
            If the loss says so.
        """
        if self._batch is None:
            self._batch = x.clone()
        if x.shape != self._batch.shape:
            raise InputError(
                "cuda_graph=True needs batches of one shape, got "
                f"{tuple(self._batch.shape)} and then {tuple(x.shape)}"
            )
        self._batch.copy_(x)
        return self._captured(())
