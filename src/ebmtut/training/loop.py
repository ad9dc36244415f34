"""One training loop for every energy in the book.

Averaged weights, gradient clipping, bfloat16 where the hardware has units for it,
checkpoints that continue bit for bit, and an error when the loss diverges. Under
``torchrun`` several processes train together (`ebmtut.training.distributed`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from ebmtut._allocator import keep_freed_memory
from ebmtut._gradients import with_gradients
from ebmtut._progress import counted
from ebmtut.checks import (
    BelowOne,
    Count,
    DivergenceError,
    InputError,
    Natural,
    NonNegative,
    OneOf,
    Positive,
    check_range,
    check_type,
    checked,
)
from ebmtut.deadlines import OutOfTime, out_of_time
from ebmtut.training._cuda_graph import check_capturable, own_stream
from ebmtut.training._train_step import RecordedStep, TrainStep
from ebmtut.training.averaging import average_weights
from ebmtut.training.distributed import joined, own_file, worst_of_all
from ebmtut.training.state import RunState, state_file

__all__ = ["Loss", "TrainConfig", "TrainResult", "bfloat16_is_fast", "train"]


@checked
@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Parameters
    ----------
    n_steps, batch_size
        Optimiser steps, and data points of each.
    learning_rate
        Adam's step size after warm-up.
    decay
        "cosine" lets the learning rate fall to zero over the run, "constant" keeps it.
    n_warmup
        Steps over which the learning rate rises from zero.
    ema_decay
        Of the moving average of the weights, which is returned; 0 returns the last.
    clip_norm, beta1
        Largest norm of the gradient, and Adam's decay of the averaged gradient.
    precision
        "float32", "bfloat16", or "auto": bfloat16 where it is fast.
    """

    n_steps: Natural
    batch_size: Count = 128
    learning_rate: NonNegative = 2e-3
    decay: Annotated[str, OneOf(("cosine", "constant"))] = "cosine"
    n_warmup: Natural = 100
    ema_decay: BelowOne = 0.998
    clip_norm: Positive = 5.0
    precision: Annotated[str, OneOf(("auto", "float32", "bfloat16"))] = "auto"
    beta1: BelowOne = 0.9

    def adam(self, parameters: Iterable[Tensor]) -> torch.optim.Adam:
        """Make the optimiser of ``parameters``."""
        return torch.optim.Adam(
            parameters, lr=self.learning_rate, betas=(self.beta1, 0.999), fused=True
        )

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of ``step`` (0-based)."""
        # Not `ebmtut.schedules.cosine`, which reaches its end at the last step:
        # that step would then be lost.
        rate = self.learning_rate * min(1.0, (step + 1) / (self.n_warmup + 1))
        if self.decay == "cosine":
            rate *= 0.5 * (1 + math.cos(math.pi * step / max(1, self.n_steps)))
        return rate


@runtime_checkable
class Loss(Protocol):
    """A training loss: (energy, batch, generator) -> scalar."""

    def __call__(
        self, energy: nn.Module, x: Tensor, *, generator: torch.Generator
    ) -> Tensor:
        """Return the loss of the batch ``x``."""
        ...


@dataclass
class TrainResult:
    """What a run leaves behind.

    Attributes
    ----------
    energy
        A copy of the energy with averaged weights.
    losses
        Loss of every step.
    """

    energy: nn.Module
    losses: np.ndarray = field(repr=False)


def bfloat16_is_fast(device: torch.device) -> bool:
    """Whether ``device`` computes matrix products faster in bfloat16 than in float32.

    GPUs with units of their own, AMX and AMD's AVX-512 BF16 do; Intel's AVX-512 BF16
    alone is slower (``benchmarks/README.md``).
    """
    if device.type == "cuda":
        # A device without such units is said to support the type, by emulation.
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if torch.cpu._is_amx_tile_supported():
        return True
    return bool(torch.cpu._is_avx512_bf16_supported()) and _maker() == "AuthenticAMD"


@cache
def _maker() -> str:
    """Return who made this processor, as Linux tells it; "" where nobody tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return ""
    makers = [line.split(":")[1] for line in lines if line.startswith("vendor_id")]
    return makers[0].strip() if makers else ""


def autocast_of(config: TrainConfig, device: torch.device) -> torch.autocast:
    """Return what lets a loss compute in the precision of a configuration."""
    bfloat16 = config.precision == "bfloat16" or (
        config.precision == "auto" and bfloat16_is_fast(device)
    )
    # No cache of cast weights: one made without gradients would be reused where
    # gradients are needed.
    return torch.autocast(
        device.type, torch.bfloat16, enabled=bfloat16, cache_enabled=False
    )


def set_learning_rate(optimizer: torch.optim.Adam, rate: float) -> None:
    """Let the next step have this learning rate, also where a GPU has recorded it."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def diverged(
    label: str, step: int, loss: float, norm: float, config: TrainConfig
) -> DivergenceError:
    """Say that the loss or its gradient is not finite, and what may help."""
    return DivergenceError(
        f"{label} diverged at step {step}: loss {loss}, gradient norm {norm}; try a "
        f"smaller learning_rate ({config.learning_rate})",
        step,
    )


@with_gradients
@checked
def train(
    energy: nn.Module,
    loss: Loss,
    sample: Callable[..., Tensor],
    config: TrainConfig,
    *,
    generator: torch.Generator,
    buffers: Mapping[str, Tensor] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: Count = 1000,
    identity: Mapping[str, Any] | None = None,
    on_step: Callable[[int, nn.Module], None] | None = None,
    cuda_graph: bool = False,
    progress: bool = False,
    label: str = "training",
) -> TrainResult:
    """Minimise ``loss`` over the parameters of ``energy`` with Adam.

    Parameters
    ----------
    loss, sample
        ``loss(energy, x, generator=generator) -> scalar``; ``sample(n, generator=...)
        -> x``.
    generator
        Source of all randomness of the run.
    buffers
        Tensors that the loss changes in place, such as persistent chains.
    checkpoint
        File to write every ``checkpoint_every`` steps and at the end. If it is there,
        the run goes on from it, with the same numbers.
    identity
        What tells this run from others of the same configuration, such as its data,
        loss and seed; JSON-able.
    on_step
        Called with (step, averaged energy) after every step.
    cuda_graph
        Whether a GPU records what follows the draw of a batch, and replays it, which is
        to spare a small network the start of each of its kernels. The loss may then not
        wait for the GPU, nor copy to it, and no number of Python's that it reads may
        change.

    Raises
    ------
    DivergenceError
        If the loss or the gradient is not finite; names the step.
    OutOfTime
        If the deadline of `ebmtut.deadlines` passes; the checkpoint then holds the
        state.
    InputError
        If the energy has nothing to train, a checkpoint has no identity, cannot
        be written or belongs to another configuration, another identity or an
        energy of other sizes, or a batch is empty, its loss no scalar or refuses it,
        or ``cuda_graph`` is asked for where there is no GPU or several processes, or
        of a loss that waits for it or batches of several shapes.

    Notes
    -----
    glibc is told to let the process keep up to a gibibyte that a step frees, unless the
    environment says otherwise (``MALLOC_TRIM_THRESHOLD_``, ``GLIBC_TUNABLES``).
    """
    check_type("generator", generator, torch.Generator)
    keep_freed_memory()
    path = None if checkpoint is None else own_file(Path(checkpoint))
    path = state_file(path, identity)
    parameters = [p for p in energy.parameters() if p.requires_grad]
    if not parameters:
        raise InputError(
            "energy has no parameters to train: none asks for a gradient "
            f"in {type(energy).__name__}"
        )
    device = parameters[0].device
    if cuda_graph:
        check_capturable(device)
    objective = joined(energy, loss)
    averaged = copy.deepcopy(energy)
    averaged_weights = [p.data for p in averaged.parameters() if p.requires_grad]
    weights = [p.data for p in parameters]
    averaged.requires_grad_(False)
    optimizer = config.adam(parameters)
    run = RunState(
        energy,
        averaged,
        optimizer,
        generator,
        dict(buffers or {}),
        asdict(config),
        dict(identity or {}),
    )
    losses = np.full(config.n_steps, np.nan, dtype=np.float32)
    start = 0 if path is None else run.restore(path, losses)

    plain = TrainStep(
        objective,
        parameters,
        optimizer,
        generator,
        partial(autocast_of, config, device),
        config.clip_norm,
    )
    with own_stream(device) if cuda_graph else nullcontext() as stream:
        advance = plain if stream is None else RecordedStep(plain, stream)
        steps = range(start, config.n_steps)
        for step in counted(
            steps, config.n_steps, taken=start, label=label, progress=progress
        ):
            set_learning_rate(optimizer, config.learning_rate_at(step))
            try:
                x = sample(config.batch_size, generator=generator)
                check_range("points in a batch", len(x), low=1)
                told = advance(x)
            except DivergenceError as error:
                message = f"{label} stopped at step {step}: {error}"
                raise DivergenceError(message, step) from error
            # A GPU is waited for once a step.
            value, norm = told.read()
            losses[step] = value
            if not (math.isfinite(value) and math.isfinite(norm)):
                raise diverged(label, step, value, norm, config)
            if stream is None:  # what is recorded has moved the weights itself
                optimizer.step()
            average_weights(averaged_weights, weights, step, config.ema_decay)
            if on_step is not None:
                on_step(step, averaged)
            ends = step + 1 == config.n_steps
            stops = path is not None and bool(worst_of_all(int(out_of_time()), device))
            is_due = ends or stops or (step + 1) % checkpoint_every == 0
            if path is not None and is_due:
                run.save(path, step + 1, losses)
            if stops and not ends:
                raise OutOfTime(f"{label} stopped after step {step}")
    return TrainResult(averaged, losses)
