"""Several energies of one architecture trained as one batch, in one process.

Their weights are stacked, so that one call evaluates all of them, one step of Adam
moves them and one average follows. The losses are those that each would have alone:
they take turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from ebmtut.checks import (
    Count,
    DivergenceError,
    InputError,
    check_range,
    check_type,
    checked,
)
from ebmtut.deadlines import OutOfTime, out_of_time
from ebmtut.tensor_checks import check_shape, postponed_checks
from ebmtut.training._stack import Generators, NamedTensors, Stack
from ebmtut.training._turns import Turns
from ebmtut.training.averaging import average_weights
from ebmtut.training.loop import (
    Loss,
    TrainConfig,
    TrainResult,
    autocast_of,
    diverged,
)
from ebmtut.training.state import RunState, state_file

__all__ = ["train_ensemble"]


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
    progress: bool = False,
    label: str = "training",
) -> list[TrainResult | DivergenceError]:
    """Minimise one loss for each of several energies, as `train` does for one.

    With the same seeds the numbers are those of `train`, up to the rounding of
    products that are computed for all energies together. One whose loss diverges
    drops out; the others go on. What it spares is a process, its imports and its
    memory, for each energy, and on a GPU, or where batches are small, the time in
    which single steps wait for their own start.

    Parameters
    ----------
    energies
        All of one class and size; trained in place.
    losses
        One for each. It may ask for energies with and without gradients, not
        differentiate them itself: Markov chains by gradients are out.
    samples
        One for each, ``sample(n, generator=generator) -> x``: its data.
    generators
        One for each.
    config, progress, label
        As for `ebmtut.training.train`.
    checkpoint, checkpoint_every, identity
        As for `ebmtut.training.train`; one file holds the state of all.

    Returns
    -------
    results
        One for each: what `train` returns, or what it would have raised.

    Raises
    ------
    OutOfTime
        If the deadline of `ebmtut.deadlines` passes and there is a checkpoint, to
        which the state of all has been saved.
    InputError
        If there are not as many losses, samples and generators as energies, at least
        one, the energies are of different sizes or have nothing to train, batches are
        of states of different shapes, or for a checkpoint as in
        `ebmtut.training.train`.
    """
    check_range("number of energies", len(energies), low=1, integer=True)
    each = {"losses": losses, "samples": samples, "generators": generators}
    for name, parts in each.items():
        if len(parts) != len(energies):
            raise InputError(
                f"{name} must be {len(energies)}, one for each energy, got {len(parts)}"
            )
    for generator in generators:
        check_type("generator", generator, torch.Generator)
    path = state_file(checkpoint, identity)
    stack = Stack(energies)
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
    with closing(Turns(losses)) as turns:
        steps = tqdm(
            range(start, config.n_steps),
            desc=label,
            disable=not progress,
            initial=start,
            total=config.n_steps,
        )
        for step in steps:
            living = [k for k in range(len(energies)) if k not in lost]
            if not living:
                break
            optimizer.param_groups[0]["lr"] = config.learning_rate_at(step)
            batches = {
                k: samples[k](config.batch_size, generator=generators[k])
                for k in living
            }
            _check_batches(batches)
            with autocast_of(config, stack.device), postponed_checks() as checks:
                found = turns.values(stack, batches, generators)
            values = {}
            for k, value in found.items():
                if isinstance(value, DivergenceError):
                    message = f"{label} stopped at step {step}: {value}"
                    lost[k] = DivergenceError(message, step)
                else:
                    check_shape("loss(energy, x)", value, ())
                    values[k] = value
            if not values:
                checks.read()
                continue
            optimizer.zero_grad(set_to_none=True)
            together = torch.stack(list(values.values()))
            together.sum().backward()
            norms = stack.clip(config.clip_norm)
            # Read together: a GPU is waited for once a step.
            flags = [flag.to(norms)[None] for flag in checks.flags]
            told = torch.cat([together.detach().to(norms), norms, *flags]).tolist()
            checks.tell(told[len(values) + len(norms) :])
            for loss, k in zip(told, values, strict=False):
                norm = told[len(values) + k]
                history[step, k] = loss
                if not math.isfinite(loss + norm):
                    lost[k] = diverged(label, step, loss, norm, config)
                    stack.still(k)
            optimizer.step()
            average_weights(averaged, stack.trained, step, config.ema_decay)
            ends = step + 1 == config.n_steps
            stops = path is not None and out_of_time()
            if path and (ends or stops or (step + 1) % checkpoint_every == 0):
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


def _check_batches(batches: Mapping[int, Tensor]) -> None:
    """Require points, and the same form of them for all who are evaluated at once."""
    for x in batches.values():
        check_range("points in a batch", len(x), low=1)
    shapes = {tuple(x.shape[1:]) for x in batches.values()}
    if len(shapes) > 1:
        raise InputError(
            "samples must be states of one shape for all energies, got "
            f"{', '.join(map(str, sorted(shapes)))}"
        )
