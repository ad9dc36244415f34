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
from ebmtut.results import to_json
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint

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
    identity: Mapping[str, Any]

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
        facts = {"config": dict(self.config), "identity": dict(self.identity)}
        save_checkpoint(path, tensors, {"step": step, **facts})

    def _check(
        self, path: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]
    ) -> None:
        """Refuse a checkpoint of another run, before anything is loaded."""
        if "config" not in meta or "step" not in meta:
            raise InputError(
                f"checkpoint={path.name} must be one of a training run, got one of "
                f"{', '.join(sorted(meta)) or 'nothing'}: give another file"
            )
        # One from before identities were kept is believed to be what it seems.
        made = {"config": meta["config"], "identity": meta.get("identity")}
        for name, wanted in (("config", self.config), ("identity", self.identity)):
            if made[name] is not None and made[name] != to_json(wanted, name):
                raise InputError(
                    f"checkpoint={path.name} was made with {made[name]}, not with "
                    f"{dict(wanted)}: remove it or use its configuration"
                )
        parts = (
            ("buffers", "buffer", self.buffers),
            ("weights", "energy", self.energy.state_dict()),
        )
        for kind, prefix, ours in parts:
            held, here = _shapes(_part(tensors, prefix)), _shapes(ours)
            if held != here:
                raise InputError(
                    f"checkpoint={path.name} holds the {kind} {held}, not {here}: "
                    "remove it"
                )

    def restore(self, path: Path, losses: np.ndarray) -> int:
        """Load the state from ``path`` if it is there; return the next step."""
        if not path.exists():
            return 0
        tensors, meta = load_checkpoint(path)
        self._check(path, tensors, meta)
        self.energy.load_state_dict(_part(tensors, "energy"))
        self.averaged.load_state_dict(_part(tensors, "ema"))
        adam: dict[int, dict[str, Any]] = {}
        for key, value in _part(tensors, "adam").items():
            index, name = key.split(".", 1)
            adam.setdefault(int(index), {})[name] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": adam, "param_groups": groups})
        for key, value in _part(tensors, "buffer").items():
            self.buffers[key].copy_(value)
        self.generator.set_state(tensors["generator"].cpu())
        step = int(meta["step"])
        losses[:step] = tensors["losses"].numpy()
        return step


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors of one part under their own names."""
    start = f"{prefix}."
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in sorted(tensors.items())}
