"""Learning a fully observed Boltzmann machine by matching moments.

Source: Lázaro-Gredilla, Dedieu and George (2021), Algorithm 1 for models without
hidden variables: the gradient of the log-likelihood is the difference between the
data's mean sufficient statistics and the model's, whatever sampler finds these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ebmtut._progress import counted
from ebmtut.checks import (
    DivergenceError,
    InputError,
    Natural,
    NonNegative,
    OneOf,
    checked,
)
from ebmtut.energies import BoltzmannMachine
from ebmtut.losses.loops import LoopMaker, counting
from ebmtut.tensor_checks import check_bits

__all__ = [
    "VARIABLES",
    "Samples",
    "bit_moments",
    "match_moments",
    "persistent_match_moments",
]

#: What the steps of learning are measured in: W and b of the energy
#: -x'Wx / 2 - b'x of bits, or J and h of -s'Js - h's, s = 2x - 1.
VARIABLES = ("bits", "spins")


@runtime_checkable
class Samples(Protocol):
    """What learning reads of the samples' state."""

    @property
    def x(self) -> Tensor:
        """Bits, (n, n_sites)."""


State = TypeVar("State", bound=Samples)


class _Drawn(NamedTuple):
    """Samples that leave nothing to go on from."""

    x: Tensor


def bit_moments(
    x: Float[Tensor, "batch n_sites"],
) -> tuple[Float[Tensor, " n_sites"], Float[Tensor, "n_sites n_sites"]]:
    """Means E[x_i] and E[x_i x_j] of bits.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import bit_moments
    >>> means, pairs = bit_moments(torch.tensor([[1.0, 1.0], [1.0, 0.0]]))
    >>> means
    tensor([1.0000, 0.5000])
    """
    check_bits("x", x, least=1)
    return _moments(x)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.mean(0), x.T @ x / len(x)


@checked
def match_moments(
    x: Float[Tensor, "batch n_sites"],
    sample: Callable[[BoltzmannMachine], Tensor],
    *,
    n_steps: int,
    learning_rate: float = 1e-3,
    penalty: float = 0.0,
    variables: str = "bits",
    on_step: Callable[[int, BoltzmannMachine], None] | None = None,
    progress: bool = False,
    label: str = "learning",
) -> BoltzmannMachine:
    """Learn weights and biases from data, starting at zero, with fresh samples.

    Parameters
    ----------
    sample
        ``sample(model) -> bits (n, n_sites)``, called once a step.
    n_steps, learning_rate
        Of Adam.
    penalty
        Of the l1 norm of the weights.
    variables
        Whose parameters Adam moves and the penalty weighs: in spins W = 8J.
    progress, label
        Whether to show a progress bar, and its name.

    Raises
    ------
    DivergenceError
        As soon as the samples are not finite; the weights never become so.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import match_moments
    >>> from ebmtut.message_passing import perturb_and_max_product
    >>> from ebmtut.random import make_generator
    >>> g = make_generator(0)
    >>> x = torch.randint(2, (50, 3), generator=g).float()
    >>> model = match_moments(
    ...     x, lambda m: perturb_and_max_product(m, 50, 10, generator=g), n_steps=5
    ... )
    >>> model.bias.shape
    torch.Size([3])
    """

    def afresh(state: Samples, model: BoltzmannMachine) -> _Drawn:
        return _Drawn(sample(model))

    model, _ = persistent_match_moments(
        x,
        afresh,
        _Drawn(x),
        n_steps=n_steps,
        learning_rate=learning_rate,
        penalty=penalty,
        variables=variables,
        on_step=on_step,
        progress=progress,
        label=label,
    )
    return model


def _packed(state: Samples) -> dict[str, Tensor]:
    """Return a named tuple's fields as tensors."""
    if not isinstance(state, tuple) or not hasattr(state, "_asdict"):
        raise InputError(
            "state must be a named tuple of tensors and numbers to be kept, "
            f"got {type(state).__name__}"
        )
    packed = {}
    for name, value in state._asdict().items():
        if not isinstance(value, Tensor):
            dtype = torch.float32 if isinstance(value, float) else None
            value = torch.tensor(value, dtype=dtype, device="cpu")
        packed[name] = value
    return packed


def _unpacked(state: Any, packed: Mapping[str, Tensor]) -> Any:
    """Return a named tuple with the fields that `_packed` made tensors of."""
    fields = {
        name: packed[name] if isinstance(value, Tensor) else packed[name].item()
        for name, value in state._asdict().items()
    }
    return state._replace(**fields)


@checked
def persistent_match_moments(
    x: Float[Tensor, "batch n_sites"],
    advance: Callable[[State, BoltzmannMachine], State],
    state: State,
    *,
    n_steps: Natural,
    learning_rate: NonNegative = 1e-3,
    penalty: NonNegative = 0.0,
    variables: Annotated[str, OneOf(VARIABLES)] = "bits",
    on_step: Callable[[int, BoltzmannMachine], None] | None = None,
    progress: bool = False,
    label: str = "learning",
    loop: LoopMaker = counting,
) -> tuple[BoltzmannMachine, State]:
    """Learn as :func:`match_moments` does, with samples that go on.

    Returns the model, and the state of the samples.

    Parameters
    ----------
    x, n_steps, learning_rate, penalty, variables, on_step, progress, label
        As for :func:`match_moments`.
    advance
        ``advance(state, model) -> state``, called once a step.
    state
        Where the samples are before the first step; has the bits ``x``.
    loop
        Makes what counts the steps. ``partial(ResumableLoop, file, identity,
        generator=...)`` can be stopped; ``state`` must then be a named tuple of tensors
        and numbers.
    """
    mean, second = bit_moments(x)
    n_sites = x.shape[1]
    model = BoltzmannMachine(
        x.new_zeros(n_sites, n_sites), x.new_zeros(n_sites), learnable=True
    )
    in_spins = variables == "spins"
    pairs, fields = (
        nn.Parameter(torch.zeros_like(p)) if in_spins else p
        for p in (model.weight, model.bias)
    )
    optimizer = torch.optim.Adam([pairs, fields], lr=learning_rate)
    kept = loop is not counting
    held = _packed(state) if kept else {}
    moved = nn.ParameterList([pairs, fields])
    parts = {"model": model, "moved": moved, "optimizer": optimizer}
    updates = loop(parts, held=held)
    if updates.taken:
        state = _unpacked(state, held)
    steps = updates.steps(n_steps)
    for step in counted(
        steps, n_steps, taken=updates.taken, label=label, progress=progress
    ):
        state = advance(state, model)
        if kept:
            held.update(_packed(state))
        if step == 0:  # spins, say, would be matched without a word
            check_bits("samples", state.x, n_sites, least=1)
        sample_mean, sample_second = _moments(state.x)
        # The diagonal holds the squares, so this one check covers the means as well.
        if not sample_second.isfinite().all():
            raise DivergenceError(
                f"{label} diverged at step {step}: samples are not finite; try a "
                f"smaller learning_rate ({learning_rate})",
                step,
            )
        excess, mean_excess = sample_second - second, sample_mean - mean
        if in_spins:
            # d/dJ counts each pair twice, and <ss'> = 4 <xx'> - 2 <x> - 2 <x'> + 1.
            excess = 8 * excess - 4 * (mean_excess[:, None] + mean_excess)
            mean_excess = 2 * mean_excess
        # Symmetric gradients keep a symmetric W; its diagonal plays no part.
        gradient = excess + penalty * pairs.detach().sign()
        pairs.grad = gradient.fill_diagonal_(0)
        fields.grad = mean_excess
        optimizer.step()
        if in_spins:
            with torch.no_grad():
                model.weight.copy_(8 * pairs)
                model.bias.copy_(2 * fields - 4 * pairs.sum(dim=1))
        if on_step is not None:
            on_step(step, model)
    return model, state
