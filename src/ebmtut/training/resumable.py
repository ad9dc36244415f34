"""Loops of several learners that stop in good order and go on bit for bit.

`ebmtut.training.train` keeps one network and its optimiser. Where an energy and its
sampler learn in turns, each with an optimiser of its own, or chains go on from step to
step, this keeps them all.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from ebmtut.checks import Count, InputError, Natural, checked
from ebmtut.deadlines import OutOfTime, out_of_time
from ebmtut.results import to_json
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint
from ebmtut.training.state import state_file

__all__ = ["ResumableLoop"]


@runtime_checkable
class _Part(Protocol):
    """A module, an optimiser, a schedule of rates: what knows its own state."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Take another in its place."""
        ...


class ResumableLoop:
    """Steps that are counted, timed and kept.

    Parameters
    ----------
    checkpoint
        File to write every ``every`` steps and at the end; if it is there, everything
        below is set to what it holds. None keeps nothing.
    identity
        What tells this loop from others, such as configuration and seed; JSON-able.
    parts
        By name: all that learns.
    generator
        Source of all randomness of the loop.
    held, buffers
        Tensors that steps leave to later ones, set anew; tensors changed in place.
    every
        Steps from one checkpoint to the next.

    Attributes
    ----------
    seconds
        CPU time so far, over all resumptions.
    taken
        Steps so far, of all stretches.
    """

    @checked
    def __init__(
        self,
        checkpoint: str | Path | None,
        identity: Mapping[str, Any] | None,
        parts: Mapping[str, _Part],
        *,
        generator: torch.Generator,
        held: MutableMapping[str, Tensor] | None = None,
        buffers: Mapping[str, Tensor] | None = None,
        every: Count = 100,
    ) -> None:
        self._path = state_file(checkpoint, identity)
        self._identity = to_json(dict(identity or {}), "identity")
        self._parts, self._generator = parts, generator
        self._held = {} if held is None else held
        self._buffers = dict(buffers or {})
        self._every = every
        self._ended = self.taken = 0
        self.seconds = 0.0
        if self._path is not None and self._path.exists():
            self._restore(self._path)
        self._clock = time.process_time()

    @checked
    def steps(self, n_steps: Natural) -> Iterator[int]:
        """Count the steps of a stretch, from 0, without those that were taken before.

        A loop may have several stretches, one after the other.

        Raises
        ------
        OutOfTime
            As of `ebmtut.training.train`.
        """
        begins = self._ended
        for step in range(max(0, self.taken - begins), n_steps):
            yield step
            self.taken = begins + step + 1
            now = time.process_time()
            self.seconds += now - self._clock
            self._clock = now
            if self._path is None:
                continue
            ends, stops = step + 1 == n_steps, out_of_time()
            if ends or stops or (step + 1) % self._every == 0:
                self._save(self._path)
            if stops and not ends:
                raise OutOfTime(f"stopped after step {step}")
        self._ended += n_steps

    def _save(self, path: Path) -> None:
        state = {
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
            "held": dict(self._held),
            "buffers": self._buffers,
            "generator": self._generator.get_state(),
        }
        file = io.BytesIO()
        torch.save(state, file)
        packed = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
        meta = {"loop": self._identity, "taken": self.taken, "seconds": self.seconds}
        save_checkpoint(path, {"state": packed}, meta)

    def _restore(self, path: Path) -> None:
        tensors, meta = load_checkpoint(path)
        if meta.get("loop") != self._identity:
            raise InputError(
                f"checkpoint={path.name} was made with {meta.get('loop')}, not with "
                f"{self._identity}: remove it or use its configuration"
            )
        file = io.BytesIO(tensors["state"].numpy().tobytes())
        state = torch.load(file, map_location="cpu", weights_only=True)
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        for name, tensor in state["held"].items():
            self._held[name] = tensor.to(self._generator.device)
        for name, buffer in self._buffers.items():
            buffer.copy_(state["buffers"][name])
        self._generator.set_state(state["generator"])
        self.taken, self.seconds = int(meta["taken"]), float(meta["seconds"])
