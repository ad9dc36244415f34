"""What a checkpoint of a training run holds, and the way back from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut.checks import InputError
from ebmtut.results import load_checkpoint, save_checkpoint

__all__ = ["RunState"]


@dataclass
class RunState:
    """Everything that a checkpoint has to hold."""

    energy: nn.Module
    averaged: nn.Module
    optimizer: torch.optim.Adam
    generator: torch.Generator
    buffers: dict[str, Tensor]
    config: Mapping[str, Any]

    def _adam_tensors(self) -> dict[str, Tensor]:
        state = self.optimizer.state_dict()["state"]
        return {f"adam.{i}.{k}": v for i, s in state.items() for k, v in s.items()}

    def save(self, path: Path, step: int, losses: np.ndarray) -> None:
        """Write the whole state of the run."""
        tensors = {f"energy.{k}": v for k, v in self.energy.state_dict().items()}
        tensors |= {f"ema.{k}": v for k, v in self.averaged.state_dict().items()}
        tensors |= self._adam_tensors()
        tensors |= {f"buffer.{k}": v for k, v in self.buffers.items()}
        tensors["generator"] = self.generator.get_state()
        tensors["losses"] = torch.from_numpy(losses[:step])
        save_checkpoint(path, tensors, {"step": step, "config": dict(self.config)})

    def restore(self, path: Path, losses: np.ndarray) -> int:
        """Load the state from ``path`` if it is there; return the next step."""
        if not path.exists():
            return 0
        tensors, meta = load_checkpoint(path)
        if meta["config"] != dict(self.config):
            raise InputError(
                f"checkpoint={path.name} was made with {meta['config']}, not with "
                f"{dict(self.config)}: remove it or use its configuration"
            )

        def part(prefix: str) -> dict[str, Tensor]:
            cut = len(prefix) + 1
            return {k[cut:]: v for k, v in tensors.items() if k.startswith(prefix)}

        if part("buffer").keys() != self.buffers.keys():
            raise InputError(
                f"checkpoint={path.name} holds the buffers "
                f"{sorted(part('buffer'))}, not {sorted(self.buffers)}: remove it"
            )
        self.energy.load_state_dict(part("energy"))
        self.averaged.load_state_dict(part("ema"))
        adam: dict[int, dict[str, Any]] = {}
        for key, value in part("adam").items():
            index, name = key.split(".", 1)
            adam.setdefault(int(index), {})[name] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": adam, "param_groups": groups})
        for key, value in part("buffer").items():
            self.buffers[key].copy_(value)
        self.generator.set_state(tensors["generator"].cpu())
        step = int(meta["step"])
        losses[:step] = tensors["losses"].numpy()
        return step
