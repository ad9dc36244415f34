"""The contents of a training run's checkpoint, and how they are restored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from ebmtut.checks import InputError, check_type
from ebmtut.results import check_writable, to_json
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint

__all__ = ["RunState", "state_file"]


@runtime_checkable
class Weights(Protocol):
    """What has weights by name: a module, or several that are stacked."""

    def state_dict(self) -> dict[str, Any]:
        """Return them by name."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Take others in their place."""
        ...


@runtime_checkable
class Source(Protocol):
    """A generator of random numbers, or several."""

    def get_state(self) -> Tensor:
        """Return where it stands."""
        ...

    def set_state(self, new_state: Tensor) -> Any:
        """Go to where it stood."""
        ...


def state_file(
    checkpoint: str | Path | None, identity: Mapping[str, Any] | None
) -> Path | None:
    """Look at where a run wants to keep its state, before any work."""
    if checkpoint is None:
        return None
    check_type("checkpoint", checkpoint, str, Path)
    path = Path(checkpoint)
    if identity is None:
        raise InputError(
            f"checkpoint={path.name} needs an identity, got None: name the "
            "data, the loss and the seed, so that no other run goes on from it"
        )
    check_writable(path.parent)
    return path


@dataclass
class RunState:
    """Everything that a checkpoint has to hold."""

    energy: Weights
    averaged: Weights
    optimizer: torch.optim.Adam
    generator: Source
    buffers: dict[str, Tensor]
    config: Mapping[str, Any]
    identity: Mapping[str, Any]
    #: Other facts that change as the run goes on; JSON.
    notes: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path, step: int, losses: np.ndarray) -> None:
        """Write the whole state of the run."""
        tensors = {f"energy.{k}": v for k, v in self.energy.state_dict().items()}
        tensors |= {f"ema.{k}": v for k, v in self.averaged.state_dict().items()}
        adam = self.optimizer.state_dict()["state"].items()
        tensors |= {f"adam.{i}.{k}": v for i, s in adam for k, v in s.items()}
        tensors |= {f"buffer.{k}": v for k, v in self.buffers.items()}
        tensors["generator"] = self.generator.get_state()
        tensors["losses"] = torch.from_numpy(losses[:step])
        facts = {"config": dict(self.config), "identity": dict(self.identity)}
        notes = {"notes": self.notes} if self.notes else {}
        save_checkpoint(path, tensors, {"step": step, **facts, **notes})

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
        self.notes.update(meta.get("notes", {}))
        step = int(meta["step"])
        losses[:step] = tensors["losses"].numpy()
        return step


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors of one part under their own names."""
    start = f"{prefix}."
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in sorted(tensors.items())}
