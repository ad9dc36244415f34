"""One training in several processes: equal weights, each process its own data.

Started by ``torchrun --nproc-per-node N script.py``, inside ``with processes():``,
`ebmtut.training.train` hands the loss, as a module whose ``forward`` is the whole of a
batch's work, to torch's ``DistributedDataParallel``, which averages the gradients.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

__all__ = ["Process", "alone", "joined", "processes"]


class Process(NamedTuple):
    """Which process this is.

    Attributes
    ----------
    rank
        From 0; give each its own seed, ``make_generator(seed + rank)``.
    n_processes
        Of them all.
    device
        The GPU of its place on this machine, or the CPU.
    """

    rank: int
    n_processes: int
    device: torch.device


@contextmanager
def processes() -> Iterator[Process]:
    """Join the processes that ``torchrun`` has started; one alone without it."""
    if "WORLD_SIZE" not in os.environ:
        yield Process(0, 1, torch.device("cpu"))
        return
    cuda = torch.cuda.is_available()
    place = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", place) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if cuda else "gloo")
    try:
        yield Process(distributed.get_rank(), distributed.get_world_size(), device)
    finally:
        distributed.destroy_process_group()


def alone() -> bool:
    """Whether this process trains by itself."""
    return not (distributed.is_available() and distributed.is_initialized())


def own_file(path: Path) -> Path:
    """Return the file of this process: its random numbers are its own."""
    if alone() or distributed.get_rank() == 0:
        return path
    return path.with_name(f"{path.name}.{distributed.get_rank()}")


class _Objective(nn.Module):
    """A loss of an energy, as a module that has the energy's weights."""

    def __init__(self, energy: nn.Module, loss: Callable[..., Tensor]) -> None:
        super().__init__()
        self.energy, self.loss = energy, loss

    def forward(self, x: Tensor, *, generator: torch.Generator) -> Any:
        # A tensor, if the user's function keeps its word, which `train` looks at.
        return self.loss(self.energy, x, generator=generator)


def joined(energy: nn.Module, loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the loss of a batch, (x, generator=generator) -> scalar, of an energy.

    All processes get the weights of the first; gradients are means over the processes.
    """
    objective = _Objective(energy, loss)
    if alone():
        return objective
    # Static: a weight without a say, such as a constant under the score, is found
    # once, not asked for in every step.
    return DistributedDataParallel(objective, static_graph=True)


def worst_of_all(state: int, device: torch.device) -> int:
    """Return the largest state of any process, so that all stop together."""
    if alone():
        return state
    told = torch.tensor(state, device=device)
    distributed.all_reduce(told, distributed.ReduceOp.MAX)
    return int(told)
