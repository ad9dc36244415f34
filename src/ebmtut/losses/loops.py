"""What counts the steps of a learner, and may keep its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

__all__ = ["Loop", "LoopMaker", "counting"]


@runtime_checkable
class Loop(Protocol):
    """Steps that are counted.

    Attributes
    ----------
    taken
        Steps so far; more than 0 if the loop goes on from where it was stopped.
    """

    taken: int

    def steps(self, n_steps: int) -> Iterator[int]:
        """Count the steps that are left of ``n_steps``."""
        ...


@runtime_checkable
class LoopMaker(Protocol):
    """Makes a `Loop` of what learns and of tensors that steps leave to later ones.

    `functools.partial` of `ebmtut.training.ResumableLoop` is one: it can be stopped.
    """

    def __call__(
        self, parts: Mapping[str, Any], *, held: MutableMapping[str, Tensor]
    ) -> Loop:
        """Make the loop; ``held`` is set to what was kept, if there is something."""
        ...


class _Counting:
    """Counts, and keeps nothing."""

    taken = 0

    def steps(self, n_steps: int) -> Iterator[int]:
        yield from range(n_steps)


def counting(parts: Mapping[str, Any], *, held: MutableMapping[str, Tensor]) -> Loop:
    """Make a loop that keeps nothing."""
    return _Counting()
