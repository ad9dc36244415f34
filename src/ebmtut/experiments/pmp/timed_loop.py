"""The loop of a learner in a job: it keeps its state, and the seconds it has cost."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ebmtut.losses.loops import LoopMaker
from ebmtut.training import CpuClock, ResumableLoop

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["timed_loop"]


def timed_loop(
    checkpoint: Path | None,
    config: DataclassInstance,
    clock: CpuClock,
    *,
    generator: torch.Generator,
    **which: Any,
) -> LoopMaker:
    """Make loops that go on where a time limit stopped them.

    Parameters
    ----------
    checkpoint
        As of `ebmtut.training.ResumableLoop`.
    config
        Of the row.
    clock
        Its seconds are kept with the state.
    generator
        Source of all randomness of the learner.
    **which
        What tells the job from others of its row, such as its seed; JSON-able.
    """
    return partial(
        ResumableLoop,
        checkpoint,
        {"config": asdict(config), **which},
        generator=generator,
        buffers={"seconds": clock.seconds},
    )
