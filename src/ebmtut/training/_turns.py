"""Losses that take turns: each goes on until it asks for energies.

They are written for one energy. When all have asked, all are answered by one call of
the stacked energies. A loss waits for its answer in a thread of its own, which runs
only while it is waited for. On a GPU that records a step, what belongs to one model
alone may go through a stream of its own, beside those of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ebmtut.checks import DivergenceError
from ebmtut.training._stack import Stack
from ebmtut.training.loop import Loss

# A step of 21 models took 5.6 ms on an H200 with one, 3.6 with four.
_N_STREAMS = 8


class _Ended(Exception):
    """The loss is not wanted any more."""


class _Turn:
    """A loss in a thread of its own, which runs only while it is waited for."""

    def __init__(self) -> None:
        self._told: SimpleQueue[Any] = SimpleQueue()
        self._said: SimpleQueue[Any] = SimpleQueue()
        Thread(target=self._serve, daemon=True).start()

    def goes_on(self, message: Any) -> Any:
        """Tell it a task, or an answer; hear what it says next."""
        self._told.put(message)
        return self._said.get()

    def ends(self) -> None:
        """End its thread."""
        self._told.put(None)

    def _serve(self) -> None:
        while (task := self._told.get()) is not None:
            try:
                self._said.put(task())
            except _Ended:
                return
            except Exception as error:
                self._said.put(error)

    def ask(self, x: Tensor) -> Tensor:
        """Ask for energies, and wait for the answer."""
        self._said.put((x, torch.is_grad_enabled()))
        answer: Tensor | None = self._told.get()
        if answer is None:
            raise _Ended
        return answer


class _Asking(nn.Module):
    """Stands for an energy: asks for its values."""

    def __init__(self, turn: _Turn) -> None:
        super().__init__()
        self._turn = turn

    def forward(self, x: Tensor) -> Tensor:
        """Wait for the energies of states."""
        return self._turn.ask(x)


class SideStreams:
    """Streams of a GPU for kernels that belong to one model; none without a stream.

    Work begun between `fork` and `join` sees what the main stream did before, and the
    main stream then sees it.
    """

    def __init__(self, main: torch.cuda.Stream | None) -> None:
        self._main = main
        n_streams = 0 if main is None else _N_STREAMS
        self._sides = [torch.cuda.Stream() for _ in range(n_streams)]

    def of(self, k: int) -> torch.cuda.Stream | None:
        """Return the stream of a model."""
        return self._sides[k % _N_STREAMS] if self._sides else None

    def fork(self) -> None:
        """Let the sides wait for what the main stream was told."""
        if self._main is not None:
            for side in self._sides:
                side.wait_stream(self._main)

    def join(self) -> None:
        """Let the main stream wait for the sides."""
        if self._main is not None:
            for side in self._sides:
                self._main.wait_stream(side)


class Turns:
    """All losses, each of which goes on until it asks for energies."""

    def __init__(
        self, losses: Sequence[Loss], stream: torch.cuda.Stream | None = None
    ) -> None:
        self._losses, self.sides = losses, SideStreams(stream)
        self._turns = [_Turn() for _ in losses]

    def values(
        self,
        stack: Stack,
        batches: Mapping[int, Tensor],
        generators: Sequence[torch.Generator],
    ) -> dict[int, Tensor | DivergenceError]:
        """Return the losses of the batches, by the number of their model.

        The batches may still be drawn on the side streams.
        """
        said = {
            k: self._turns[k].goes_on(self._task(k, x, generators[k]))
            for k, x in batches.items()
        }
        values: dict[int, Any] = {}
        # The main stream waits for all of them each time, also for those that have
        # ended: it may then use anew the memory of the answers that they read.
        self.sides.join()
        while said:
            asked = {k: word for k, word in said.items() if isinstance(word, tuple)}
            values |= {k: word for k, word in said.items() if k not in asked}
            answers = _answers(stack, asked)
            self.sides.fork()
            said = {k: self._turns[k].goes_on(a) for k, a in answers.items()}
            self.sides.join()
        for value in values.values():
            if isinstance(value, Exception) and not isinstance(value, DivergenceError):
                raise value
        return values

    def _task(self, k: int, x: Tensor, generator: torch.Generator) -> Callable[[], Any]:
        def loss() -> Any:
            with torch.cuda.stream(self.sides.of(k)):
                asking = _Asking(self._turns[k])
                return self._losses[k](asking, x, generator=generator)

        # With the context of who asks, where checks leave what they found.
        return partial(copy_context().run, loss)

    def close(self) -> None:
        """End all threads."""
        for turn in self._turns:
            turn.ends()


def _answers(
    stack: Stack, asked: Mapping[int, tuple[Tensor, bool]]
) -> dict[int, Tensor]:
    """Evaluate the states of all who asked, padded to the longest batch."""
    answers: dict[int, Tensor] = {}
    for with_gradient in (False, True):
        some = {k: x for k, (x, flag) in asked.items() if flag == with_gradient}
        if not some:
            continue
        empty = next(iter(some.values()))[:0]
        states = [some.get(k, empty) for k in range(stack.n_models)]
        with torch.set_grad_enabled(with_gradient):
            found = stack(pad_sequence(states, batch_first=True))
        answers |= {k: found[k, : len(x)] for k, x in some.items()}
    return answers
