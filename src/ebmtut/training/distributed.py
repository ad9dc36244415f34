"""One training in several processes: equal weights, each process its own data.

Started by ``torchrun --nproc-per-node N script.py``, inside ``with processes():``,
`ebmtut.training.train` averages the gradients over the processes before each step,
as torch's ``DistributedDataParallel`` does. That class itself sees a network only
through its ``forward``; our chains also ask for gradients by hand.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn

__all__ = [
    "Process",
    "average_gradients",
    "own_file",
    "processes",
    "share_weights",
    "worst_of_all",
]


class Process(NamedTuple):
    """Which process this is.

    Attributes
    ----------
    rank
        From 0; give each its own seed, ``make_generator(seed + rank)``.
    n_processes
        Of them all.
    device
        For this one: the GPU of its place on this machine, or the CPU.
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


def _alone() -> bool:
    return not (distributed.is_available() and distributed.is_initialized())


def own_file(path: Path) -> Path:
    """Return the file of this process: its random numbers are its own.

    Parameters
    ----------
    path
        That of the first process, and of one that is alone.
    """
    if _alone() or distributed.get_rank() == 0:
        return path
    return path.with_name(f"{path.name}.{distributed.get_rank()}")


def share_weights(energy: nn.Module) -> None:
    """Give all processes the weights of the first.

    Parameters
    ----------
    energy
        Changed in place.
    """
    if not _alone():
        for tensor in [*energy.parameters(), *energy.buffers()]:
            distributed.broadcast(tensor.data, 0)


def average_gradients(parameters: Iterable[Tensor]) -> None:
    """Replace gradients by their means over the processes, all in one message.

    Parameters
    ----------
    parameters
        Those that have a gradient in every process.
    """
    if _alone():
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    distributed.all_reduce(flat)
    parts = (flat / distributed.get_world_size()).split([g.numel() for g in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def worst_of_all(state: int, device: torch.device) -> int:
    """Return the largest state of any process, so that all stop together.

    Parameters
    ----------
    state
        Of this process.
    device
        Where its messages come from.
    """
    if _alone():
        return state
    told = torch.tensor(state, device=device)
    distributed.all_reduce(told, distributed.ReduceOp.MAX)
    return int(told)
