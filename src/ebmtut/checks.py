"""Validation with one-line messages: the name, the value, what is allowed."""

import difflib
import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "DivergenceError",
    "InputError",
    "check_bits",
    "check_choice",
    "check_finite",
    "check_floating",
    "check_floats",
    "check_range",
    "check_shape",
    "check_states",
    "check_type",
]


class InputError(ValueError):
    """An argument that a function cannot work with.

    The message is one line that names the argument, its value and what is
    allowed.
    """


class DivergenceError(RuntimeError):
    """What is learned, or its loss or gradient, is no longer finite.

    Attributes
    ----------
    step
        The step at which that was found.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


def check_range(
    name: str,
    value: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    include_low: bool = True,
    include_high: bool = True,
    integer: bool = False,
) -> None:
    """Require a finite number between two bounds.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : float
        The number to check.
    low, high : float, optional
        Bounds; None leaves that side open.
    include_low, include_high : bool
        Whether a bound itself is allowed.
    integer : bool
        Whether only integers are allowed.

    Raises
    ------
    InputError
        If `value` is no number, is not finite, is no integer where one is
        asked for, or lies outside the bounds.
    """
    kind = Integral if integer else Real
    # bool is an Integral, but True as a count is a slip, not a number.
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if (
        not is_number
        or not math.isfinite(value)
        or (low is not None and (value < low or (value == low and not include_low)))
        or (high is not None and (value > high or (value == high and not include_high)))
    ):
        noun = "an integer" if integer else "a number"
        rule = _interval(low, high, include_low, include_high)
        raise InputError(f"{name} must be {noun}{rule}, got {value!r}")


def _interval(
    low: float | None, high: float | None, include_low: bool, include_high: bool
) -> str:
    if low is None and high is None:
        return ""
    if high is None:
        return f" {'>=' if include_low else '>'} {low}"
    if low is None:
        return f" {'<=' if include_high else '<'} {high}"
    left, right = "[" if include_low else "(", "]" if include_high else ")"
    return f" in {left}{low}, {high}{right}"


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Require one of a list of names.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : str
        The choice to check.
    choices : iterable of str
        What exists.

    Raises
    ------
    InputError
        If `value` is not among `choices`; the message lists them and
        suggests the closest.
    """
    known = list(choices)
    if value in known:
        return
    close = difflib.get_close_matches(str(value), known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    listing = ", ".join(known) or "nothing"
    raise InputError(f"{name} must be one of {listing}; got {value!r}{hint}")


def check_shape(name: str, tensor: object, shape: Sequence[int | None]) -> None:
    """Require a tensor of a given shape.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    tensor : Tensor
        The tensor to check.
    shape : sequence of int or None
        The sizes; None allows any size.

    Raises
    ------
    InputError
        If `tensor` is no tensor or its shape differs.
    """
    sizes = ["any" if n is None else str(n) for n in shape]
    want = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    if not isinstance(tensor, Tensor):
        kind = type(tensor).__name__
        raise InputError(f"{name} must be a tensor of shape {want}, got {kind}")
    fits = tensor.dim() == len(shape) and all(
        want_n is None or want_n == n
        for want_n, n in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        got = tuple(tensor.shape)
        raise InputError(f"{name} must have shape {want}, got {got}")


def check_finite(name: str, tensor: Tensor) -> None:
    """Require that every entry is finite.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    tensor : Tensor
        The tensor to check.

    Raises
    ------
    InputError
        If an entry is NaN or infinite; the message counts them.
    """
    n_bad = int((~torch.isfinite(tensor)).sum())
    if n_bad:
        raise InputError(
            f"{name} must be finite, got {n_bad} NaN or infinite of {tensor.numel()}"
        )


def check_floating(name: str, dtype: torch.dtype) -> None:
    """Require a floating dtype: with integers every product would be rounded.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    dtype : torch.dtype
        The dtype to check.

    Raises
    ------
    InputError
        If `dtype` is another.
    """
    if not dtype.is_floating_point:
        raise InputError(f"{name} must be floating, got {dtype}")


def check_floats(name: str, tensor: object, shape: Sequence[int | None]) -> Tensor:
    """Require a tensor of floating dtype, of a given shape, that is finite.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    tensor : Tensor
        The tensor to check.
    shape : sequence of int or None
        The sizes; None allows any size.

    Returns
    -------
    Tensor
        The same tensor, without its gradient.

    Raises
    ------
    InputError
        If `tensor` is no tensor, or its shape, its dtype or an entry is another.
    """
    check_shape(name, tensor, shape)
    assert isinstance(tensor, Tensor)
    if not tensor.is_floating_point():
        raise InputError(f"{name} must be a floating tensor, got {tensor.dtype}")
    check_finite(name, tensor)
    return tensor.detach()


def check_type(name: str, value: object, *types: type) -> None:
    """Require an instance of one of some classes.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : object
        What to check.
    *types : type
        The classes, at least one.

    Raises
    ------
    InputError
        If `value` is an instance of none of them.
    """
    if not isinstance(value, types):
        known = " or ".join(kind.__name__ for kind in types)
        raise InputError(f"{name} must be {known}, got {type(value).__name__}")


def check_states(name: str, x: Tensor, n_sites: int | None = None) -> None:
    """Require a batch of floating states, at no cost: their values are not read.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    x : Tensor
        The states, of shape (batch, n_sites), floating.
    n_sites : int, optional
        The number of sites; None allows any.

    Raises
    ------
    InputError
        If the shape or the dtype is another.
    """
    check_shape(name, x, (None, n_sites))
    if not x.is_floating_point():
        raise InputError(f"{name} must be a floating tensor of 0 and 1, got {x.dtype}")


def check_bits(name: str, x: Tensor, n_sites: int | None = None) -> None:
    """Require a batch of binary states.

    Parameters
    ----------
    name, x, n_sites
        As for `check_states`, with values 0 and 1.

    Raises
    ------
    InputError
        If the shape, the dtype or a value is another.
    """
    check_states(name, x, n_sites)
    outside = x[(x != 0) & (x != 1)]
    if outside.numel():
        raise InputError(f"{name} must hold only 0 and 1, got {outside[0].item():g}")
