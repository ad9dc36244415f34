"""Validation of tensors: shape, dtype, finite entries, bits.

To look at entries is to wait for the GPU that holds them. A step of training, which
waits for its loss anyway, looks at both together: `postponed_checks`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Num
from numpy.typing import NDArray
from torch import Tensor, nn

from ebmtut.checks import InputError, check_range, check_type, shown

__all__ = [
    "PostponedChecks",
    "check_bits",
    "check_clamp_values",
    "check_device",
    "check_finite",
    "check_floating",
    "check_floats",
    "check_only_bits",
    "check_shape",
    "check_states",
    "check_vectors",
    "check_weights",
    "check_within",
    "postponed_checks",
    "refuse",
]


class PostponedChecks:
    """What checks found on a GPU, not yet looked at.

    Attributes
    ----------
    flags
        Whether an entry is bad, of each check in its turn; on the device.
    """

    def __init__(self) -> None:
        self.flags: list[Bool[Tensor, ""]] = []
        self._messages: list[Callable[[], str]] = []

    def add(self, flag: Bool[Tensor, ""], message: Callable[[], str]) -> None:
        """Keep a flag, and what to say should it be set."""
        self.flags.append(flag)
        self._messages.append(message)

    def tell(self, flags: Sequence[float]) -> None:
        """Raise what the first of the flags that is set has to say."""
        for flag, message in zip(flags, self._messages, strict=True):
            if flag:
                raise InputError(message())

    def read(self) -> None:
        """Wait for the flags, and tell them; as `tell`."""
        if self.flags:
            self.tell(torch.stack(self.flags).tolist())


_PIECE = 2**16  # entries that numpy looks at before the next

_POSTPONED: ContextVar[PostponedChecks | None] = ContextVar("postponed", default=None)


@contextmanager
def postponed_checks() -> Iterator[PostponedChecks]:
    """Let no check of entries wait for a GPU: whoever opens this reads what they found.

    On a processor a check still raises at once. If what runs inside fails, the flags
    are read first.
    """
    checks = PostponedChecks()
    token = _POSTPONED.set(checks)
    try:
        yield checks
    except Exception:
        checks.read()
        raise
    finally:
        _POSTPONED.reset(token)


def refuse(bad: Bool[Tensor, "..."], message: Callable[[], str]) -> None:
    """Raise an error if an entry is bad, now or where flags are read."""
    checks = _POSTPONED.get()
    if checks is not None and bad.device.type != "cpu":
        checks.add(bad.any(), message)
    elif bad.any():
        raise InputError(message())


def _all_entries(
    tensor: Num[Tensor, "..."], good: Callable[[NDArray[Any]], NDArray[np.bool_]]
) -> bool:
    """Say whether all entries are good, as far as numpy can look at them.

    On a CPU it does so several times as fast as torch.
    """
    if tensor.device.type != "cpu":
        return False
    try:
        entries = tensor.detach().numpy().reshape(-1)
    except (RuntimeError, TypeError):  # a tensor within torch.func, or in bfloat16
        return False
    begins = range(0, entries.size, _PIECE)
    return all(good(entries[k : k + _PIECE]).all() for k in begins)


def check_shape(name: str, tensor: object, shape: Sequence[int | None]) -> None:
    """Require a tensor of a given shape.

    Parameters
    ----------
    tensor, shape
        What to check, and its sizes; None allows any size.
    """
    sizes = ["any" if n is None else str(n) for n in shape]
    want = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    if not isinstance(tensor, Tensor):
        raise InputError(
            f"{name} must be a tensor of shape {want}, got {shown(tensor)}"
        )
    fits = tensor.dim() == len(shape) and all(
        want_n is None or want_n == n
        for want_n, n in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        got = tuple(tensor.shape)
        raise InputError(f"{name} must have shape {want}, got {got}")


def check_device(device: str | torch.device) -> None:
    """Require a device that is there and holds numbers."""
    try:
        kind = torch.empty(0, device=device, dtype=torch.float32).device.type
    except (AssertionError, RuntimeError, TypeError):  # of a build without CUDA, too
        kind = "meta"
    if kind == "meta":
        raise InputError(f"device must be one that is here, such as cpu, got {device}")


def check_finite(name: str, tensor: Num[Tensor, "..."]) -> None:
    """Require that every entry is finite."""
    if _all_entries(tensor, np.isfinite):
        return
    bad = ~torch.isfinite(tensor)
    refuse(
        bad,
        lambda: (
            f"{name} must be finite, got {int(bad.sum())} NaN or infinite "
            f"of {tensor.numel()}"
        ),
    )


def check_weights(model: nn.Module) -> None:
    """Require finite weights of a model: kernels do not look at what they compute."""
    for name, value in model.state_dict().items():
        check_finite(f"{name} of the model", value)


def check_floating(name: str, dtype: torch.dtype) -> None:
    """Require a floating dtype: with integers every product would be rounded."""
    if not dtype.is_floating_point:
        raise InputError(f"{name} must be floating, got {dtype}")


def check_floats(
    name: str, tensor: object, shape: Sequence[int | None]
) -> Float[Tensor, "..."]:
    """Require a tensor of floating dtype, of a given shape, that is finite.

    Parameters
    ----------
    name, tensor, shape
        As for `check_shape`; returned without its gradient.
    """
    check_shape(name, tensor, shape)
    assert isinstance(tensor, Tensor)
    if not tensor.is_floating_point():
        raise InputError(f"{name} must be a floating tensor, got {tensor.dtype}")
    check_finite(name, tensor)
    return tensor.detach()


def check_states(
    name: str, x: Float[Tensor, "batch n_sites"], n_sites: int | None = None
) -> None:
    """Require a batch of floating states, at no cost: their values are not read."""
    check_shape(name, x, (None, n_sites))
    if not x.is_floating_point():
        raise InputError(f"{name} must be a floating tensor of 0 and 1, got {x.dtype}")


def check_bits(
    name: str,
    x: Float[Tensor, "batch n_sites"],
    n_sites: int | None = None,
    *,
    least: int = 0,
) -> None:
    """Require a batch of binary states."""
    check_states(name, x, n_sites)
    check_range(f"len({name})", len(x), low=least, integer=True)
    check_only_bits(name, x)


def check_only_bits(name: str, tensor: Num[Tensor, "..."]) -> None:
    """Require that every entry is 0 or 1."""
    if _all_entries(tensor, lambda entries: (entries == 0) | (entries == 1)):
        return
    bad = (tensor != 0) & (tensor != 1)
    refuse(bad, lambda: f"{name} must hold only 0 and 1, got {tensor[bad][0].item():g}")


def check_clamp_values(clamp: Float[Tensor, "..."]) -> None:
    """Require 0 or 1 for every site that is held, and NaN for one that is free."""
    bad = (clamp != 0) & (clamp != 1) & ~clamp.isnan()
    refuse(
        bad,
        lambda: (
            f"clamp must be 0, 1, or NaN for a free site, got {clamp[bad][0].item():g}"
        ),
    )


def check_vectors(name: str, x: object) -> None:
    """Require a batch of real states, of any shape, at the cost of a look at each."""
    check_type(name, x, Tensor)
    assert isinstance(x, Tensor)
    if x.dim() < 2:
        raise InputError(
            f"{name} must have shape (batch, ...), a row a state, got {tuple(x.shape)}"
        )
    if not x.is_floating_point():
        raise InputError(f"{name} must be a floating tensor, got {x.dtype}")
    check_finite(name, x)


def check_within(
    name: str, tensor: Num[Tensor, "..."], low: float, high: float
) -> None:
    """Require that every entry is in [low, high]."""
    if _all_entries(tensor, lambda entries: (entries >= low) & (entries <= high)):
        return

    def message() -> str:
        least, largest = (float(v) for v in tensor.detach().aminmax())
        return f"{name} must be in [{low:g}, {high:g}], got {least:g} to {largest:g}"

    refuse(~((tensor >= low) & (tensor <= high)), message)
