"""Seconds of the CPU that a training has cost, over all of its sessions."""

import time

import torch
from torch import nn

__all__ = ["CpuClock"]


class CpuClock:
    """Counts while a training runs, from step to step.

    Give `seconds` to `train` among its ``buffers`` and `tick` as ``on_step``: a run
    that goes on counts on.
    """

    def __init__(self) -> None:
        self.seconds = torch.zeros((), dtype=torch.float64, device="cpu")
        self._last = time.process_time()

    def tick(self, step: int, averaged: nn.Module) -> None:
        """Count what has passed since the last step."""
        now = time.process_time()
        self.seconds.add_(now - self._last)
        self._last = now
