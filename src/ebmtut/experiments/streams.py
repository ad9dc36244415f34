"""Named streams of random numbers: evaluation shares none with training."""

import torch

from ebmtut.random import make_generator

# Seeds of consecutive runs are consecutive, so streams of another name begin far away.
_OFFSETS = {"training": 0, "evaluation": 1_000_000, "training graphs": 1_000_000}


def stream_seed(name: str, seed: int) -> int:
    """Return the seed of a run's named stream."""
    return seed + _OFFSETS[name]


def stream(name: str, seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return the generator of a run's named stream."""
    return make_generator(stream_seed(name, seed), device)
