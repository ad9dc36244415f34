"""A step of training that a GPU replays: a CUDA graph.

The many short kernels of a small network's step are started together, without Python.
The step may not wait for the GPU, copy numbers to it, or use a generator that the graph
does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch

from ebmtut.checks import InputError
from ebmtut.training.distributed import alone

T = TypeVar("T")

# As they are: the optimiser makes its state, libraries their workspaces.
N_EAGER = 3


def check_capturable(device: torch.device) -> None:
    """Require a GPU of CUDA, and a process that is alone."""
    if device.type != "cuda":
        raise InputError(f"cuda_graph=True needs weights on cuda, got {device}")
    if not alone():
        raise InputError("cuda_graph=True needs a single process, got several")


@contextmanager
def own_stream(device: torch.device) -> Iterator[torch.cuda.Stream]:
    """Let what follows go through its own stream: the default one records nothing."""
    before = torch.cuda.current_stream(device)
    stream = torch.cuda.Stream(device)
    stream.wait_stream(before)
    try:
        with torch.cuda.stream(stream):
            yield stream
    finally:
        before.wait_stream(stream)


class CapturedStep(Generic[T]):
    """A step that runs as it is a few times, is recorded, and is replayed from then on.

    Parameters
    ----------
    step
        A step that is told which models still live; its result lies in the same memory.
    """

    def __init__(
        self,
        step: Callable[[tuple[int, ...]], T],
        generators: Sequence[torch.Generator],
        optimizer: torch.optim.Adam,
        stream: torch.cuda.Stream,
    ) -> None:
        self._step, self._generators, self._stream = step, generators, stream
        for group in optimizer.param_groups:
            rate = torch.zeros(
                (), device=group["params"][0].device, dtype=torch.float32
            )
            group.update(capturable=True, lr=rate)
        self._living: tuple[int, ...] = ()
        self._forget()

    def _forget(self) -> None:
        self._n_done = 0
        self._recorded: tuple[torch.cuda.CUDAGraph, T] | None = None

    def __call__(self, living: tuple[int, ...]) -> T:
        """Do the step once; another set of the living is another recording."""
        if living != self._living:
            self._living = living
            self._forget()
        if self._n_done < N_EAGER:
            self._n_done += 1
            with _no_waiting():
                return self._step(living)
        if self._recorded is None:
            graph = torch.cuda.CUDAGraph()
            for generator in self._generators:
                graph.register_generator_state(generator)
            with torch.cuda.graph(graph, stream=self._stream):
                told = self._step(living)
            self._recorded = graph, told
        graph, told = self._recorded
        graph.replay()
        return told


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Refuse what waits for the GPU, also to copy to it: no recording could do it."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        raise InputError(
            "cuda_graph=True needs samples and losses that never wait for the GPU, got "
            "one that reads from it or copies to it"
        ) from error
    finally:
        torch.cuda.set_sync_debug_mode(before)
