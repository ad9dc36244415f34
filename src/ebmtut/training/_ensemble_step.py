"""One step of several energies that are trained as one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from ebmtut.checks import DivergenceError, InputError, check_range
from ebmtut.tensor_checks import PostponedChecks, check_shape, postponed_checks
from ebmtut.training._stack import Stack
from ebmtut.training._turns import Turns
from ebmtut.training.loop import TrainConfig, autocast_of


@dataclass(frozen=True)
class Told:
    """What a step has found, not read yet: losses, gradient norms, and flags."""

    ended: Mapping[int, DivergenceError]
    moved: tuple[int, ...]
    found: Tensor
    _checks: PostponedChecks

    def kept(self) -> Told:
        """Return a copy, which the next replay of a graph does not overwrite."""
        return replace(self, found=self.found.clone())

    def read(self, found: list[float]) -> list[tuple[float, float]]:
        """Split the numbers; return each model's loss and gradient norm."""
        n_models = (len(found) - len(self._checks.flags)) // 2
        self._checks.tell(found[2 * n_models :])
        return list(zip(found[:n_models], found[n_models : 2 * n_models], strict=True))


def read_all(told: Sequence[Told]) -> list[list[tuple[float, float]]]:
    """Wait for the GPU, once for several steps."""
    numbers = iter(torch.cat([one.found for one in told]).tolist())
    return [one.read([*islice(numbers, len(one.found))]) for one in told]


@dataclass
class EnsembleStep:
    """Draw data, evaluate the losses, and move all models by one step of Adam."""

    stack: Stack
    turns: Turns
    samples: Sequence[Callable[..., Tensor]]
    generators: Sequence[torch.Generator]
    optimizer: torch.optim.Adam
    config: TrainConfig

    def __call__(self, living: tuple[int, ...]) -> Told:
        """Move the models of these numbers."""
        config, stack = self.config, self.stack
        with postponed_checks() as checks:
            self.turns.sides.fork()
            batches = {k: self._batch(k) for k in living}
            _check_batches(batches)
            with autocast_of(config, stack.device):
                said = self.turns.values(stack, batches, self.generators)
        ended, values = {}, {}
        for k, value in said.items():
            if isinstance(value, DivergenceError):
                ended[k] = value
            else:
                check_shape("loss(energy, x)", value, ())
                values[k] = value
        nothing = stack.trained[0].new_zeros(())
        losses = torch.stack([values.get(k, nothing) for k in range(stack.n_models)])
        norms = torch.zeros_like(losses)
        if values:
            self.optimizer.zero_grad(set_to_none=True)
            losses.sum().backward()
            norms = stack.clip(config.clip_norm)
            stack.still(~(losses.isfinite() & norms.isfinite()))
            self.optimizer.step()
        flags = [flag.to(norms)[None] for flag in checks.flags]
        found = torch.cat([losses.detach().to(norms), norms, *flags])
        return Told(ended, tuple(values), found, checks)

    def _batch(self, k: int) -> Tensor:
        with torch.cuda.stream(self.turns.sides.of(k)):
            return self.samples[k](self.config.batch_size, generator=self.generators[k])


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
