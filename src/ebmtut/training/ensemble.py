"""Several energies of one architecture trained as one batch, in one process.

Their weights are stacked, so that one call evaluates all of them, one step of Adam
moves them and one average follows. The losses are those that each would have alone:
they take turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut._allocator import keep_freed_memory
from ebmtut._gradients import with_gradients
from ebmtut._progress import counted
from ebmtut.checks import (
    Count,
    DivergenceError,
    InputError,
    check_range,
    check_type,
    checked,
)
from ebmtut.deadlines import OutOfTime, out_of_time
from ebmtut.training._cuda_graph import CapturedStep, check_capturable, own_stream
from ebmtut.training._ensemble_step import EnsembleStep, Told, read_all
from ebmtut.training._stack import Generators, NamedTensors, Stack
from ebmtut.training._turns import Turns
from ebmtut.training.averaging import average_weights
from ebmtut.training.loop import (
    Loss,
    TrainConfig,
    TrainResult,
    diverged,
    set_learning_rate,
)
from ebmtut.training.state import RunState, state_file

__all__ = ["train_ensemble"]

_READ_EVERY = 20  # replayed steps, in which the processor runs ahead of the GPU


@with_gradients
@checked
def train_ensemble(
    energies: Sequence[nn.Module],
    losses: Sequence[Loss],
    samples: Sequence[Callable[..., Tensor]],
    config: TrainConfig,
    *,
    generators: Sequence[torch.Generator],
    checkpoint: str | Path | None = None,
    checkpoint_every: Count = 1000,
    identity: Mapping[str, Any] | None = None,
    cuda_graph: bool = False,
    progress: bool = False,
    label: str = "training",
) -> list[TrainResult | DivergenceError]:
    """Minimise one loss for each of several energies, as `train` does for one.

    With the same seeds the numbers are those of `train`, up to the rounding of batched
    products. One whose loss diverges drops out; the others go on.

    Parameters
    ----------
    energies
        All of one class and size; trained in place.
    losses
        One for each, which may not differentiate the energy itself, as Markov chains
        do.
    samples, generators
        One for each, ``sample(n, generator=generator) -> x``: its data.
    config, progress, label, checkpoint, checkpoint_every, identity
        As for `ebmtut.training.train`.
    cuda_graph
        Whether a GPU records a step and replays it, see `ebmtut.training.train`.

    Returns
    -------
    results
        One for each: what `train` returns, or what it would have raised.

    Raises
    ------
    OutOfTime
        If the deadline of `ebmtut.deadlines` passes and there is a checkpoint, to
        which the state of all has been saved.
    """
    check_type("energies", energies, Sequence)
    check_range("number of energies", len(energies), low=1, integer=True)
    each = {"losses": losses, "samples": samples, "generators": generators}
    for name, parts in each.items():
        if len(parts) != len(energies):
            raise InputError(
                f"{name} must be {len(energies)}, one for each energy, got {len(parts)}"
            )
    for generator in generators:
        check_type("generator", generator, torch.Generator)
    keep_freed_memory()
    path = state_file(checkpoint, identity)
    stack = Stack(energies)
    if cuda_graph:
        check_capturable(stack.device)
    optimizer = config.adam(stack.trained)
    averaged = [weight.detach().clone() for weight in stack.trained]
    history = np.full((config.n_steps, len(energies)), np.nan, dtype=np.float32)
    lost: dict[int, DivergenceError] = {}
    run = RunState(
        stack,
        NamedTensors({str(i): weight for i, weight in enumerate(averaged)}),
        optimizer,
        Generators(generators),
        {},
        asdict(config),
        dict(identity or {}),
    )
    start = 0 if path is None else run.restore(path, history)
    for number, (at, words) in run.notes.items():
        lost[int(number)] = DivergenceError(words, at)
    pending: list[tuple[int, Told]] = []

    def settle() -> None:
        """Read what the pending steps have found."""
        steps, told = zip(*pending, strict=True)
        for step, one, found in zip(steps, told, read_all(told), strict=True):
            for k, error in one.ended.items():
                message = f"{label} stopped at step {step}: {error}"
                lost[k] = DivergenceError(message, step)
            for k in one.moved:
                loss, norm = found[k]
                if k in lost:  # it lives on for some steps before this is read
                    continue
                history[step, k] = loss
                if not (math.isfinite(loss) and math.isfinite(norm)):
                    lost[k] = diverged(label, step, loss, norm, config)
        pending.clear()

    own = own_stream(stack.device) if cuda_graph else nullcontext()
    with own as stream, closing(Turns(losses, stream)) as turns:
        plain = EnsembleStep(stack, turns, samples, generators, optimizer, config)
        advance: Callable[[tuple[int, ...]], Told] = plain
        every = 1 if stream is None else _READ_EVERY
        if stream is not None:
            advance = CapturedStep(plain, generators, optimizer, stream)
        steps = range(start, config.n_steps)
        for step in counted(
            steps, config.n_steps, taken=start, label=label, progress=progress
        ):
            living = tuple(k for k in range(len(energies)) if k not in lost)
            if not living:
                break
            set_learning_rate(optimizer, config.learning_rate_at(step))
            told = advance(living)
            pending.append((step, told if stream is None else told.kept()))
            if len(pending) == every or pending[-1][1].ended:
                settle()
            average_weights(averaged, stack.trained, step, config.ema_decay)
            ends = step + 1 == config.n_steps
            stops = path is not None and out_of_time()
            saves = path and (ends or stops or (step + 1) % checkpoint_every == 0)
            if pending and (ends or saves):
                settle()
            if path and saves:
                run.notes |= {str(k): [e.step, str(e)] for k, e in lost.items()}
                run.save(path, step + 1, history)
            if stops and not ends:
                raise OutOfTime(f"{label} stopped after step {step}")
    stack.write_to(energies)
    means = stack.copies(energies, averaged)
    return [
        lost[k] if k in lost else TrainResult(means[k], history[:, k].copy())
        for k in range(len(energies))
    ]
