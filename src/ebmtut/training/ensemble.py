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

from ebmtut.checks import DivergenceError, InputError, check_range, check_type
from ebmtut.tensor_checks import check_shape
from ebmtut.training.averaging import average_weights
from ebmtut.training.loop import (
    Loss,
    TrainConfig,
    TrainResult,
    autocast_of,
    diverged,
)

__all__ = ["train_ensemble"]


def train_ensemble(
    energies: Sequence[nn.Module],
    losses: Sequence[Loss],
    sample: Callable[..., Tensor],
    config: TrainConfig,
    *,
    generators: Sequence[torch.Generator],
    progress: bool = False,
    label: str = "training",
) -> list[TrainResult | DivergenceError]:
    """Minimise one loss for each of several energies, as `train` does for one.

    With the same seeds the numbers are those of `train`, up to the rounding of
    products that are computed for all energies together. One whose loss diverges
    drops out; the others go on. What it spares is a process, its imports and its
    memory, for each energy, and on a GPU, or where batches are small, the time in
    which single steps wait for their own start. There are no checkpoints.

    Parameters
    ----------
    energies
        All of one class and size; trained in place.
    losses
        One for each. It may ask for energies with and without gradients, not
        differentiate them itself: Markov chains by gradients are out.
    sample, config, progress, label
        As for `ebmtut.training.train`.
    generators
        One for each.

    Returns
    -------
    results
        One for each: what `train` returns, or what it would have raised.

    Raises
    ------
    InputError
        If there are not as many losses and generators as energies, at least one,
        or the energies are of different sizes or have nothing to train.
    """
    check_range("number of energies", len(energies), low=1, integer=True)
    for name, parts in (("losses", losses), ("generators", generators)):
        if len(parts) != len(energies):
            raise InputError(
                f"{name} must be {len(energies)}, one for each energy, got {len(parts)}"
            )
    for generator in generators:
        check_type("generator", generator, torch.Generator)
    stack = _Stack(energies)
    optimizer = torch.optim.Adam(stack.trained, lr=config.learning_rate, fused=True)
    averaged = [weight.detach().clone() for weight in stack.trained]
    history = np.full((len(energies), config.n_steps), np.nan, dtype=np.float32)
    lost: dict[int, DivergenceError] = {}
    with _taking_turns(losses) as turns:
        steps = tqdm(range(config.n_steps), desc=label, disable=not progress)
        for step in steps:
            living = [k for k in range(len(energies)) if k not in lost]
            if not living:
                break
            optimizer.param_groups[0]["lr"] = config.learning_rate_at(step)
            batches = {
                k: sample(config.batch_size, generator=generators[k]) for k in living
            }
            with autocast_of(config, stack.device):
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
                continue
            optimizer.zero_grad(set_to_none=True)
            together = torch.stack(list(values.values()))
            together.sum().backward()
            norms = stack.clip(config.clip_norm)
            for k, loss in zip(values, together.tolist(), strict=True):
                history[k, step] = loss
                if not math.isfinite(loss + norms[k]):
                    lost[k] = diverged(label, step, loss, norms[k], config)
                    stack.still(k)
            optimizer.step()
            average_weights(averaged, stack.trained, step, config.ema_decay)
    stack.write_to(energies)
    means = stack.copies(energies, averaged)
    return [
        lost[k] if k in lost else TrainResult(means[k], history[k])
        for k in range(len(energies))
    ]


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

    def clip(self, largest: float) -> list[float]:
        """Shorten each model's gradient as `clip_grad_norm_` does; return norms."""
        slopes = [w.grad.flatten(1) for w in self.trained if w.grad is not None]
        each = torch.stack([torch.linalg.vector_norm(g, dim=1) for g in slopes])
        norms = torch.linalg.vector_norm(each, dim=0)
        factor = (largest / (norms + 1e-6)).clamp(max=1.0)
        for slope in slopes:
            slope *= factor[:, None]
        norms_of_all: list[float] = norms.tolist()
        return norms_of_all

    def still(self, k: int) -> None:
        """Let a model's gradient vanish."""
        for weight in self.trained:
            if weight.grad is not None:
                weight.grad[k] = 0

    def write_to(self, modules: Sequence[nn.Module]) -> None:
        """Give the modules their weights."""
        for k, module in enumerate(modules):
            module.load_state_dict(
                {n: w[k] for n, w in {**self.weights, **self.buffers}.items()}
            )

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
        return lambda: self._losses[k](_Asking(self._turns[k]), x, generator=generator)

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
