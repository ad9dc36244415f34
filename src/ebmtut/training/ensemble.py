"""Several energies of one architecture trained as one batch, in one process.

Their weights are stacked, so that one call evaluates all of them, one step of Adam
moves them and one average follows. The losses are those that each would have alone:
every loss stops where it asks for energies, and when all have asked, all are answered
at once.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import asdict
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.utils.rnn import pad_sequence
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
    stack = _Stack(energies)
    optimizer = config.adam(stack.trained)
    averaged = [weight.detach().clone() for weight in stack.trained]
    history = np.full((config.n_steps, len(energies)), np.nan, dtype=np.float32)
    lost: dict[int, DivergenceError] = {}
    run = RunState(
        stack,
        _Named({str(i): weight for i, weight in enumerate(averaged)}),
        optimizer,
        _Generators(generators),
        {},
        asdict(config),
        dict(identity or {}),
    )
    start = 0 if path is None else run.restore(path, history)
    for number, (at, words) in run.notes.items():
        lost[int(number)] = DivergenceError(words, at)
    with _taking_turns(losses) as turns:
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


class _Stack:
    """Weights and buffers of several modules, stacked, and one call for all."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        kinds = {_sizes(module) for module in modules}
        if len(kinds) > 1:
            raise InputError(
                "energies must be of one class and size, got "
                f"{', '.join(sorted(kind[0] for kind in kinds))} of different ones"
            )
        trained = [n for n, p in modules[0].named_parameters() if p.requires_grad]
        if not trained:
            raise InputError(
                "energies must have parameters to train, got none that asks for a "
                f"gradient in {type(modules[0]).__name__}"
            )
        self.weights, self.buffers = stack_module_state(list(modules))
        self.trained = [self.weights[name] for name in trained]
        self.device = self.trained[0].device
        self._shape = copy.deepcopy(modules[0]).to("meta")

    def __call__(self, x: Float[Tensor, "n_models batch *shape"]) -> Tensor:
        """Energies of every model at states of its own."""

        def energies(weights: Any, buffers: Any, x: Tensor) -> Any:
            return functional_call(self._shape, (weights, buffers), (x,))

        return vmap(energies)(self.weights, self.buffers, x)

    def state_dict(self) -> dict[str, Tensor]:
        """Return weights and buffers of all by name."""
        return {**self.weights, **self.buffers}

    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> None:
        """Take others in their place."""
        _Named(self.state_dict()).load_state_dict(state_dict)

    def clip(self, largest: float) -> Float[Tensor, " n_models"]:
        """Shorten each model's gradient as `clip_grad_norm_` does; return norms."""
        slopes = [w.grad.flatten(1) for w in self.trained if w.grad is not None]
        each = torch.stack([torch.linalg.vector_norm(g, dim=1) for g in slopes])
        norms = torch.linalg.vector_norm(each, dim=0)
        factor = (largest / (norms + 1e-6)).clamp(max=1.0)
        for slope in slopes:
            slope *= factor[:, None]
        return norms

    def still(self, k: int) -> None:
        """Let a model's gradient vanish."""
        for weight in self.trained:
            if weight.grad is not None:
                weight.grad[k] = 0

    def write_to(self, modules: Sequence[nn.Module]) -> None:
        """Give the modules their weights."""
        for k, module in enumerate(modules):
            module.load_state_dict({n: w[k] for n, w in self.state_dict().items()})

    def copies(
        self, modules: Sequence[nn.Module], trained: Sequence[Tensor]
    ) -> list[nn.Module]:
        """Return frozen copies with other weights in the place of the trained ones."""
        fresh = [copy.deepcopy(module).requires_grad_(False) for module in modules]
        names = [n for n, p in modules[0].named_parameters() if p.requires_grad]
        for k, module in enumerate(fresh):
            values = {n: w[k] for n, w in zip(names, trained, strict=True)}
            module.load_state_dict(values, strict=False)
        return fresh


class _Named:
    """Tensors by name, changed in place."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)

    def state_dict(self) -> dict[str, Tensor]:
        """Return them."""
        return self._tensors

    @torch.no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> None:
        """Give them other values."""
        for name, tensor in self._tensors.items():
            tensor.copy_(state_dict[name])


class _Generators:
    """Generators of random numbers, as one."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self._generators = generators

    def get_state(self) -> Tensor:
        """Return where each of them stands."""
        return torch.stack([g.get_state() for g in self._generators])

    def set_state(self, new_state: Tensor) -> None:
        """Let each go to where it stood."""
        for generator, state in zip(self._generators, new_state, strict=True):
            generator.set_state(state.clone())  # torch wants it at a storage's start


def _sizes(module: nn.Module) -> tuple[Any, ...]:
    state = module.state_dict().items()
    return (type(module).__name__, *((n, tuple(t.shape)) for n, t in state))


class _Ended(Exception):
    """The loss is not wanted any more."""


class _Turn:
    """A loss in a thread of its own, which runs only while it is waited for."""

    def __init__(self) -> None:
        self._told: SimpleQueue[Any] = SimpleQueue()
        self._said: SimpleQueue[Any] = SimpleQueue()
        Thread(target=self._serve, daemon=True).start()

    def goes_on(self, message: Any) -> Any:
        """Tell it a task, or an answer; hear what it says next."""
        self._told.put(message)
        return self._said.get()

    def ends(self) -> None:
        """End its thread."""
        self._told.put(None)

    def _serve(self) -> None:
        while (task := self._told.get()) is not None:
            try:
                self._said.put(task())
            except _Ended:
                return
            except Exception as error:
                self._said.put(error)

    def ask(self, x: Tensor) -> Tensor:
        """Ask for energies, and wait for the answer."""
        self._said.put((x, torch.is_grad_enabled()))
        answer: Tensor | None = self._told.get()
        if answer is None:
            raise _Ended
        return answer


class _Asking(nn.Module):
    """Stands for an energy: asks for its values."""

    def __init__(self, turn: _Turn) -> None:
        super().__init__()
        self._turn = turn

    def forward(self, x: Tensor) -> Tensor:
        """Wait for the energies of states."""
        return self._turn.ask(x)


class _Turns:
    """All losses, each of which goes on until it asks for energies."""

    def __init__(self, losses: Sequence[Loss]) -> None:
        self._losses = losses
        self._turns = [_Turn() for _ in losses]

    def values(
        self,
        stack: _Stack,
        batches: Mapping[int, Tensor],
        generators: Sequence[torch.Generator],
    ) -> dict[int, Tensor | DivergenceError]:
        """Return the losses of the batches, by the number of their model."""
        said = {
            k: self._turns[k].goes_on(self._task(k, x, generators[k]))
            for k, x in batches.items()
        }
        values: dict[int, Any] = {}
        while said:
            asked = {k: word for k, word in said.items() if isinstance(word, tuple)}
            values |= {k: word for k, word in said.items() if k not in asked}
            said = {
                k: self._turns[k].goes_on(answer)
                for k, answer in _answers(stack, asked).items()
            }
        for value in values.values():
            if isinstance(value, Exception) and not isinstance(value, DivergenceError):
                raise value
        return values

    def _task(self, k: int, x: Tensor, generator: torch.Generator) -> Callable[[], Any]:
        # With the context of who asks, where checks leave what they found.
        loss, asking = self._losses[k], _Asking(self._turns[k])
        return partial(copy_context().run, loss, asking, x, generator=generator)

    def end(self) -> None:
        """End all threads."""
        for turn in self._turns:
            turn.ends()


@contextmanager
def _taking_turns(losses: Sequence[Loss]) -> Iterator[_Turns]:
    turns = _Turns(losses)
    try:
        yield turns
    finally:
        turns.end()


def _answers(
    stack: _Stack, asked: Mapping[int, tuple[Tensor, bool]]
) -> dict[int, Tensor]:
    """Evaluate the states of all who asked, padded to the longest batch."""
    answers: dict[int, Tensor] = {}
    for with_gradient in (False, True):
        some = {k: x for k, (x, flag) in asked.items() if flag == with_gradient}
        if not some:
            continue
        empty = next(iter(some.values()))[:0]
        n_models = len(stack.trained[0])
        states = [some.get(k, empty) for k in range(n_models)]
        with torch.set_grad_enabled(with_gradient):
            found = stack(pad_sequence(states, batch_first=True))
        answers |= {k: found[k, : len(x)] for k, x in some.items()}
    return answers
