"""Validation with one-line messages: the name, the value, what is allowed.

The checks of tensors are in `ebmtut.tensor_checks`; nothing here imports torch.
"""

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

__all__ = [
    "DivergenceError",
    "InputError",
    "check_choice",
    "check_counts",
    "check_positive",
    "check_range",
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
    name
        Name of the argument, for the message.
    value
        The number to check.
    low, high
        Bounds; None leaves that side open.
    include_low, include_high
        Whether a bound itself is allowed.
    integer
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


def check_counts(*, low: int = 1, **values: Any) -> None:
    """Require integers that are not too small.

    Parameters
    ----------
    low
        The least that is allowed.
    **values
        The integers by their names.

    Raises
    ------
    InputError
        For the first that is none or less than `low`.
    """
    for name, value in values.items():
        check_range(name, value, low=low, integer=True)


def check_positive(**values: Any) -> None:
    """Require finite numbers above zero.

    Parameters
    ----------
    **values
        The numbers by their names.

    Raises
    ------
    InputError
        For the first that is none.
    """
    for name, value in values.items():
        check_range(name, value, low=0, include_low=False)


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
    name
        Name of the argument, for the message.
    value
        The choice to check.
    choices
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


def check_type(name: str, value: object, *types: type) -> None:
    """Require an instance of one of some classes.

    Parameters
    ----------
    name
        Name of the argument, for the message.
    value
        What to check.
    *types
        The classes, at least one.

    Raises
    ------
    InputError
        If `value` is an instance of none of them.
    """
    if not isinstance(value, types):
        known = " or ".join(kind.__name__ for kind in types)
        raise InputError(f"{name} must be {known}, got {type(value).__name__}")
